// `speech`, run as a user runs it.
#include <iterator>
#include <sstream>

#include <fmt/format.h>

#include "program.hpp"
#include "wav.hpp"

namespace attune::speech::test {
namespace {

using namespace attune::test;

/// Arguments without blanks in them.
Arguments words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

const Arguments tiny = words(
    "--hidden 8 --layers 2 --embedding 4 --readout 8 --attention 8 --filters 2 --radius 2 "
    "--dropout 0 --bands 12 --validate-every 4 --batch 4");
const Arguments quick = tiny + Arguments{"--no-report"};

/// Tones for digits, and a model that knows them, trained when a test first asks for it.
class Trained {
 public:
  static const Trained& get() {
    static const Trained trained;
    return trained;
  }

  std::string recording(const std::string& name) const { return digits() + "/" + name; }
  std::string digits() const { return directory_ / "digits"; }
  std::string model() const { return directory_ / "run/best.safetensors"; }

 private:
  Trained() {
    write_digits(digits());
    output_of(Arguments{"train", "--digits", digits(), "--out", directory_ / "run"} +
              words("--steps 500 --max-digits 2 --rate 0.01 --hidden 24 --layers 2 --embedding 8 "
                    "--attention 16 --readout 16 --bands 20 --batch 16 --validate-every 100 "
                    "--filters 4 --radius 5 --dropout 0 --speed 0 --band-masks 0 --no-report"));
  }

  Directory directory_;
};

TEST_CASE("speech: what tones say is learnt, and recognised from files and from a stream") {
  const Trained& t = Trained::get();
  const std::string seven = t.recording("7_ann_9.wav"), two = t.recording("2_bob_9.wav");
  CHECK(output_of({"recognise", seven, "--model", t.model()}) == "seven\n");
  CHECK(output_of({"recognise", seven, two, "--model", t.model()}) ==
        seven + "\tseven\n" + two + "\ttwo\n");
  const Json said = Json::parse(output_of({"recognise", two, "--json", "--model", t.model()}));
  CHECK(said["text"] == "two");
  CHECK(said["file"] == two);
  CHECK(said["tokens"][0]["begin"] == 0);
  // Raw samples: two, a pause, seven.
  const std::string pause(12000, '\0');
  const std::string pcm = read(two).substr(44) + pause + read(seven).substr(44) + pause;
  CHECK(output_of({"recognise", "--model", t.model()}, {.input = pcm}) == "two\nseven\n");
  CHECK(output_of({"recognise", "--model", t.model()}, {.input = std::string(4000, '\0')}).empty());
  CHECK(
      contains(error_line("speech", run({"recognise", "--model", t.model()}, {.input = pcm + "x"})),
               "ends after half of one"));
}

TEST_CASE(
    "speech recognise: a long recording is cut at its pauses, with times from its beginning") {
  const Trained& t = Trained::get();
  const Directory directory;
  std::vector<float> samples(8000 * 30);
  std::ranges::copy(tone(300 * std::pow(1.25, 7), 0.22), samples.begin() + 8000);
  std::ranges::copy(tone(300 * std::pow(1.25, 7), 0.22), std::back_inserter(samples));
  write(directory / "long.wav", wav(samples));
  const ProcessResult result =
      run({"recognise", directory / "long.wav", "--json", "--model", t.model()});
  CHECK(contains(result.err, "cut at its pauses: 2 lines"));
  const auto lines = lines_of(result.out);
  REQUIRE(lines.size() == 2);
  CHECK(std::abs(Json::parse(lines[0])["begin"].get<double>() - 0.95) < 0.02);
  CHECK(std::abs(Json::parse(lines[1])["begin"].get<double>() - 29.95) < 0.02);
}

TEST_CASE("speech recognise: two channels and another rate are said") {
  const Trained& t = Trained::get();
  const Directory directory;
  const std::vector<float> samples = tone(300 * std::pow(1.25, 7), 0.22, 0.5, 16000);
  std::vector<float> both;
  for (const float x : samples) both.insert(both.end(), {x, x});
  write(directory / "seven.wav", wav(both, {.rate = 16000, .channels = 2}));
  write(directory / "one.wav", wav(samples, {.rate = 16000}));
  const ProcessResult result = run({"recognise", directory / "seven.wav", "--model", t.model()});
  CHECK(result.out == output_of({"recognise", directory / "one.wav", "--model", t.model()}));
  CHECK(contains(result.err, "the mean of its 2 channels"));
  CHECK(contains(result.err, "converted from 16000 to 8000 samples per second"));
}

TEST_CASE("speech evaluate: errors by length, of strings and of lists") {
  const Trained& t = Trained::get();
  const Arguments digits = {"evaluate",     "--digits", t.digits(),  "--model", t.model(),
                            "--max-digits", "2",        "--strings", "10"};
  CHECK(contains(output_of(digits), "substitutions"));
  const auto lines = lines_of(output_of(digits + Arguments{"--json"}));
  REQUIRE(lines.size() == 2);
  CHECK(Json::parse(lines[0])["all"]["utterances"] == 40);
  CHECK(Json::parse(lines[1])["by_length"]["2"]["tokens"] == 20);
  CHECK(Json::parse(lines[1])["all"]["token_error"].get<double>() < 0.2);
  const Directory directory;
  write(directory / "l.tsv", t.recording("7_ann_9.wav") + "\tseven\n" + t.recording("2_bob_9.wav") +
                                 "\t2\n" + t.recording("2_bob_9.wav") + "\tseven two\n" +
                                 t.recording("2_bob_9.wav") + "\televen\n");
  const ProcessResult result =
      run({"evaluate", directory / "l.tsv", "--json", "--model", t.model()});
  const Json list = Json::parse(result.out)["all"];
  CHECK(list["right"] == 2);
  CHECK(list["deletions"] == 1);
  CHECK(list["substitutions"] == 1);
  CHECK(contains(result.err, "l.tsv: 1 tokens are not in the model's vocabulary"));
}

TEST_CASE("speech align: when each word was heard, as TSV, JSON and TextGrid") {
  const Trained& t = Trained::get();
  const Directory directory;
  std::vector<float> samples = tone(300 * std::pow(1.25, 2), 0.22);
  std::ranges::copy(tone(300 * std::pow(1.25, 7), 0.22), std::back_inserter(samples));
  write(directory / "a.wav", wav(samples));
  write(directory / "l.tsv", "a.wav\ttwo seven\n");
  const auto lines = lines_of(output_of({"align", directory / "l.tsv", "--model", t.model()}));
  REQUIRE(lines.size() == 3);
  CHECK(lines[1].starts_with(directory / "a.wav\t0.000\t0."));
  CHECK(contains(lines[2], "\t0.440\tseven\t"));
  const Json json = Json::parse(
      output_of({"align", directory / "l.tsv", "--format", "json", "--model", t.model()}));
  CHECK(json["tokens"][0]["end"] == json["tokens"][1]["begin"]);
  CHECK(std::abs(json["tokens"][0]["end"].get<double>() - 0.22) < 0.08);
  output_of({"align", directory / "l.tsv", "--format", "textgrid", "--out", directory / "grids",
             "--model", t.model()});
  const std::string grid = read(directory / "grids/a.TextGrid");
  CHECK(grid.starts_with(
      "File type = \"ooTextFile\"\nObject class = \"TextGrid\"\n\nxmin = 0\nxmax = 0.44\n"));
  CHECK(contains(grid, "intervals: size = 2"));
  CHECK(contains(grid, "text = \"seven\""));
  write(directory / "l.tsv", "a.wav\ttwo eleven\n");
  CHECK(contains(sole_error_of({"align", directory / "l.tsv", "--model", t.model()}),
                 "l.tsv:1: 'two eleven' is not all in the model's vocabulary"));
}

TEST_CASE("speech report: one page with attention, errors and curves") {
  const Trained& t = Trained::get();
  const Directory directory;
  output_of({"report", "--model", t.model(), "--out", directory / "r.html", "--examples", "2"});
  const std::string page = read(directory / "r.html");
  CHECK(contains(page, "What was attended to"));
  CHECK(contains(page, "Learning curves"));
  CHECK(contains(page, "<svg"));
}

TEST_CASE(
    "speech train --list: recordings and transcripts, in characters; resumed with the same bits") {
  const Directory directory;
  write_digits(directory / "digits");
  std::string list;
  for (int i = 0; i < 10; ++i) list += fmt::format("digits/{}_ann_8.wav\tab {}\n", i, i);
  write(directory / "l.tsv", list);
  write(directory / "v.tsv", "digits/0_bob_9.wav\tab 0\n");
  const Arguments train =
      Arguments{"train", "--list", directory / "l.tsv", "--valid-list", directory / "v.tsv"} +
      words("--tokens characters --steps 400 --joined 0") + quick;
  const std::string once = directory / "once";
  check_resumes_to_the_same_bits(train, once, directory / "twice");
  const Arguments resumed = train + Arguments{"--out", once, "--resume"};
  CHECK(contains(output_of(resumed), "l.tsv: 10 recordings, 0.0 minutes"));
  check_errors({{resumed + Arguments{"--hidden", "16"}, "hidden"}});
  std::string exchanged = list;
  std::swap(exchanged[exchanged.find("ab 0") + 3], exchanged[exchanged.find("ab 1") + 3]);
  for (const auto& [file, contents, error] :
       {std::tuple{"l.tsv", list + "digits/1_bob_9.wav\tabc\n", "training_data"},
        {"l.tsv", exchanged, "training_data"},
        {"digits/0_ann_8.wav", read(directory / "digits/1_ann_8.wav"), "training_data"},
        {"digits/0_bob_9.wav", read(directory / "digits/1_bob_9.wav"), "validation_data"}}) {
    const std::string before = read(directory / file);
    write(directory / file, contents);
    check_errors({{resumed, std::string(error) + " differs: it was trained on other data"}});
    write(directory / file, before);
  }
}

TEST_CASE("speech train --resume: a checkpoint with any entry changed goes on or is refused") {
  const Directory directory;
  write_digits(directory / "digits");
  const Arguments train = {
      "train", "--digits", directory / "digits", "--out", directory / "run", "--max-digits", "1"};
  Arguments additive = quick;  // which has no filters
  const auto filters = std::ranges::find(additive, "--filters");
  additive.erase(filters, filters + 4);
  output_of(train + additive +
            Arguments{"--steps", "2", "--score", "additive", "--lowest", "0", "--joined", "0",
                      "--emphasis", "0"});
  check_resumes_or_refuses("speech", directory / "run", {"digits", "list", "valid-list"}, [&] {
    return run({"train", "--resume", "--out", directory / "run", "--steps", "3", "--no-report"});
  });
}

TEST_CASE("speech train: what was learnt is saved when a recording is not there any more") {
  const Directory directory;
  write_digits(directory / "digits");
  std::string list;
  for (int i = 0; i < 10; ++i) list += fmt::format("digits/{}_ann_8.wav\tw{}\n", i, i);
  write(directory / "l.tsv", list);
  const std::string out = directory / "run", lost = directory / "digits/3_ann_8.wav";
  Arguments seldom = quick;
  *std::next(std::ranges::find(seldom, "--validate-every")) = "100000";
  const ProcessResult result =
      run(Arguments{"train", "--list", directory / "l.tsv", "--valid-list", directory / "l.tsv",
                    "--out", out, "--steps", "100000", "--joined", "0"} +
              seldom,
          {.signal_when = [&] {
            std::error_code none;  // a line of the log after 50 steps
            const auto size = std::filesystem::file_size(out + "/log.jsonl", none);
            if (!none && size > 0) std::filesystem::remove(lost);
            return false;
          }});
  CHECK(result.status == 1);
  const std::string line = error_line("speech", result);
  CHECK_MESSAGE(contains(line, "3_ann_8.wav"), line);
  CHECK(std::filesystem::exists(out + "/last.safetensors"));
}

TEST_CASE("speech train: the same weights whichever thread makes an utterance") {
  const Directory directory;
  write_digits(directory / "digits");
  for (const char* threads : {"1", "3"}) {
    output_of(Arguments{"train", "--digits", directory / "digits", "--out", directory / threads,
                        "--max-digits", "2", "--steps", "4", "--threads", threads} +
              quick);
  }
  check_same_tensors(directory / "1/last.safetensors", directory / "3/last.safetensors");
}

TEST_CASE("speech: a model without attention, and one that does not end what it writes") {
  const Directory directory;
  write_digits(directory / "digits");
  const std::string recording = directory / "digits/1_ann_9.wav";
  for (const Arguments& kind : {Arguments{"--attends", "no"}, Arguments{"--ctc", "0"}}) {
    const std::string out = directory / kind[0].substr(2), best = out + "/best.safetensors";
    output_of(Arguments{"train", "--digits", directory / "digits", "--out", out, "--max-digits",
                        "1", "--steps", "2"} +
              quick + kind);
    CHECK(Json::parse(output_of({"recognise", recording, "--json", "--model", best}))
              .contains("text"));
    output_of({"report", "--model", best, "--examples", "1"});
  }
  write(directory / "l.tsv", recording + "\tone\n");
  CHECK(contains(sole_error_of({"align", directory / "l.tsv", "--model",
                                directory / "attends/best.safetensors"}),
                 "it has no attention"));
}

TEST_CASE("speech: a checkpoint whose numbers are none gives one line") {
  const Trained& t = Trained::get();
  const Directory directory;
  const std::string file = directory / "nan.safetensors";
  for (const char* name : {"attention.v_a", "scaling.deviation"}) {
    Safetensors contents = load_safetensors(t.model());
    Tensor& x = contents.tensors.at(name);
    x = full(x.shape(), std::nan(""), x.dtype());
    contents.metadata.erase("attune.checksum");
    contents.metadata.erase("attune.checksum_function");
    save_safetensors(file, contents);
    write(directory / "l.tsv", t.recording("7_ann_9.wav") + "\tseven\n");
    CHECK(contains(sole_error_of({"align", directory / "l.tsv", "--model", file}), "number"));
    CHECK(contains(sole_error_of({"recognise", t.recording("7_ann_9.wav"), "--model", file}),
                   "number"));
  }
}

TEST_CASE("speech compare: a table of kinds of attention, without training twice") {
  const Directory directory;
  write_digits(directory / "digits");
  const Arguments arguments =
      Arguments{"compare", "--digits", directory / "digits", "--out", directory / "table"} +
      words("--variants content,no-attention --seeds 2 --steps 4 --max-digits 1") + tiny;
  const std::string table = check_compares_once(arguments, "\ntoken error",
                                                directory / "table/content-1/best.safetensors");
  CHECK(contains(table, "4/4"));
  CHECK(contains(table, "2 to 6"));
}

TEST_CASE(
    "speech train: the learning rate rises for 200 steps, and falls to 2 % of it in the end") {
  const auto log = log_of(std::filesystem::path(Trained::get().model()).parent_path());
  CHECK(std::abs(log.front()["rate"].get<double>() - 0.01 * 50 / 200) < 1e-6);
  CHECK(log.back()["rate"].get<double>() < 0.01 / 40);  // one step before the end
}

TEST_CASE("speech: the help of every command ends with an example") {
  check_examples(PROGRAM, {"train", "recognise", "evaluate", "align", "report", "compare"});
}

TEST_CASE("speech: errors are one line and status 1") {
  const Trained& t = Trained::get();
  const Directory directory;
  write(directory / "l.tsv", "none.wav\tone\n");
  write(directory / "text.wav", "hello");
  const std::string out = directory / "run";
  const std::string list = directory / "l.tsv", text = directory / "text.wav";
  check_errors({
      {{"train", "--out", out}, "--digits DIRECTORY, or --list FILE"},
      {{"train", "--out", out, "--digits", "a", "--list", "b"}, "two kinds of data"},
      {{"train", "--out", out, "--digits", directory / "none"}, directory / "none: "},
      {{"train", "--out", out, "--list", list, "--valid-list", list},
       "l.tsv:1: " + (directory / "none.wav: it cannot be read as audio")},
      {{"train", "--out", out, "--layers", "2", "--joined", "3"}, "--joined: there are 2 layers"},
      {{"evaluate", "--model", t.model()}, "lists, or --digits DIRECTORY"},
      {{"recognise", text, "--model", t.model()}, "text.wav: it cannot be read as audio"},
      {{"recognise", text, "--model", list}, "l.tsv"},
      {{"compare", "--variants", "best"}, "'best' is not one of location-aware"},
      {{"align", list, "--format", "textgrid", "--model", t.model()}, "--out: "},
  });
  CHECK_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace attune::speech::test
