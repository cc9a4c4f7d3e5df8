// End-to-end tests of `speech`, with tones as words.
#include <cmath>
#include <numbers>

#include <sndfile.h>

#include "program.hpp"

namespace attune::test {
namespace {

std::vector<float> tone(double hertz, double seconds, int rate = 8000) {
  std::vector<float> samples(static_cast<std::size_t>(seconds * rate));
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const double t = static_cast<double>(i) / rate;
    const double noise = 0.01 * std::sin(1e4 * std::sin(hertz * static_cast<double>(i)));
    samples[i] = static_cast<float>(0.5 * std::sin(2 * std::numbers::pi * hertz * t) + noise);
  }
  return samples;
}

constexpr int wav = SF_FORMAT_WAV | SF_FORMAT_PCM_16;

void write_audio(const std::string& path, const std::vector<float>& samples, int format = wav,
                 int rate = 8000, int channels = 1) {
  SF_INFO info{};
  info.samplerate = rate, info.channels = channels, info.format = format;
  SNDFILE* file = sf_open(path.c_str(), SFM_WRITE, &info);
  REQUIRE(file != nullptr);
  for (const float x : samples) sf_writef_float(file, std::array{x, x}.data(), 1);
  sf_close(file);
}

constexpr std::array words = {"low", "middle", "high"};

double hertz_of(std::size_t word, double pitch = 1) { return pitch * 350 * std::pow(2.2, word); }

/// Tones of three words by two speakers, and a model that knows them, trained when a test first
/// asks for it.
struct Trained {
  Directory directory;
  std::string printed;
  std::string model = directory / "words.safetensors", list = directory / "valid.tsv";

  static const Trained& get() {
    static const Trained trained;
    return trained;
  }

  std::string heard(const std::string& file) const {
    const std::string line = output_of({"recognise", file, "--model", model});
    CHECK(line.starts_with(file + "\t"));
    return line.substr(file.size() + 1, line.size() - file.size() - 2);
  }

 private:
  Trained() {
    std::string train, valid;
    for (std::size_t i = 0; i < 3 * words.size(); ++i) {
      for (const auto& [speaker, pitch] : {std::pair{"ann", 1.0}, {"bob", 1.06}}) {
        const std::size_t word = i % words.size();
        const std::string name = speaker + std::to_string(i) + ".wav";
        write_audio(directory / name, tone(hertz_of(word, pitch), 0.16 + 0.01 * (i / 3.0)));
        (i < 6 ? train : valid) += name + "\t" + words[word] + "\t" + speaker + "\n";
      }
    }
    write(directory / "train.tsv", train);
    write(list, valid);
    printed = output_of({"train", directory / "train.tsv", list, "--model", model, "--join", "2",
                         "--steps", "400", "--hidden", "24", "--rate", "0.01"});
  }
};

TEST_CASE("speech: trains, saves, evaluates and recognises") {
  const Trained& t = Trained::get();
  // Training prints the table of the saved weights.
  const Arguments evaluate = {"evaluate", t.list, "--model", t.model};
  const std::string table = output_of(evaluate + Arguments{"--join", "2"});
  CHECK(contains(t.printed, table));
  CHECK(contains(table, "length   tokens  substitutions  deletions  insertions  token error\n"));
  std::istringstream last(lines_of(table).back());
  std::string all;
  double tokens = 0, substitutions = 0, deletions = 0, insertions = 0, percent = 100;
  last >> all >> tokens >> substitutions >> deletions >> insertions >> percent;
  CHECK(tokens == 30 * 1 + 30 * 2);
  CHECK(percent ==
        doctest::Approx(100 * (substitutions + deletions + insertions) / 90).epsilon(0.01));
  CHECK(percent < 10);
  CHECK(contains(lines_of(output_of(evaluate)).back(), "all        6 "));  // the list as it is
  CHECK(contains(read(t.model + ".svg"), "0.20 s"));
  CHECK(contains(t.printed, "step 200/400  token error "));
  const std::string two = t.directory / "ann7.wav", high = t.directory / "bob8.wav";
  CHECK(output_of({"recognise", two, high, "--model", t.model}) ==
        two + "\tmiddle\n" + high + "\thigh\n");
}

TEST_CASE("speech: all formats of libsndfile, sampling rates and numbers of channels") {
  const Trained& t = Trained::get();
  const Directory directory;
  const std::vector<float> samples = tone(hertz_of(2), 0.2);
  for (const int format : {SF_FORMAT_WAV, SF_FORMAT_FLAC, SF_FORMAT_AIFF, SF_FORMAT_NIST,
                           SF_FORMAT_RF64, SF_FORMAT_AU, SF_FORMAT_WAVEX}) {
    CAPTURE(format);
    write_audio(directory / "a", samples, format | SF_FORMAT_PCM_16);
    CHECK(t.heard(directory / "a") == "high");
  }
  write_audio(directory / "a", tone(hertz_of(2), 0.2, 44100), wav, 44100, 2);
  CHECK(t.heard(directory / "a") == "high");
  const std::string hostile = directory / "\x1b[2J\u202e.wav";
  write_audio(hostile, samples);
  CHECK(contains(output_of({"recognise", hostile, "--model", t.model}), "/\\x1b[2J\\u202e.wav\t"));
  write_audio(directory / "a", tone(hertz_of(0), 40));  // longer than all training utterances
  CHECK(contains(t.heard(directory / "a"), "low"));
}

TEST_CASE("speech: WAV files of streams, without a size in the header") {
  const Trained& t = Trained::get();
  const Directory directory;
  for (const int coding : {SF_FORMAT_PCM_16, SF_FORMAT_PCM_U8, SF_FORMAT_FLOAT}) {
    write_audio(directory / "whole.wav", tone(hertz_of(1), 0.2), SF_FORMAT_WAV | coding);
    const std::string whole = read(directory / "whole.wav");
    for (const std::string& size :
         {std::string(4, '\0'), std::string("\0\xF0\xFF\x7F", 4), std::string(4, '\xFF')}) {
      std::string stream = whole;
      stream.replace(4, 4, size).replace(stream.find("data") + 4, 4, size);
      write(directory / "stream.wav", stream);
      CHECK(t.heard(directory / "stream.wav") == "middle");
    }
  }
}

TEST_CASE("speech: all tokens for an empty transcript are insertions") {
  const Trained& t = Trained::get();
  const std::string tone = t.directory / "ann7.wav";
  const Directory directory;
  write(directory / "l.tsv", tone + "\t\n" + tone + "\tmiddle\n" + tone + "\tnever high\n");
  const Arguments evaluate = {"evaluate", directory / "l.tsv", "--join", "1", "--model", t.model};
  const auto rows = lines_of(output_of(evaluate));
  REQUIRE(rows.size() == 5);
  CHECK(rows[1] == "     0        0              0          0           1     100.00 %");
  CHECK(rows[2] == "     1        1              0          0           0       0.00 %");
  CHECK(rows[3].starts_with("     2        2 "));
  // Training accepts it, also alone, and transcripts with more tokens than annotations.
  write(directory / "l.tsv", tone + "\t\n");
  const Arguments train = {"train",   directory / "l.tsv", directory / "l.tsv", "--steps", "2",
                           "--model", directory / "m",     "--hidden",          "4"};
  CHECK(contains(output_of(train), "   all"));
  write(directory / "l.tsv", tone + "\ta tone without many words in it\n");
  CHECK(contains(output_of(train + Arguments{"--characters"}), "\n    31 "));
}

TEST_CASE("speech: weights do not depend on the number of threads") {
  const Trained& t = Trained::get();
  const Directory directory;
  for (const char* threads : {"1", "3"}) {
    output_of({"train", t.directory / "train.tsv", t.list, "--steps", "3", "--join", "2",
               "--hidden", "8", "--model", directory / threads},
              {.environment = {{"ATTUNE_THREADS", threads}}});
  }
  check_same_tensors(directory / "1", directory / "3");
}

TEST_CASE("speech: errors are one line and status 1") {
  const Trained& t = Trained::get();
  const Directory directory;
  const std::string tone = t.directory / "ann7.wav", whole = read(tone),
                    bad = directory / "bad.wav", list = directory / "l.tsv";
  std::string empty = whole.substr(0, 44);
  empty.replace(4, 4, 4, '\0').replace(40, 4, 4, '\0');
  for (const auto& [bytes, error] : {std::pair{std::string("hello"), "cannot be read as audio"},
                                     {whole.substr(0, 30), "cannot be read as audio"},
                                     {whole.substr(0, 1044), "truncated: 1036 of "},
                                     {empty, "contains no samples"}}) {
    write(bad, bytes);
    CHECK(contains(sole_error_of({"recognise", bad, "--model", t.model}), bad + ": " + error));
    write(list, tone + "\tlow\nbad.wav\tlow\n");
    CHECK(contains(sole_error_of({"evaluate", list, "--model", t.model}),
                   list + ":2: " + bad + ": " + error));
  }
  write_audio(bad, {0.5f, std::nanf("")}, SF_FORMAT_WAV | SF_FORMAT_FLOAT);
  write(directory / "columns.tsv", tone + "\tlow\n" + tone + "\n");
  write(directory / "empty.tsv", "");
  write(list, tone + "\tlow\n");
  write_audio(directory / "slow.wav", {0.5f, 0.5f}, wav, 999);
  const std::string trained = ": " + t.model + " was trained with ";
  const Arguments overwrite = {"train", list, list, "--steps", "1", "--hidden", "4", "--model"};
  check_errors({
      {{"recognise", bad, "--model", t.model}, "expected samples from -1 to 1"},
      {{"recognise", directory / "none.wav", "--model", t.model}, "none.wav: cannot be read"},
      {{"train", directory / "columns.tsv", t.list},
       "columns.tsv:2: expected RECORDING TAB TRANSCRIPT"},
      {{"train", directory / "empty.tsv", t.list}, "empty.tsv: has no lines"},
      {{"train", t.list}, "usage: speech train TRAIN.tsv VALID.tsv"},
      {{}, "usage: "},
      {{"recognise", tone, "--model", directory / "none"}, "none: "},
      {{"recognise", tone, "--model", t.model, "--hidden", "128"}, "--hidden" + trained + "'24'"},
      {{"recognise", tone, "--model", t.model, "--sampling-rate", "16000"},
       "--sampling-rate" + trained + "'8000'"},
      {{"evaluate", list, "--model", t.model, "--characters"}, "--characters" + trained + "'no'"},
      {{"recognise", directory / "slow.wav", "--model", t.model},
       "slow.wav: sampling rate 999 Hz, expected at least 1000"},
      {overwrite + Arguments{list}, "l.tsv: is also read or written by this program"},
      {{"recognise", tone, "--beam", "0"}, "beam: '0' is not a whole number from 1"},
  });
}

}  // namespace
}  // namespace attune::test
