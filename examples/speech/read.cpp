// What recordings say, and how often the model reads it right.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include <attune/tensor/check.hpp>

#include "speech.hpp"
#include "support/log.hpp"
#include "support/output.hpp"
#include "support/processes.hpp"
#include "support/run_directory.hpp"

namespace attune::speech {
namespace {

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
      reading(options.model, [&] { return recognise(model, waveforms, options.hear); });
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

/// Samples of 16 bits, little-endian, of one channel, as they come.
class SampleStream {
 public:
  /// Waits for some; none at the end.
  std::vector<float> read() {
    std::array<char, 1 << 14> bytes;
    ssize_t count;
    do {
      count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
    } while (count < 0 && errno == EINTR);
    if (count < 0)
      fail("standard input", fmt::format("it cannot be read: {}", std::strerror(errno)));
    if (count == 0 && !pending_.empty())
      fail("standard input", "samples of 16 bits were expected, but it ends after half of one");
    pending_.append(bytes.begin(), bytes.begin() + count);
    const std::string_view head = std::string_view(pending_).substr(0, 4);
    if (std::exchange(is_first_, false) && (head == "RIFF" || head == "fLaC" || head == "OggS"))
      fail("standard input",
           "raw samples were expected, but it is an audio file: give its name as an argument");
    std::vector<float> samples(pending_.size() / 2);
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const auto low = static_cast<unsigned char>(pending_[2 * i]);
      const auto high = static_cast<signed char>(pending_[2 * i + 1]);
      samples[i] = static_cast<float>(256 * high + low) / 32768;
    }
    pending_.erase(0, 2 * samples.size());
    return count > 0 && samples.empty() ? read() : samples;
  }

 private:
  std::string pending_;  // bytes: between calls, at most half of a sample
  bool is_first_ = true;
};

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
  SampleStream stream;
  PauseCutter cutter(rate, options.pause);
  Index read = 0;
  for (std::vector<float> some = stream.read(); !some.empty(); some = stream.read()) {
    read += std::ssize(some);
    if (options.pause == 0 && read > most)
      fail("standard input", fmt::format("it has more than {} samples, and no --pause", most));
    for (Piece& piece : cutter.add(some)) hear_piece(std::move(piece));
  }
  hear_piece(cutter.flush());
}

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

}  // namespace attune::speech
