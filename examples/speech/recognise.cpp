#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "audio.hpp"
#include "commands.hpp"
#include "pauses.hpp"
#include "support/checkpoint.hpp"
#include "support/output.hpp"
#include "timing.hpp"

namespace attune::speech {
namespace {

using Waveforms = std::vector<std::vector<float>>;

/// What was heard in so many samples; `file` may be empty.
void print(const Model& model, const models::Hypothesis& h, std::size_t samples,
           const std::string& file, bool json) {
  const std::string text = model.codec().decode(h.words);
  if (!json) return say("{}{}{}\n", file, file.empty() ? "" : "\t", text);
  nlohmann::ordered_json line;
  if (!file.empty()) line["file"] = file;
  line["text"] = text;
  line["probability"] = std::exp(h.log_probability);
  // Without CTC there may be more words than places.
  if (h.weights.defined() && std::ssize(h.words) <= h.weights.dim(1)) {
    const double seconds = static_cast<double>(samples) / static_cast<double>(model.rate());
    line["tokens"] = json_of(timed(model, h, seconds));
  }
  say("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::vector<float> samples_in(const std::string& file, Index rate) {
  const Recording recording = read_audio(file);
  if (recording.channels > 1)
    complain("{}: the mean of its {} channels is heard\n", file, recording.channels);
  if (recording.rate != rate) {
    complain("{}: converted from {} to {} samples per second\n", file, recording.rate, rate);
  }
  return reading(file, [&] { return at_rate(recording, rate); });
}

void recognise_files(const Model& model, const RecogniseArguments& options) {
  constexpr std::size_t at_once = 256;
  for (std::size_t begin = 0; begin < options.files.size(); begin += at_once) {
    const std::size_t end = std::min(options.files.size(), begin + at_once);
    Waveforms waveforms;
    for (std::size_t i = begin; i < end; ++i)
      waveforms.push_back(samples_in(options.files[i], model.rate()));
    const auto found = recognise(model, waveforms, options.hear);
    const bool named = options.json || options.files.size() > 1;
    for (std::size_t i = begin; i < end; ++i)
      print(model, found[i - begin], waveforms[i - begin].size(), named ? options.files[i] : "",
            options.json);
  }
}

/// Samples of 16 bits, little-endian, of one channel, as they come.
class SampleStream {
 public:
  /// Waits for some; none at the end.
  std::vector<float> read() {
    std::array<unsigned char, 1 << 14> bytes;
    bytes[0] = odd_;
    const std::size_t kept = has_odd_;
    ssize_t count;
    do {
      count = ::read(STDIN_FILENO, &bytes[kept], bytes.size() - kept);
    } while (count < 0 && errno == EINTR);
    if (count < 0)
      fail("standard input", fmt::format("it cannot be read: {}", std::strerror(errno)));
    if (count == 0 && has_odd_)
      fail("standard input", "samples of 16 bits were expected, but it ends after half of one");
    const std::size_t size = kept + static_cast<std::size_t>(count);
    std::vector<float> samples;
    for (std::size_t i = 0; i + 1 < size; i += 2) {
      const auto bits = static_cast<std::uint16_t>(bytes[i] | bytes[i + 1] << 8);
      samples.push_back(static_cast<float>(std::bit_cast<std::int16_t>(bits)) / 32768);
    }
    has_odd_ = size % 2 != 0;
    if (has_odd_) odd_ = bytes[size - 1];
    return count > 0 && samples.empty() ? read() : samples;
  }

 private:
  unsigned char odd_ = 0;  // half of a sample
  bool has_odd_ = false;
};

void recognise_stream(const Model& model, const RecogniseArguments& options) {
  const Index rate = options.rate > 0 ? options.rate : model.rate();
  const auto hear = [&](std::vector<float> samples) {
    if (samples.empty()) return;
    const Recording recording{.samples = std::move(samples), .rate = rate};
    const std::vector<float> waveform = at_rate(recording, model.rate());
    print(model, recognise(model, std::span(&waveform, 1), options.hear).front(), waveform.size(),
          "", options.json);
    std::fflush(stdout);
  };
  SampleStream stream;
  PauseCutter cutter(rate, options.pause);
  for (std::vector<float> some = stream.read(); !some.empty(); some = stream.read()) {
    for (std::vector<float>& utterance : cutter.add(some)) hear(std::move(utterance));
  }
  hear(cutter.flush());
}

}  // namespace

int recognise(const RecogniseArguments& options) {
  const Model model = Model::load(options.model);
  options.files.empty() ? recognise_stream(model, options) : recognise_files(model, options);
  return 0;
}

}  // namespace attune::speech
