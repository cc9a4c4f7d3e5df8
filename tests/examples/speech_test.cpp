// Recordings, what is heard of them, lists of them, and when each token was heard.
#include "speech/speech.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sndfile.h>

#include <attune/autograd/gradcheck.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/normalize.hpp>

#include "support/frames.hpp"
#include "support/golden.hpp"
#include "support/naive.hpp"
#include "wav.hpp"

namespace attune::speech {
namespace {

using test::tone, test::wav;
using Directory = attune::test::Directory;
using attune::test::write;

std::vector<float> audio_of(const std::string& bytes) {
  const Directory directory;
  write(directory / "a.wav", bytes);
  return read_audio(directory / "a.wav").samples;
}

std::string audio_error(const std::string& bytes) {
  const Directory directory;
  write(directory / "a.wav", bytes);
  const std::string error = error_of([&] { read_audio(directory / "a.wav"); });
  CHECK(error == error_of([&] { seconds_of(directory / "a.wav"); }));
  return error.substr(directory.path().size() + 1);
}

TEST_CASE("read_audio: samples of 16 and of 8 bits, and the mean of two channels") {
  const std::vector<float> samples = tone(440, 0.05);
  const std::vector<float> read = audio_of(wav(samples)),
                           coarse = audio_of(wav(samples, {.bits = 8}));
  REQUIRE(read.size() == samples.size());
  REQUIRE(coarse.size() == samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    CHECK(std::abs(read[i] - samples[i]) < 1e-4f);
    CHECK(std::abs(coarse[i] - samples[i]) < 0.02f);
  }
  const std::vector<float> both =
      audio_of(wav(std::vector<float>{0.5f, 0.25f, -0.5f, 0.5f}, {.channels = 2}));
  REQUIRE(both.size() == 2);
  CHECK(std::abs(both[0] - 0.375f) < 1e-4f);
  CHECK(std::abs(both[1]) < 1e-4f);
}

/// A file that libsndfile writes.
void write_audio(const std::string& path, int rate, int format, const std::vector<float>& samples) {
  SF_INFO info{.frames = 0,
               .samplerate = rate,
               .channels = 1,
               .format = format,
               .sections = 0,
               .seekable = 0};
  SNDFILE* file = sf_open(path.c_str(), SFM_WRITE, &info);
  REQUIRE(file != nullptr);
  sf_writef_float(file, samples.data(), std::ssize(samples));
  sf_close(file);
}

TEST_CASE("read_audio: FLAC as well, of its own rate") {
  const Directory directory;
  const std::string path = directory / "a.flac";
  const std::vector<float> samples = tone(440, 0.5, 0.5, 16000);
  write_audio(path, 16000, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, samples);
  const Recording recording = read_audio(path);
  CHECK(recording.rate == 16000);
  REQUIRE(recording.samples.size() == samples.size());
  CHECK(std::abs(recording.samples[100] - samples[100]) < 1e-4f);
  CHECK(seconds_of(path) == 0.5);
  CHECK(at_rate(recording, 8000).size() == samples.size() / 2);
}

TEST_CASE("read_audio: what is no whole recording is refused by name") {
  const std::string whole = wav(tone(440, 0.1)), none = "a.wav: it cannot be read as audio";
  for (const auto& bytes : {std::string(), std::string("hello"), whole.substr(0, 30)})
    CHECK(audio_error(bytes).starts_with(none));
  CHECK(audio_error(wav({})) == "a.wav: it has no samples");
  CHECK(audio_error(whole.substr(0, 1044)) == "a.wav: it ends after 1000 of 1600 bytes");
  CHECK(audio_error(whole.substr(0, 44)) == "a.wav: it ends after 0 of 1600 bytes");
  // A program that writes into a pipe says that there is as much as there can be.
  std::string endless = whole;
  endless.replace(40, 4, "\xFF\xFF\xFF\xFF");
  CHECK(audio_of(endless).size() == 800);
}

TEST_CASE("read_audio: samples that are no numbers are refused") {
  const Directory directory;
  const std::string path = directory / "a.wav";
  for (const float bad : {std::nanf(""), 1e30f}) {
    write_audio(path, 8000, SF_FORMAT_WAV | SF_FORMAT_FLOAT, {0.5f, bad});
    CHECK(error_of([&] { read_audio(path); }).starts_with(path + ": sample 1 is "));
  }
}

TEST_CASE("levelled: how loud a recording is, and how much silence surrounds it, is not heard") {
  std::vector<float> sine(800), far(sine), late(1600);  // 0.1 s; a fifth as loud; after a silence
  for (std::size_t i = 0; i < sine.size(); ++i) {
    sine[i] = 0.5f * std::sin(0.1f * std::numbers::pi_v<float> * static_cast<float>(i));
    far[i] = 0.2f * sine[i];
    late[i + 800] = sine[i];
  }
  const std::vector<float> expected = levelled(sine, 8000), of_far = levelled(far, 8000),
                           of_late = levelled(late, 8000);
  for (std::size_t i = 0; i < sine.size(); ++i) {
    CAPTURE(i);
    // A sine of amplitude a has the power a² / 2.
    CHECK(expected[i] == doctest::Approx(std::sqrt(0.02) * sine[i] / 0.5));
    CHECK(of_far[i] == doctest::Approx(expected[i]));
    CHECK(of_late[i + 800] == doctest::Approx(expected[i]));
  }
  CHECK(levelled(std::vector<float>(100), 8000) == std::vector<float>(100));
}

TEST_CASE("LogMel: it is what numpy makes of the same waveform") {
  const Golden golden("log_mel");
  const std::vector<float> waveform = golden["waveform"].to(DType::f32).to_vector<float>();
  const LogMel features({.rate = 8000, .bands = 20, .lowest = 100});
  const std::vector<double> expected = golden["features"].to_vector<double>(),
                            actual = features(waveform).to_vector<double>();
  REQUIRE(features(waveform).shape() == golden["features"].shape());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(actual[i] - expected[i]) < 1e-4 * std::max(1.0, std::abs(expected[i])));
  }
}

TEST_CASE(
    "LogMel: a short waveform is one frame, silence is finite, bands without a bin are refused") {
  const LogMel features({});
  CHECK(features(std::vector<float>(50, 0.1f)).shape() == Shape{1, 40});
  CHECK(features(std::vector<float>(280)).shape() == Shape{2, 40});
  for (const double value : features(std::vector<float>(200)).to_vector<double>())
    CHECK(value == doctest::Approx(std::log(1e-10)));
  CHECK(error_of([] {
          LogMel({.bands = 300});
        }).starts_with("LogMel: 300 bands are too many: band 0"));
  CHECK(error_of([] { LogMel({.lowest = 5000}); }).starts_with("LogMel: "));
}

std::string list_error(const std::string& text) {
  const Directory directory;
  write(directory / "l.tsv", text);
  const std::string error = error_of([&] { read_list(directory / "l.tsv"); });
  return error.substr(directory.path().size() + 1);
}

TEST_CASE("read_list: paths from the list's directory; mistakes are said with file and line") {
  const Directory directory;
  write(directory / "l.tsv", "a.wav\tone two\r\nb/c.wav\tthree\n");
  const std::vector<Listed> list = read_list(directory / "l.tsv");
  REQUIRE(list.size() == 2);
  CHECK(list[1].file == directory / "b/c.wav");
  CHECK(list[0].transcript == "one two");
  CHECK(list[1].where == directory / "l.tsv:2");
  for (const auto& [text, line] : {std::pair{"a.wav\tone\nb.wav two\n", 2},
                                   {"a.wav\t\n", 1},
                                   {"a.wav\tone\ttwo\n", 1},
                                   {"\n", 1}}) {
    CHECK(
        list_error(text) ==
        fmt::format("l.tsv:{}: a file and its words were expected, with a TAB between them", line));
  }
  CHECK(list_error("") == "l.tsv:0: there is no line");
}

TEST_CASE("tokens_of: numbers are read as the names of their digits, where those are known") {
  const text::Codec digits = Digits::codec();
  CHECK(digits.decode(tokens_of(digits, "72 one")) == "seven two one");
  CHECK(tokens_of(digits, "ten").front() == text::Vocabulary::unknown);
  const std::vector<std::string> words = {"7", "one"};
  const text::Codec own{text::Words{}, text::Vocabulary(words)};
  CHECK(own.decode(tokens_of(own, "7 one")) == "7 one");
  CHECK(tokens_of(own, "2").front() == text::Vocabulary::unknown);
}

TEST_CASE("Digits: strings of one speaker, the same for a seed, with the ends of their digits") {
  const Directory directory;
  test::write_digits(directory.path());
  const Digits digits(directory.path(), 8, 9, 8000);
  CHECK(digits.single().size() == 40);
  const std::vector<Utterance> some = digits.strings(2, 3, 4, 1), same = digits.strings(2, 3, 4, 1);
  REQUIRE(some.size() == 8);
  CHECK(some[7].tokens.size() == 3);
  CHECK(some[7].ends.back() == some[7].samples.size());
  for (std::size_t i = 0; i < some.size(); ++i) CHECK(some[i].samples == same[i].samples);
  for (const Utterance& one : some) {  // bob's recordings have an odd number of samples
    for (std::size_t u = 1; u < one.ends.size(); ++u)
      CHECK((one.ends[u] - one.ends[u - 1]) % 2 == one.ends[0] % 2);
  }
  CHECK(error_of([&] { Digits(directory.path(), 20, 29, 8000); }) ==
        directory.path() + ": there is no DIGIT_SPEAKER_NUMBER.wav with a number from 20 to 29");
  std::filesystem::remove(directory / "3_ann_8.wav");
  CHECK(error_of([&] { Digits(directory.path(), 8, 8, 8000); }) ==
        directory.path() + ": ann has no recording of 3 with a number from 8 to 8");
  CHECK(
      error_of([&] { Digits(directory / "none", 8, 8, 8000); }).starts_with(directory / "none: "));
}

TEST_CASE("listed_recordings: each once in an epoch, the same from any step on") {
  const Directory directory;
  std::string list;
  for (int i = 0; i < 7; ++i) {
    write(directory / fmt::format("{}.wav", i), wav(tone(400, 0.1 * (i + 1))));
    list += fmt::format("{}.wav\tw{}\n", i, i);
  }
  write(directory / "l.tsv", list);
  const text::Codec codec{text::Words{}, vocabulary_of(directory / "l.tsv", text::Words{})};
  TrainOptions options;
  options.list = directory / "l.tsv", options.batch = 3;
  const TrainingSet set = listed_recordings(options, codec);
  CHECK(set.batches(1) == listed_recordings(options, codec).batches(1));
  std::vector<std::size_t> lengths;
  Random random(1);
  for (const auto& batch : set.batches(0)) {
    CHECK(batch.size() <= 3);
    for (const std::uint32_t number : batch)
      lengths.push_back(set.draw(number, random).samples.size());
  }
  std::ranges::sort(lengths);
  CHECK(lengths == std::vector<std::size_t>{800, 1600, 2400, 3200, 4000, 4800, 5600});
  write(directory / "t.tsv", "4.wav\tw1 w2\n4.wav\tw1 w1\n");
  options.list = directory / "t.tsv";
  options.speed = 0, options.joined = 0, options.features.step = 0.25;  // 2 annotations
  CHECK(error_of([&] { listed_recordings(options, codec); }) ==
        directory / "t.tsv:2: 0.50 s are too short for 2 tokens");
  options.ctc = 0;
  CHECK_NOTHROW(listed_recordings(options, codec));
  write(directory / "t.tsv", "4.wav\t \n");
  CHECK(error_of([&] { listed_recordings(options, codec); }) ==
        directory / "t.tsv:1: there are no words in the transcript");
}

TEST_CASE("PauseCutter: an utterance from each loud stretch, whatever the size of the blocks") {
  std::vector<float> stream(4000);
  for (const double seconds : {0.3, 0.6}) {
    const std::vector<float> loud = tone(440, seconds);
    stream.insert(stream.end(), loud.begin(), loud.end());
    stream.resize(stream.size() + 4000);
  }
  for (const std::size_t block : {std::size_t{1}, std::size_t{333}, stream.size()}) {
    PauseCutter cutter(8000, 0.2);
    std::vector<Piece> found;
    for (std::size_t at = 0; at < stream.size(); at += block) {
      const std::span<const float> some =
          std::span(stream).subspan(at, std::min(block, stream.size() - at));
      std::ranges::move(cutter.add(some), std::back_inserter(found));
    }
    REQUIRE(found.size() == 2);
    CHECK(std::abs(static_cast<double>(found[0].samples.size()) - 0.4 * 8000) <=
          80);  // 0.05 + 0.3 + 0.05 s
    CHECK(std::abs(static_cast<double>(found[1].samples.size()) - 0.7 * 8000) <= 80);
    CHECK(cutter.flush().samples.empty());
    CHECK(std::abs(found[0].begin - 3600) <= 80);
    CHECK(std::abs(found[1].begin - 10000) <= 80);
  }
  const auto cuts = [](double volume, double before) {
    std::vector<float> samples = tone(440, 0.3, before);
    std::ranges::copy(tone(440, 0.3, volume), std::back_inserter(samples));
    samples.resize(samples.size() + 4000);
    PauseCutter cutter(8000, 0.2);
    return cutter.add(samples).front().samples.size();
  };
  CHECK(cuts(0.02, 0.5) > 4800);  // 28 dB below the loudest
  CHECK(cuts(0.01, 0.5) < 3200);  // 34 dB
  PauseCutter quiet(8000, 0.2);
  CHECK(quiet.add(std::vector<float>(8000, 0.9e-3f)).empty());
  CHECK(quiet.flush().samples.empty());
  PauseCutter whole(8000, 0);
  CHECK(whole.add(stream).empty());
  CHECK(whole.flush().samples.size() == stream.size());
  PauseCutter endless(8000, 1);
  const std::vector<Piece> cut = endless.add(tone(440, 61));
  REQUIRE(cut.size() == 2);
  CHECK(cut[0].samples.size() == 240000);
}

using Stretches = std::vector<std::pair<Index, Index>>;

TEST_CASE("stretches: between the centres of what tokens attended to, in order and without gaps") {
  // The second token attended to the first one's place, too, and the row of the end does not count.
  const Tensor w = Tensor::of({4, 9}, {0., 1., 0., 0., 0., 0., 0., 0., 0.,  //
                                       0., .3, 0., 0., .7, 0., 0., 0., 0.,  //
                                       0., 0., 0., 0., 0., 0., .5, .5, 0.,  //
                                       1., 0., 0., 0., 0., 0., 0., 0., 0.})
                       .to(DType::f32);
  // Centres at 1.5, 4.5 and 7: 1.5 after the beginning, 2 before the end.
  CHECK(stretches(w, 3) == Stretches{{0, 3}, {3, 6}, {6, 9}});
  // They look at the beginnings.
  const Tensor early = Tensor::of({2, 6}, {1., 0., 0., 0., 0., 0., 0., 0., 0., 1., 0., 0.});
  CHECK(stretches(early.to(DType::f32), 2) == Stretches{{0, 3}, {3, 6}});
  CHECK(stretches(ones({2, 5}, DType::f32), 0).empty());
  CHECK(stretches(zeros({3, 3}, DType::f32), 3) == Stretches{{0, 1}, {1, 2}, {2, 3}});
  CHECK(error_of([] {
          stretches(ones({3, 2}, DType::f32), 3);
        }) == "align: 3 tokens do not fit into 2 annotations");
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    Index at = 0;
    for (const auto& [begin, end] : stretches(softmax(randn({5, 7}, DType::f32, seed), 1), 5)) {
      CHECK(begin == at);
      CHECK(end > at);
      at = end;
    }
    CHECK(at == 7);
  }
}

TEST_CASE("Model: gradients of the loss are central differences, with and without CTC") {
  const std::vector<Tensor> heard = {randn({9, 3}, DType::f64), randn({6, 3}, DType::f64, 2)};
  const Batch batch{frames::make_batch(heard), {{4, 5}, {5}}};
  const std::vector<std::string> words = {"one", "two"};
  TrainOptions o;
  o.features.bands = 3;
  o.hidden = 3, o.layers = 2, o.joined = 1, o.embedding = 2, o.readout = 4, o.dropout = 0;
  o.score.attention = 3, o.score.filters = 2, o.score.radius = 1;
  for (const double ctc : {0.0, 0.3}) {
    for (const bool attends : {true, false}) {
      o.ctc = ctc, o.attends = attends;
      const Model model(o, {text::Words{}, text::Vocabulary(words)}, {},
                        std::make_unique<nn::Parameters>(1, DType::f64));
      CHECK(gradcheck(*model.parameters, [&] { return model.loss(batch); },
                      {.step = 2e-4, .allow_zero = true}));
    }
  }
}

}  // namespace
}  // namespace attune::speech
