// The transduce program, run as a user runs it.
#include <random>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/models/text/sentencepiece.hpp>

#include "tools.hpp"
#include "transduce/units.hpp"

namespace attune::transduce::test {
namespace {

using namespace attune::test;

ProcessResult run(const Arguments& arguments, ProcessOptions options = {}) {
  return run_program(ATTUNE_TRANSDUCE, arguments, std::move(options));
}

std::string output_of(const Arguments& arguments, ProcessOptions options = {}) {
  const ProcessResult result = run(arguments, std::move(options));
  INFO(result.err);
  REQUIRE(result.status == 0);
  return result.out;
}

std::string error_of(const Arguments& arguments) { return error_line("transduce", run(arguments)); }

struct Word {
  std::string letters, phones;
};

/// A word of syllables, in which "sh" is one phone, and whose last "e" is not said.
Word word(std::mt19937& random) {
  static const std::vector<Word> onsets = {{"b", "b"}, {"t", "t"}, {"sh", "ʃ"}, {"m", "m"}},
                                 rimes = {{"a", "aː"}, {"i", "i"}, {"é", "e"}};
  Word made;
  for (unsigned n = 1 + random() % 3; n > 0; --n) {
    for (const auto* parts : {&onsets, &rimes}) {
      const Word& part = (*parts)[random() % parts->size()];
      made.letters += part.letters;
      made.phones += (made.phones.empty() ? "" : " ") + part.phones;
    }
  }
  if (random() % 2) made.letters += "e";
  return made;
}

std::string pairs(int count, unsigned seed, bool swapped = false) {
  std::mt19937 random(seed);
  std::string lines;
  for (int i = 0; i < count; ++i) {
    const Word made = word(random);
    lines += swapped ? made.phones + "\t" + made.letters : made.letters + "\t" + made.phones;
    lines += "\n";
  }
  return lines;
}

struct Files : Directory {
  Files() {
    write(*this / "train.tsv", pairs(400, 1));
    write(*this / "valid.tsv", pairs(40, 2));
  }
  Arguments train(const std::string& out, const Arguments& more) const {
    return Arguments{"train", "--train",  *this / "train.tsv", "--valid", *this / "valid.tsv",
                     "--out", *this / out} +
           more;
  }
};

const Arguments tiny = {"--hidden",  "16", "--embedding",      "8", "--attention",      "16",
                        "--readout", "16", "--encoder-layers", "1", "--validate-every", "10",
                        "--batch",   "16"};
const Arguments twenty_steps = tiny + Arguments{"--steps", "20"};

/// A model that knows the words, trained when a test first asks for it.
struct Trained : Files {
  Trained() {
    printed = output_of(
        train("model", {"--hidden",          "32",  "--embedding",      "16", "--attention", "32",
                        "--readout",         "32",  "--encoder-layers", "1",  "--dropout",   "0",
                        "--label-smoothing", "0",   "--batch",          "32", "--rate",      "0.01",
                        "--steps",           "400", "--validate-every", "100"}));
  }
  static const Trained& get() {
    static const Trained trained;
    return trained;
  }
  Arguments with(const std::string& command, const Arguments& more = {}) const {
    return Arguments{command, "--model", *this / "model"} + more;
  }
  std::string printed;
};

/// The fewest edits between two sentences.
std::size_t distance(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t kept = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({kept, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::vector<std::string> split(const std::string& text, char at) {
  std::istringstream stream(text);
  std::vector<std::string> parts;
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

TEST_CASE("transduce: it says what the sides are cut into, learns, and ends with a report") {
  const Trained& t = Trained::get();
  const std::vector<std::string> lines = lines_of(t.printed);
  REQUIRE(lines.size() > 4);
  CHECK(lines[0] == "400 pairs to train on, 40 to validate on");
  CHECK(lines[1] ==
        "source: decomposed characters (9 kinds); target: tokens between blanks (7 kinds)");
  CHECK(contains(t.printed, "word error with a beam of 5: "));
  const std::string page = read(t / "model/report.html");
  for (const char* part :
       {"<h1 dir=\"auto\">model: train.tsv</h1>", "Word error", "Errors by length",
        "Learning curves", "Where it looks", "What it writes",
        "conditional; it reads decomposed characters (9 kinds), and writes tokens between blanks",
        "</html>"})
    CHECK_MESSAGE(contains(page, part), part);
  CHECK(output_of(t.with("predict", {"shabé", "tatie"})).starts_with("shabé\tʃ aː b e\t"));
}

TEST_CASE("transduce predict: arguments, lines, the best few and JSON agree") {
  const Trained& t = Trained::get();
  const std::string out = output_of(t.with("predict", {"shabé", "tatie"}));
  CHECK(output_of(t.with("predict"), {.input = "shabé\ntatie\n"}) == out);
  CHECK(output_of(t.with("predict"), {.input = "\ntatie\n"}).starts_with("\ntatie\tt aː t i\t"));
  const auto best = lines_of(output_of(t.with("predict", {"--best", "3", "shabé"})));
  REQUIRE(best.size() == 3);
  CHECK(best[0] == lines_of(out)[0]);
  const auto json =
      lines_of(output_of(t.with("predict", {"--json", "--best", "3"}), {.input = "shabé\n\n"}));
  REQUIRE(json.size() == 2);
  const Json first = Json::parse(json[0]);
  double before = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    const double probability = first["best"][i]["probability"];
    CHECK(probability <= before);
    before = probability;
    CHECK(best[i] == fmt::format("shabé\t{}\t{:.4f}", first["best"][i]["target"].get<std::string>(),
                                 probability));
  }
  CHECK(first["columns"] == Json({"s", "h", "a", "b", "e", "\u0301"}));
  CHECK(first["rows"] == Json({"ʃ", "aː", "b", "e"}));
  CHECK(first["attention"].size() == 4);
  CHECK(Json::parse(json[1])["best"].empty());
  CHECK(contains(output_of(t.with("predict", {"tatie", "--attention", "always"})), "█"));
  CHECK(run(t.with("predict", {"t☃te"})).err ==
        "warning: '☃' was never seen in training and is read as <unk>\n");
}

TEST_CASE("transduce evaluate: word and token errors, by length, and what was taken for what") {
  const Trained& t = Trained::get();
  // What the model writes, of which some is then called wrong.
  std::string file;
  std::size_t wrong = 0, edits = 0, tokens = 0, number = 0;
  for (const std::string& line :
       lines_of(output_of(t.with("predict"), {.input = [] {
                            std::string sources;
                            for (const std::string& one : lines_of(pairs(40, 3)))
                              sources += one.substr(0, one.find('\t')) + "\n";
                            return sources;
                          }()}))) {
    const auto columns = split(line, '\t');
    REQUIRE(columns.size() == 3);
    const auto written = split(columns[1], ' ');
    auto expected = written;
    if (++number % 4 == 0) expected.back() = expected.back() == "b" ? "t" : "b";
    if (number % 4 == 1) expected.push_back("m");
    if (number == 6) expected[0] = "unheard";
    const std::size_t distant = distance(written, expected);
    wrong += distant > 0, edits += distant, tokens += expected.size();
    file += columns[0] + "\t" + fmt::format("{}", fmt::join(expected, " ")) + "\n";
  }
  const Directory directory;
  write(directory / "f.tsv", file);
  const Json json = Json::parse(output_of(t.with("evaluate", {directory / "f.tsv", "--json"})));
  CHECK(json["models"] == 1);
  const Json& all = json["all"];
  CHECK(all["pairs"] == 40);
  CHECK(all["right"] == 40 - wrong);
  CHECK(all["word_error"].get<double>() == doctest::Approx(wrong / 40.0));
  CHECK(all["tokens"] == tokens);
  CHECK(all["token_error"].get<double>() ==
        doctest::Approx(static_cast<double>(edits) / static_cast<double>(tokens)));
  long by_length = 0, confusions = 0;
  for (const auto& [length, some] : json["by_length"].items())
    by_length += some["right"].get<long>();
  for (const Json& one : json["confusions"]) confusions += one["times"].get<long>();
  CHECK(by_length == all["right"]);
  CHECK(confusions == static_cast<long>(edits));
  CHECK(json["confusions"][0] == Json{{"expected", "m"}, {"written", "∅"}, {"times", 10}});
  const std::string table = output_of(t.with("evaluate", {directory / "f.tsv"}));
  CHECK(contains(table, fmt::format("word error {:.2f} %", 100 * wrong / 40.0)));
  CHECK(contains(table, "(not in the vocabulary)"));
  CHECK(contains(table, "mistakes; the 10 that were written with the greatest probability"));
  // Unknown tokens of a file are told in one line; a file may have the target first.
  write(directory / "g.tsv", "☃atie\tt aː t i\n☃☃tie\tt t i\n");
  write(directory / "swapped.tsv", "t aː t i\t☃atie\nt t i\t☃☃tie\n");
  const ProcessResult plain = run(t.with("evaluate", {directory / "g.tsv", "--json"})),
                      swapped =
                          run(t.with("evaluate", {directory / "swapped.tsv", "--swap", "--json"}));
  CHECK(contains(plain.err,
                 "g.tsv: 3 of 10 source tokens were never seen in training and are read "
                 "as <unk>: '☃'\n"));
  CHECK(Json::parse(swapped.out)["all"] == Json::parse(plain.out)["all"]);
  // Without a file: the pairs that it was chosen by.
  CHECK(output_of(t.with("evaluate")) == output_of(t.with("evaluate", {t / "valid.tsv"})));
}

TEST_CASE("transduce evaluate: many lengths are told in ranges, and blanks can be seen") {
  const Files files;
  output_of(files.train("out", twenty_steps + Arguments{"--target-units", "characters"}));
  std::string rows;
  std::string target = "a";
  for (int n = 1; n <= 25; ++n) rows += "ta\t" + (target = "t " + target) + "\n";
  write(files / "long.tsv", rows);
  const std::string table = output_of({"evaluate", "--model", files / "out", files / "long.tsv"});
  CHECK(contains(table, "\n0 to 3 "));  // "t a"
  CHECK(contains(table, "\n48 to 51 "));
  CHECK(contains(table, "\n␣ "));
}

TEST_CASE("transduce report: a file that is no page is not replaced, the pairs for one") {
  const Trained& t = Trained::get();
  const Files files;
  std::filesystem::create_directory(files / "out");
  write(files / "out/report.html", "notes");
  CHECK(contains(error_of(files.train("out", twenty_steps)), "report.html: there is a file that"));
  CHECK_FALSE(std::filesystem::exists(files / "out/best.safetensors"));

  const std::string valid = t / "valid.tsv", before = read(valid);
  CHECK(error_of(t.with("report", {"--out", valid})) ==
        "transduce: " + valid +
            ": there is a file that is no page: another file to write was expected");
  CHECK(read(valid) == before);
}

TEST_CASE("transduce: a model together with itself writes what it writes alone") {
  const Trained& t = Trained::get();
  const std::string model = t / "model/best.safetensors";
  const Arguments evaluate = {"evaluate", "--model", model, "--model", t / "model", "--json"};
  Json together = Json::parse(output_of(evaluate)),
       alone = Json::parse(output_of(t.with("evaluate", {"--json"})));
  CHECK(together["models"] == 2);
  CHECK(together["all"] == alone["all"]);
  CHECK(together["confusions"] == alone["confusions"]);
}

TEST_CASE("transduce train --swap: the other column is the target") {
  const Files files;
  write(files / "swapped.tsv", pairs(400, 1, true)), write(files / "v.tsv", pairs(40, 2, true));
  output_of(files.train("plain", twenty_steps));
  output_of(Arguments{"train", "--train", files / "swapped.tsv", "--valid", files / "v.tsv",
                      "--out", files / "swapped", "--swap"} +
            twenty_steps);
  check_same_tensors(files / "plain/last.safetensors", files / "swapped/last.safetensors");
  CHECK(Json::parse(output_of({"evaluate", "--model", files / "swapped", "--json"}))["all"] ==
        Json::parse(output_of({"evaluate", "--model", files / "plain", "--json"}))["all"]);
}

TEST_CASE("transduce train: without --valid, some of the pairs are held out for every seed") {
  const Files files;
  const auto train = [&](const std::string& out, const char* seed) {
    return output_of(Arguments{"train", "--train", files / "train.tsv", "--out", files / out,
                               "--seed", seed, "--held-out", "30"} +
                     twenty_steps);
  };
  CHECK(train("a", "1").starts_with("370 pairs to train on, 30 to validate on\n"));
  train("b", "2");
  const auto measured = [&](const std::string& first, const std::string& second) {
    return Json::parse(
        output_of({"evaluate", "--json", "--model", files / first, "--model", files / second}));
  };
  CHECK(measured("a", "b")["all"]["tokens"] == measured("b", "a")["all"]["tokens"]);
  const std::string unknown = "which of its pairs were held out of every training is not known";
  output_of(Arguments{"train", "--train", files / "train.tsv", "--out", files / "more",
                      "--held-out", "20"} +
            twenty_steps);
  CHECK(
      contains(error_of({"evaluate", "--model", files / "more", "--model", files / "a"}), unknown));
  write(files / "train.tsv", pairs(399, 1) + "ta\tt aː\n");
  CHECK(contains(error_of({"evaluate", "--model", files / "a"}), unknown));
}

TEST_CASE("transduce train --seeds: several models, alone and together, and not trained twice") {
  const Files files;
  const Arguments train = files.train("seeds", twenty_steps + Arguments{"--seeds", "2"});
  const std::string printed = output_of(train);
  CHECK(contains(printed, "2/2  seed "));
  CHECK(contains(printed, "word error, 2 models alone: "));
  CHECK(contains(printed, " ± "));
  CHECK(contains(printed, "word error, together: "));
  CHECK(contains(read(files / "seeds/report.html"), "seed-2"));
  const std::string best = files / "seeds/seed-1/best.safetensors";
  const auto written = std::filesystem::last_write_time(best);
  const std::string again = output_of(train);
  const char* end = "\nword error, together";
  CHECK(again.substr(again.find(end)) == printed.substr(printed.find(end)));
  CHECK(std::filesystem::last_write_time(best) == written);
  CHECK(Json::parse(output_of({"evaluate", "--model", files / "seeds", "--json"}))["models"] == 2);
  CHECK(error_of(files.train("seeds", twenty_steps)) ==
        "transduce: --out: " + files / "seeds/seed-1" +
            " is another training in it, another directory was expected");
  output_of(files.train("alone", twenty_steps + Arguments{"--seed", "2"}));
  for (const auto& [out, other] :
       {std::pair{"alone", files / "alone"}, {"seeds", files / "seeds/seed-1"}}) {
    const Arguments two = {"--seed", "2", "--seeds", "2"};
    CHECK(error_of(files.train(out, twenty_steps + two)) ==
          "transduce: --out: " + other +
              " has a training that is not one of these, another directory was expected");
  }
  check_same_tensors(files / "alone/best.safetensors", files / "seeds/seed-2/best.safetensors");
  const Arguments longer =
      files.train("seeds", twenty_steps + Arguments{"--seeds", "2", "--steps", "30"});
  CHECK(contains(error_of(longer), " was trained for 20 steps, not 30"));
  output_of(longer + Arguments{"--resume"});
  CHECK(step_of(files / "seeds/seed-2/last.safetensors") == 30);
}

TEST_CASE("transduce train --resume: the same bits, whenever it was interrupted") {
  const Files files;
  const Arguments with_state = tiny + Arguments{"--steps", "400"};
  const std::string once = files / "once", twice = files / "twice", last = "/last.safetensors";
  output_of(files.train("once", with_state));
  const ProcessResult ended = run(
      files.train("twice", with_state),
      {.signal_when = [&] { return std::filesystem::exists(twice + last); }, .signal = SIGTERM});
  CHECK(ended.status == 128 + SIGTERM);
  CHECK(contains(output_of({"train", "--resume", "--out", twice}), "resuming at step "));
  check_same_tensors(once + last, twice + last);
  check_same_tensors(once + "/best.safetensors", twice + "/best.safetensors");
  CHECK(learnt_in(once) == learnt_in(twice));
  CHECK(contains(error_of({"train", "--resume", "--out", once, "--hidden", "8"}),
                 "last.safetensors was trained with hidden = '16', not '8'"));
  write(files / "train.tsv", pairs(399, 1) + "ta\tt aː\n");
  CHECK(contains(error_of({"train", "--resume", "--out", once}), "it was trained on other pairs"));
}

TEST_CASE("transduce train --resume: a checkpoint with any entry changed goes on or is refused") {
  const Files files;
  // Few pairs, and few values, as each is a run of its own: most options are read as in `dates`.
  write(files / "train.tsv", pairs(16, 1)), write(files / "valid.tsv", pairs(2, 2));
  output_of(files.train("run", tiny + Arguments{"--steps", "2"}));
  check_resumes_or_refuses(
      "transduce", files / "run", {"train", "valid"},
      [&] {
        return run({"train", "--resume", "--out", files / "run", "--steps", "3"});
      },
      {"-1", "", "1e300"});
}

TEST_CASE("transduce train: it ends when the weights are no longer better, or the time is over") {
  const Files files;
  const std::string patient = output_of(
      files.train("a", tiny + Arguments{"--rate", "1e-9", "--patience", "2", "--average", "0"}));
  CHECK(contains(patient, "no longer better after "));
  CHECK(contains(output_of(files.train("b", tiny + Arguments{"--minutes", "0.001"})),
                 "out of time, --minutes 0.001 after "));
}

TEST_CASE("transduce: every published model, with attention or without") {
  const Files files;
  for (const char* model : {"bahdanau", "luong", "encoder-decoder", "sutskever"}) {
    CAPTURE(model);
    output_of(files.train(model, Arguments{"--model", model} + twenty_steps));
    CHECK(contains(output_of({"predict", "--model", files / model, "shabé"}), "shabé\t"));
    CHECK(contains(read(files / model + "/report.html"), "What it writes"));
  }
}

TEST_CASE("transduce: subwords of both sides") {
  if (!text::has_sentencepiece()) return;
  const Files files;
  const Arguments units = {"--source-units", "subwords", "--target-units",
                           "subwords",       "--pieces", "20"};
  const std::string printed = output_of(files.train("m", twenty_steps + units));
  CHECK(contains(printed, "source: subwords ("));
  CHECK(contains(printed, "target: subwords ("));
  CHECK(contains(error_of(files.train("n", {"--source-units", "subwords", "--pieces", "10"})),
                 "transduce: --source-units: "));
}

TEST_CASE("are_symbols: short ones between blanks in most lines") {
  using Lines = std::vector<std::string>;
  CHECK(are_symbols(Lines{"HH AH0 L OW1", "K AE1 T", "a"}));
  CHECK(are_symbols(Lines{"t͡s ə", "ʃ aː", "a"}));
  CHECK_FALSE(are_symbols(Lines{"t͡s ə", "ʃ"}));
  CHECK_FALSE(are_symbols(Lines{"hello", "world"}));
  CHECK_FALSE(are_symbols(Lines{"a lịch sơn", "hoàn thành"}));
  CHECK_FALSE(are_symbols(Lines{"27 June 2001", "3 May 79"}));
}

TEST_CASE("make_codec: characters of the source are decomposed, those of the target are not") {
  const std::vector<std::string> lines = {"hé", "há"}, plain = {"ha"};
  const auto units = [](const std::vector<std::string>& some, Side side, Units asked) {
    return description(make_codec(some, side, asked, 100, ""));
  };
  CHECK(units(lines, Side::source, Units::automatic) == "decomposed characters (4 kinds)");
  CHECK(units(lines, Side::target, Units::automatic) == "characters (3 kinds)");
  CHECK(units(plain, Side::source, Units::automatic) == "characters (2 kinds)");
  CHECK(units(lines, Side::source, Units::characters) == "characters (3 kinds)");
  CHECK(units(lines, Side::target, Units::words) == "tokens between blanks (2 kinds)");
}

TEST_CASE("transduce: the help of every command ends with an example") {
  check_examples(ATTUNE_TRANSDUCE, {"train", "predict", "evaluate", "report"});
}

TEST_CASE("transduce: errors are one line and status 1") {
  const Files files;
  const std::string bad = files / "bad.tsv", out = files / "out";
  const auto error_with = [&](const std::string& text, const Arguments& more = {}) {
    write(bad, text);
    return error_of(Arguments{"train", "--train", bad, "--out", out} + more);
  };
  const std::string start = "transduce: " + bad;
  CHECK(error_with("a\tb\n", {"--pieces", "20"}) ==
        "transduce: --pieces: it has no effect without subwords of the source or the target");
  CHECK(contains(error_with("a\tb\n", {"--batch", "0", "--batch", "1x"}), "--batch: '1x'"));
  CHECK(error_with("a\tb\n", {"--jobs", "2"}) == "transduce: --jobs requires --seeds");
  CHECK(error_with("a\tb\nno tab\n") == start + ":2: one column, expected source TAB target");
  CHECK(error_with("a\tb\tc\n") == start + ":1: more than two columns, expected source TAB target");
  CHECK(error_with("a\tb\n\n\tb\n") ==
        start + ":3: the source is empty, expected source TAB target");
  CHECK(error_with("a\t \n") == start + ":1: the target is empty, expected source TAB target");
  CHECK(error_with("a\t \n", {"--swap"}) ==
        start + ":1: the source is empty, expected target TAB source (--swap)");
  CHECK(error_with("a\tb\xff\n") ==
        start + ":1: byte 4 of the line (0xFF) is not UTF-8, expected text in UTF-8");
  CHECK(error_with("") == start + ": there is no pair, expected lines of source TAB target");
  CHECK(error_with("a\tb\n") == "transduce: --train: no example of " + bad +
                                    " can be held out (at most 0 of 1, those with one of its 1 "
                                    "sources together): --valid FILE was expected");
  CHECK(contains(error_with("a\tb\n" + std::string(5001, 'a') + "\tb\n", {"--valid", bad}),
                 ":2: the source has 5001 tokens, expected at most 5000"));
  CHECK(
      error_with("abc\tb\nabcd\tb\n", {"--valid", bad, "--score", "location", "--longest", "3"}) ==
      start + ":2: the source has 4 tokens, expected at most 3, as --longest says");
  CHECK(error_of({"train"}) ==
        "transduce: --train: a file of pairs was expected: source TAB target, a line each");
  CHECK(contains(error_of({"train", "--train", files / "none"}), "none: cannot be read"));
  CHECK(contains(error_of({"train", "--source-units", "letters"}), "--source-units: 'letters'"));
  CHECK_FALSE(std::filesystem::exists(out));

  CHECK(contains(error_of({"predict", "--model", files.path(), "a"}),
                 "neither it nor a directory in it has a best.safetensors"));
  CHECK(contains(error_of({"predict", "--model", files / "train.tsv", "a"}), "train.tsv: "));
  const Trained& t = Trained::get();
  CHECK(error_of(t.with("predict", {"ta", ""})) ==
        "transduce: argument 2: it is empty, but something to read was expected");
  CHECK(error_of(t.with("predict", {"t\ta"})) ==
        "transduce: argument 1: it has a TAB or a line break, which ends a column: --json was "
        "expected");
  CHECK(contains(error_of(t.with("evaluate", {files / "none"})), "none: cannot be read"));
  write(files / "other.tsv", "x\ty z\nu\tv w\n");
  output_of(Arguments{"train", "--train", files / "other.tsv", "--valid", files / "other.tsv",
                      "--out", out} +
            twenty_steps);
  CHECK(contains(error_of(t.with("predict", {"--model", out, "ta"})),
                 "its source_tokenizer is not that of the first model"));
}

}  // namespace
}  // namespace attune::transduce::test
