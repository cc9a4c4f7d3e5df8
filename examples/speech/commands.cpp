// The commands that use a model: recognise, evaluate, align, report.
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include <attune/models/heatmap.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

#include "speech.hpp"
#include "support/chart.hpp"
#include "support/log.hpp"
#include "support/output.hpp"
#include "support/page.hpp"
#include "support/processes.hpp"
#include "support/run_directory.hpp"

namespace attune::speech {
namespace {

report::JsonText json_of(std::span<const Timed> tokens) {
  std::vector<report::LogValue> all;
  for (const auto& [token, begin, end, probability] : tokens) {
    const report::LogFields fields = {
        {"token", token}, {"begin", begin}, {"end", end}, {"probability", probability}};
    all.emplace_back(report::JsonText{report::log_line(fields)});
  }
  return report::json_list(all);
}

// ---- recognise

/// A waveform to recognise, and the file that it is from.
struct Part {
  std::string file;  // may be empty
  Piece piece;
};

void print(const Model& model, const models::Hypothesis& h, const Part& part, bool as_json) {
  const std::string text = model.codec.decode(h.words), file = printable(part.file);
  if (!as_json) return say("{}{}{}\n", file, file.empty() ? "" : "\t", printable(text));
  const double begin = model.seconds(part.piece.begin);
  report::LogFields line = {
      {"begin", begin}, {"text", text}, {"probability", std::exp(h.log_probability)}};
  if (!part.file.empty()) line.insert(line.begin(), {"file", part.file});
  if (h.weights.defined()) {
    auto tokens = timed(model, h, model.seconds(part.piece.samples.size()));
    for (Timed& one : tokens) one.begin += begin, one.end += begin;
    line.push_back({"tokens", json_of(tokens)});
  }
  say("{}\n", report::log_line(line));
}

void hear(const Model& model, const Arguments& options, std::span<const Part> parts) {
  std::vector<std::vector<float>> waveforms;
  for (const Part& part : parts) waveforms.push_back(part.piece.samples);
  const auto found =
      reading(options.model, [&] { return model.recognise(waveforms, options.hear); });
  for (std::size_t i = 0; i < parts.size(); ++i) print(model, found[i], parts[i], options.json);
  std::fflush(stdout);
}

/// The recording, cut at pauses where it is long: memory and time grow as the square of its length.
std::vector<Part> parts_of(const std::string& file, const Arguments& options, Index rate) {
  constexpr double longest = 30;  // seconds
  const Recording recording = read_audio(file);
  std::vector<float> samples = reading(file, [&] { return at_rate(recording, rate); });
  if (recording.channels > 1)
    complain("{}: using the mean of its {} channels\n", printable(file), recording.channels);
  if (recording.rate != rate)
    complain("{}: converted from {} to {} samples per second\n", printable(file), recording.rate,
             rate);
  const std::string name = options.json || options.inputs.size() > 1 ? file : "";
  if (samples.size() <= longest * rate) return {{name, {std::move(samples), 0}}};
  PauseCutter cutter(rate, options.pause);
  std::vector<Part> parts;
  for (Piece& piece : cutter.add(samples)) parts.push_back({name, std::move(piece)});
  if (Piece last = cutter.flush(); !last.samples.empty()) parts.push_back({name, std::move(last)});
  if (options.pause > 0)
    complain("{}: it is longer than {} s, and is cut at its pauses: {} lines\n", printable(file),
             longest, parts.size());
  return parts;
}

void recognise_files(const Model& model, const Arguments& options) {
  constexpr std::size_t at_once = 256;
  const auto& files = options.inputs;
  for (const std::string& file : files) seconds_of(file);  // throws before any is recognised
  std::vector<Part> parts;
  for (std::size_t i = 0; i < files.size(); ++i) {
    std::ranges::move(parts_of(files[i], options, model.rate()), std::back_inserter(parts));
    if ((i + 1) % at_once == 0 || i + 1 == files.size())
      hear(model, options, std::exchange(parts, {}));
  }
}

/// The next bytes of standard input, a few milliseconds of samples; none at its end. Throws where
/// it cannot be read, or ends within a sample.
std::string next_bytes() {
  std::array<char, 160> bytes;
  const std::size_t count = std::fread(bytes.data(), 1, bytes.size(), stdin);
  if (std::ferror(stdin))
    fail("standard input", fmt::format("it cannot be read: {}", std::strerror(errno)));
  if (count % 2 != 0)
    fail("standard input", "samples of 16 bits were expected, but it ends after half of one");
  return {bytes.data(), count};
}

/// Of 16 bits, little-endian, of one channel.
std::vector<float> samples_of(std::string_view bytes) {
  std::vector<float> samples;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    const auto low = static_cast<unsigned char>(bytes[i]);
    const auto high = static_cast<signed char>(bytes[i + 1]);
    samples.push_back(static_cast<float>(256 * high + low) / 32768);
  }
  return samples;
}

void recognise_stream(const Model& model, const Arguments& options) {
  constexpr Index most = 1 << 28;  // samples of one utterance
  if (isatty(STDIN_FILENO)) complain("raw samples are read from standard input\n");
  const Index rate = options.rate > 0 ? options.rate : model.rate();
  const double ratio = static_cast<double>(model.rate()) / static_cast<double>(rate);
  const auto hear_piece = [&](Piece piece) {
    if (piece.samples.empty()) return;
    const Recording recording{.samples = std::move(piece.samples), .rate = rate};
    const auto begin = static_cast<Index>(piece.begin * ratio);
    const Part part{"", {at_rate(recording, model.rate()), begin}};
    hear(model, options, std::span(&part, 1));
  };
  PauseCutter cutter(rate, options.pause);
  Index read = 0;
  for (std::string bytes = next_bytes(); !bytes.empty(); bytes = next_bytes()) {
    const std::string head = bytes.substr(0, 4);
    if (read == 0 && (head == "RIFF" || head == "fLaC" || head == "OggS"))
      fail("standard input",
           "raw samples were expected, but it is an audio file: give its name as an argument");
    read += std::ssize(bytes) / 2;
    if (options.pause == 0 && read > most)
      fail("standard input", fmt::format("it has more than {} samples, and no --pause", most));
    for (Piece& piece : cutter.add(samples_of(bytes))) hear_piece(std::move(piece));
  }
  hear_piece(cutter.flush());
}

// ---- evaluate

void print(const std::string& name, const CountsByLength& counts, bool json) {
  constexpr CountNames names = {.examples = "utterances", .right = "all right"};
  if (json)
    return say("{}\n", report::log_line({{"data", name},
                                         {"all", report::JsonText{json_of(total(counts), names)}},
                                         {"by_length", report::JsonText{json_of(counts, names)}}}));
  say("{}\n", printable(name));
  print_table(counts, names);
}

/// Median distance in seconds between the ends of tokens by attention and the true ones, without
/// the last token of each utterance.
double median_distance(const Model& model, std::span<const Utterance> utterances) {
  std::vector<double> distances;
  for (const Utterance& one : utterances) {
    stop_if_interrupted();
    const std::vector<Timed> tokens = align(model, one);
    for (std::size_t u = 0; u + 1 < one.ends.size(); ++u)
      distances.push_back(std::abs(tokens[u].end - model.seconds(one.ends[u])));
  }
  const auto middle = distances.begin() + std::ssize(distances) / 2;
  std::ranges::nth_element(distances, middle);
  return *middle;
}

// ---- align

std::string tsv_of(const std::string& file, std::span<const Timed> tokens) {
  std::string text;
  for (const auto& [token, begin, end, probability] : tokens)
    text += fmt::format("{}\t{:.3f}\t{:.3f}\t{}\t{:.4f}\n", file, begin, end, token, probability);
  return text;
}

std::string line_of(const std::string& file, std::span<const Timed> tokens) {
  return report::log_line(
             {{"file", file}, {"seconds", tokens.back().end}, {"tokens", json_of(tokens)}}) +
         "\n";
}

/// Praat's long text format: one tier of intervals. In its strings, quotes are doubled.
std::string textgrid_of(std::span<const Timed> tokens) {
  std::string text = fmt::format(
      "File type = \"ooTextFile\"\nObject class = \"TextGrid\"\n\nxmin = 0\nxmax = {0}\n"
      "tiers? <exists>\nsize = 1\nitem []:\n    item [1]:\n        class = \"IntervalTier\"\n"
      "        name = \"tokens\"\n        xmin = 0\n        xmax = {0}\n"
      "        intervals: size = {1}\n",
      tokens.back().end, tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string token = tokens[i].token;
    for (std::size_t at = 0; (at = token.find('"', at)) != token.npos; at += 2)
      token.insert(at, 1, '"');
    text += fmt::format(
        "        intervals [{}]:\n            xmin = {}\n            xmax = {}\n"
        "            text = \"{}\"\n",
        i + 1, tokens[i].begin, tokens[i].end, token);
  }
  return text;
}

std::vector<Timed> align(const Model& model, const Listed& listed) {
  const Utterance utterance = read_utterance(listed, model.codec, model.rate());
  if (std::ranges::count(utterance.tokens, text::Vocabulary::unknown) > 0)
    fail(listed.where, fmt::format("'{}' is not all in the model's vocabulary", listed.transcript));
  return reading(listed.where, [&] { return align(model, utterance); });
}

/// The TextGrid file of each utterance. Throws where two have the same.
std::map<std::filesystem::path, Listed> textgrid_files(const std::vector<Listed>& list,
                                                       const std::filesystem::path& directory) {
  if (directory.empty()) fail("--out", "a directory for the TextGrid files was expected");
  std::map<std::filesystem::path, Listed> files;
  for (const Listed& listed : list) {
    const auto file = directory / listed.file.filename().replace_extension(".TextGrid");
    const auto [at, is_new] = files.emplace(file, listed);
    if (!is_new)
      fail(listed.where,
           fmt::format("{} would be written for {}, too", file.string(), at->second.where));
  }
  return files;
}

// ---- report

/// Utterances to measure and to draw, and what they are.
struct Data {
  std::string name;
  std::vector<Utterance> utterances;
};

Data data_of(const Model& model, const Arguments& options) {
  if (options.list.empty() && !model.options.digits.empty())
    return {
        "strings of recordings 5 to 9 of each digit and speaker, by which the weights were chosen",
        Digits::for_validation(model.options.digits, model.rate()).strings(1, 12, 10, 1)};
  const std::string list = options.list.empty() ? model.options.valid_list : options.list.string();
  return {list, read_utterances(list, model.codec, model.rate())};
}

/// Rows of the mean of two bands each, the highest first, in columns of `joined` frames, as shares
/// of the range of all.
void add_spectrogram(report::Heatmap& map, const Tensor& heard, Index places, Index joined) {
  const Index frames = heard.dim(0), bands = heard.dim(1), rows = (bands + 1) / 2;
  const std::vector<double> values = heard.to_vector<double>();
  const auto [low, high] = std::ranges::minmax(values);
  for (Index row = rows - 1; row >= 0; --row) {
    map.rows.push_back(row == rows - 1 ? "high" : row == 0 ? "low" : "");
    for (Index s = 0; s < places; ++s) {
      double sum = 0, count = 0;
      for (Index t = s * joined; t < std::min(frames, (s + 1) * joined); ++t)
        for (Index band = 2 * row; band < std::min(bands, 2 * row + 2); ++band, ++count)
          sum += values[t * bands + band];
      map.weights.push_back(high > low ? (sum / count - low) / (high - low) : 0);
    }
  }
}

/// A column for each annotation: what was attended to at each token, and below it the spectrogram.
report::Heatmap picture(const Model& model, const Utterance& utterance,
                        const models::Hypothesis& h) {
  const Index places = h.weights.dim(1);
  report::Heatmap map{
      .rows = {}, .columns = {}, .weights = h.weights.to_vector<double>(), .caption = ""};
  for (Index s = 0; s < places; ++s)
    map.columns.push_back(s % 5 == 0 ? fmt::format("{:.2f} s", model.time(s)) : "");
  for (const std::int32_t word : h.words) map.rows.push_back(model.codec.vocabulary.token(word));
  if (h.complete) map.rows.push_back("end");
  add_spectrogram(map, model.hear(utterance.samples), places, model.options.frames_joined());
  return map;
}

void add_examples(report::Page& page, const Model& model, const Data& data, Index count) {
  page.heading("What was attended to");
  page.paragraph(
      "Each row above is a token that was written, and how much of its attention each stretch of "
      "the recording had. Below it is the spectrogram that was heard, high tones at the top.");
  const Index all = std::ssize(data.utterances);
  count = std::min(count, all);
  for (Index i = 0; i < count; ++i) {
    const Utterance& one = data.utterances[(2 * i + 1) * all / (2 * count)];
    const auto found = model.recognise(std::span(&one.samples, 1)).front();
    const std::string caption = fmt::format("said: {}; heard: {}", model.codec.decode(one.tokens),
                                            model.codec.decode(found.words));
    if (!found.weights.defined())
      page.paragraph(caption);
    else
      page.figure(report::svg(picture(model, one, found), {.cell = 9}), caption);
  }
}

}  // namespace

int recognise(const Arguments& options) {
  const Model model = Model::load(options.model);
  options.inputs.empty() ? recognise_stream(model, options) : recognise_files(model, options);
  return 0;
}

int evaluate(const Arguments& options) {
  if (options.digits.empty() == options.inputs.empty())
    fail("evaluate", "lists, or --digits DIRECTORY, were expected");
  const Model model = Model::load(options.model);
  const auto measure = [&](const std::string& name, const std::vector<Utterance>& utterances) {
    print(name, evaluate(model, utterances, options.hear), options.json);
  };
  for (const std::string& list : options.inputs)
    measure(list, read_utterances(list, model.codec, model.rate()));
  if (options.digits.empty()) return 0;
  const Digits digits(options.digits, options.first, options.last, model.rate());
  const auto joined = digits.strings(1, options.longest, options.strings, 1);
  measure(fmt::format("single recordings, {} to {}", options.first, options.last), digits.single());
  if (!options.json) say("\n");
  measure("strings of them", joined);
  if (options.json || options.longest < 2 || !model.options.attends) return 0;
  say("\nDistance of the end of a digit by attention from its true end: {:.3f} s (median)\n",
      median_distance(model, joined));
  return 0;
}

int align(const Arguments& options) {
  const std::vector<Listed> list = read_list(options.list);
  std::map<std::filesystem::path, Listed> grids;
  if (options.format == AlignFormat::textgrid) {
    grids = textgrid_files(list, options.out);
  } else if (!options.out.empty()) {
    std::vector<std::filesystem::path> inputs = {options.model, options.list};
    for (const Listed& listed : list) inputs.push_back(listed.file);
    require_writable(options.out, inputs);
  }
  const Model model = Model::load(options.model);
  if (!model.options.attends)
    fail(options.model.string(), "it has no attention, which alignment needs");
  if (!grids.empty()) {
    make_directories(options.out);
    for (const auto& [file, listed] : grids) write_file(file, textgrid_of(align(model, listed)));
    return 0;
  }
  const bool tsv = options.format == AlignFormat::tsv;
  std::string text = tsv ? "file\tbegin\tend\ttoken\tprobability\n" : "";
  for (const Listed& listed : list)
    text += (tsv ? tsv_of : line_of)(listed.file.string(), align(model, listed));
  options.out.empty() ? say("{}", text) : write_file(options.out, text);
  return 0;
}

int report(const Arguments& options) {
  const auto path = page_path(options.out, options.model.parent_path());
  const Model model = Model::load(options.model);
  const Data data = data_of(model, options);
  const CountsByLength counts = evaluate(model, data.utterances, {});
  const Counts all = total(counts);
  report::Page page(run_names(std::span(&options.model, 1)).front() + ": what was heard");
  page.definitions({{"Token error", fmt::format("{:.2f} %", 100 * all.edits.rate())},
                    {"All right", fmt::format("{:.1f} %", 100 * all.share_right())},
                    {"Utterances", grouped(all.examples)},
                    {"Parameters", grouped(model.parameters->count())},
                    {"Trained for", duration(seconds_in(model.metadata))}});
  page.paragraph(fmt::format("Measured on {}; beam size {}.", data.name, HearOptions().beam));
  add_examples(page, model, data, options.examples);
  report::Series errors{.name = "", .x = {}, .y = {}};
  for (const auto& [length, some] : counts) {
    errors.x.push_back(static_cast<double>(length));
    errors.y.push_back(100 * some.edits.rate());
  }
  page.heading("Errors").figure(report::svg(report::Chart{.title = "By length",
                                                          .x_label = "tokens that were said",
                                                          .y_label = "token error (%)",
                                                          .series = {errors}}),
                                "");
  add_learning_curves(page, options.model.parent_path() / "log.jsonl", "loss, and token error (%)",
                      {{"loss", "loss in training"}, {"token_error", "error, validation", 100}},
                      true);
  add_card(page, model.metadata);
  write_page(page, path);
  return 0;
}

}  // namespace attune::speech
