// The commands that read recordings: recognise, evaluate, align.
#include "support/commands.hpp"

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

#include "speech.hpp"
#include "support/log.hpp"
#include "support/output.hpp"
#include "support/processes.hpp"
#include "support/run_directory.hpp"

namespace attune::speech {
namespace {

enum class AlignFormat { tsv, json, textgrid };

struct Arguments {
  std::filesystem::path model = default_model;
  HearOptions hear = {};
  bool json = false;
  std::vector<std::string> inputs = {};  // recordings, of which none is standard input; or lists
  Index rate = 0;                        // of standard input; 0: the model's
  double pause = 0.5;         // seconds of quiet that end an utterance of it; 0: only its end does
  std::string digits = {};    // directory of digits, of which
  Index first = 5, last = 9;  // these recordings are measured by themselves and as strings
  Index longest = 12;         // digits of the longest
  Index strings = 100;        // of each length
  std::filesystem::path list = {};  // to align
  AlignFormat format = AlignFormat::tsv;
  std::filesystem::path out = {};  // a file, or a directory for textgrid
};

// ---- Times of tokens

/// A token, and from when to when, in seconds.
struct Timed {
  std::string token;
  double begin, end;
  double probability;
};

/// Times by what the decoder attended to in a recording of so many seconds. The model must attend.
/// Throws as `stretches` does, and where the scores are not finite.
std::vector<Timed> timed(const Model& model, const models::Hypothesis& h, double seconds) {
  if (!std::isfinite(h.log_probability)) fail("align", "the model's scores are not numbers");
  std::vector<Timed> all;
  for (const auto& [begin, end] : stretches(h.weights, std::ssize(h.words))) {
    const std::size_t i = all.size();
    all.push_back({model.codec.vocabulary.token(h.words[i]), model.time(begin), model.time(end),
                   std::exp(h.word_log_probabilities[i])});
  }
  // The last annotation may stand for more frames than there are.
  if (!all.empty()) all.back().end = seconds;
  return all;
}

/// The times of given tokens.
std::vector<Timed> align(const Model& model, const Utterance& utterance) {
  return timed(model, model.force(utterance), model.seconds(utterance.samples.size()));
}

report::Json json_of(std::span<const Timed> tokens) {
  std::vector<report::LogFields> all;
  for (const auto& [token, begin, end, probability] : tokens)
    all.push_back({{"token", token}, {"begin", begin}, {"end", end}, {"probability", probability}});
  return all;
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
}

/// The recording, cut at pauses where it is long: memory and time grow as the square of its length.
std::vector<Part> parts_of(const std::string& file, const Arguments& options, Index rate) {
  constexpr double longest = 30;  // seconds
  const Recording recording = read_audio(file);
  std::vector<float> samples = reading(file, [&] { return at_rate(recording, rate); });
  if (recording.channels > 1)
    complain("{}: using the mean of its {} channels\n", file, recording.channels);
  if (recording.rate != rate)
    complain("{}: converted from {} to {} samples per second\n", file, recording.rate, rate);
  const std::string name = options.json || options.inputs.size() > 1 ? file : "";
  if (samples.size() <= longest * rate) return {{name, {std::move(samples), 0}}};
  PauseCutter cutter(rate, options.pause);
  std::vector<Part> parts;
  for (Piece& piece : cutter.add(samples)) parts.push_back({name, std::move(piece)});
  if (Piece last = cutter.flush(); !last.samples.empty()) parts.push_back({name, std::move(last)});
  if (options.pause > 0)
    complain("{}: it is longer than {} s, and is cut at its pauses: {} lines\n", file, longest,
             parts.size());
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

/// Writes recordings, or samples of standard input, as text.
int recognise(const Arguments& options) {
  const Model model = Model::load(options.model);
  options.inputs.empty() ? recognise_stream(model, options) : recognise_files(model, options);
  return 0;
}

// ---- evaluate

void print(const std::string& name, const CountsByLength& counts, bool json) {
  constexpr CountNames names = {.examples = "utterances", .right = "all right"};
  if (json)
    return say("{}\n", report::log_line({{"data", name},
                                         {"all", json_of(total(counts), names)},
                                         {"by_length", json_of(counts, names)}}));
  say("{}\n", name);
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

/// Token errors by length.
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

// ---- align

std::string tsv_of(const std::string& file, std::span<const Timed> tokens) {
  std::string text;
  for (const auto& [token, begin, end, probability] : tokens)
    text += fmt::format("{}\t{:.3f}\t{:.3f}\t{}\t{:.4f}\n", printable(file), begin, end,
                        printable(token), probability);
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
    std::string token = printable(tokens[i].token);
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
    fail(listed.where, in_quotes(listed.transcript) + " is not all in the model's vocabulary");
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

/// When each token of a list's transcripts was heard.
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

}  // namespace

void add_uses(Commands& commands) {
  static Arguments o;
  const auto number = [](const char* name, const char* help, auto member, double low, double high) {
    return models::number_field<Arguments>(name, help, member, low, high);
  };
  const auto text = [](const char* name, const char* help, auto member) {
    return models::text_field<Arguments>(name, help, member);
  };
  const Fields<HearOptions> hearing = {
      models::number_field<HearOptions>("beam", "beam size of the search; 1 is greedy",
                                        &HearOptions::beam, 1, 100),
      models::flag_field<HearOptions, bool>("no-ctc", "search by attention alone",
                                            &HearOptions::ctc, true, false)};
  const char* const list = "file: RECORDING TAB TRANSCRIPT, a line each";
  commands
      .add("recognise", "write what is said in recordings", "7_jackson_5.wav --json",
           [] { return recognise(o); })
      .arguments("files",
                 "recordings (WAV, FLAC, Ogg); without any, raw samples of 16 bits, little-endian, "
                 "of one channel are read from standard input",
                 o.inputs)
      .model(o.model)
      .add(hearing, o.hear)
      .add({number("rate", "samples per second of standard input (default: the model's)",
                   &Arguments::rate, 1000, 192000),
            number("pause",
                   "seconds of quiet after which a line is written for what was said "
                   "until then on standard input; 0: one line at its end",
                   &Arguments::pause, 0, 60),
            json_field(&Arguments::json,
                       "one JSON object a line: text, probability, tokens with times")},
           o);
  commands
      .add("evaluate", "measure a model, by length", "--digits recordings --first 0 --last 4",
           [] { return evaluate(o); })
      .arguments("lists", list, o.inputs)
      .model(o.model)
      .add(hearing, o.hear)
      .add({text("digits",
                 "instead of lists: directory of the Free Spoken Digit Dataset, whose "
                 "recordings are measured one by one, and joined to strings",
                 &Arguments::digits),
            number("first", "number of the first recording; weights are chosen by 5 to 9",
                   &Arguments::first, 0, 1e6),
            number("last", "number of the last recording", &Arguments::last, 0, 1e6),
            number("max-digits", "digits of a string at most", &Arguments::longest, 1, 100),
            number("strings", "of each length", &Arguments::strings, 1, 10000),
            json_field(&Arguments::json, "a line of JSON for each of them")},
           o);
  commands
      .add("align", "when each word of a transcript was said",
           "list.tsv --format textgrid --out times", [] { return align(o); })
      .argument("list", list, o.list)
      .model(o.model)
      .add({models::choice_field<Arguments, AlignFormat>(
                "format", "of the times; textgrid, Praat's, is a file for each recording",
                &Arguments::format,
                {{AlignFormat::json, "json"},
                 {AlignFormat::textgrid, "textgrid"},
                 {AlignFormat::tsv, "tsv"}}),
            text("out", "file to write (default: standard output), or directory", &Arguments::out)},
           o);
}

}  // namespace attune::speech
