// End-to-end tests of attune on words; interrupted, resumed and repeated trainings.
#include <csignal>
#include <limits>
#include <optional>
#include <regex>
#include <tuple>

#include <fmt/ranges.h>

#include <attune/models/text/tokenizer.hpp>
#include <attune/tensor/elementwise.hpp>

#include "attune/data.hpp"
#include "attune/letters.hpp"
#include "attune/output.hpp"
#include "attune_program.hpp"
#include "support/capture.hpp"
#include "support/report_tools.hpp"

namespace attune::pairs::test {
namespace {

std::vector<std::string> split(const std::string& text, char at) {
  std::istringstream stream(text);
  std::vector<std::string> parts;
  for (std::string part; std::getline(stream, part, at);) parts.push_back(part);
  return parts;
}

/// Trains, and receives a signal once a checkpoint is written.
ProcessResult interrupt(const std::string& out, const Arguments& arguments, int signal) {
  const auto has_checkpoint = [&] { return std::filesystem::exists(out + "/last.safetensors"); };
  return run(arguments, {.signal_when = has_checkpoint, .signal = signal});
}

void check_same_run(const std::string& a, const std::string& b) {
  check_same_tensors(a + "/last.safetensors", b + "/last.safetensors");
  check_same_tensors(a + "/best.safetensors", b + "/best.safetensors");
  CHECK(learnt_in(a) == learnt_in(b));
}

/// Saves the shared model with a changed or removed metadata entry.
void save_changed(const std::string& path, const std::string& name,
                  const std::optional<std::string>& value) {
  Safetensors file = load_safetensors(TrainedWords::get() / "model/best.safetensors");
  REQUIRE(file.metadata.erase(name) == 1);
  if (value) file.metadata[name] = *value;
  save_safetensors(path, file);
}

TEST_CASE("attune: prints the chosen tokenisation and its reason, trains, writes a report") {
  const TrainedWords& t = TrainedWords::get();
  const std::vector<std::string> lines = lines_of(t.printed);
  REQUIRE(lines.size() > 4);
  CHECK(lines[0] == "source: decomposed characters, as lines have 1.0 words on average");
  CHECK(lines[1].starts_with("target: words between blanks, as they have 1."));
  CHECK(lines[2] == "400 pairs to train on, 40 to validate on");
  CHECK(lines[3] ==
        "source: decomposed characters, 13 kinds; target: words between blanks, 11 kinds");
  CHECK(lines[lines.size() - 2].ends_with("model/report.html"));
  CHECK(lines.back().starts_with("Try it: "));
  const std::string page = read(t / "model/report.html");
  for (const char* part : {"<h1 dir=\"auto\">model: train.tsv</h1>", "Exact match",
                           "Errors by length", "Learning curves", "Attention", "Predictions",
                           "source: decomposed characters; target: words", " of 40</dd>",
                           "<details><summary", "</html>"})
    CHECK_MESSAGE(contains(page, part), part);
}

TEST_CASE("attune report: shows mistakes first") {
  const TrainedWords& t = TrainedWords::get();
  const Directory directory;
  const std::string pairs = directory / "pairs.tsv", page = directory / "page.html";
  write(pairs, "tatie\tt aː t i\nshabé\tʃ aː b e\nshabéta\tt\n");
  output_of(t.with("report", {pairs, "--out", page}));
  const std::string html = read(page);
  const std::size_t wrong = html.find("<strong dir=\"auto\">\u2068shabéta"),
                    right = html.find("<strong dir=\"auto\">tatie");
  CHECK(contains(html, "<figure class=\"wrong\">"));
  CHECK(contains(html, "<span class=\"wrong\">✗ wrong, expected t; probability "));
  CHECK(contains(html, "<td dir=\"auto\" class=\"wrong\"><div>✗ "));
  CHECK(html.find(">Attention<") < html.find(">Errors by length<"));
  CHECK(wrong < right);
  CHECK(right != html.npos);
}

TEST_CASE("attune report: a number in each cell of probability, the log, no tile for one model") {
  const std::string page = read(TrainedWords::get() / "model/report.html");
  const std::regex row(R"re(<td dir="auto"><div>.*</div></td><td class="number">(.*)</td></tr>)re");
  std::size_t rows = 0;
  for (std::sregex_iterator i(page.begin(), page.end(), row), end; i != end; ++i, ++rows)
    CHECK_NOTHROW(std::stod((*i)[1]));
  CHECK(rows >= 12);
  CHECK(contains(page, "<pre class=\"log\" data-metric=\"exact\" data-name=\"model\">{&quot;"));
  CHECK_FALSE(contains(page, "<dt>Models</dt>"));
}

TEST_CASE("attune predict: draws attention with --heatmap, and to a file with --out") {
  const TrainedWords& t = TrainedWords::get();
  const Directory files;
  const std::string drawn = output_of(t.with("predict", {"shabé", "--heatmap"}));
  CHECK(drawn.starts_with(output_of(t.with("predict", {"shabé"}))));
  CHECK(contains(drawn, "█"));
  CHECK(lines_of(drawn).size() == 1 + 1 + 4 + 1);  // prediction, header, phones, blank line
  for (const std::string name : {"a.svg", "a.html"}) {
    output_of(t.with("predict", {"--out", files / name}), {.input = "shabé\ntatie\n"});
    const std::string picture = read(files / name);
    CHECK(contains(picture, "shabé\u2069 → \u2068ʃ aː b e"));
    CHECK(contains(picture, "tatie → "));
    CHECK(attune::test::count(picture, "role=\"img\"") == 2);
  }
  check_refused({{t.with("predict", {"a", "--out", files / "a.png"}),
                  "--out: unknown extension '.png', expected .html or .svg"},
                 {t.with("predict", {"a", "--json", "--heatmap"}),
                  "--heatmap: has no effect without text output, which --json replaces"}});
}

TEST_CASE("attune predict: arguments, lines, --best and JSON agree") {
  const TrainedWords& t = TrainedWords::get();
  const std::string out = output_of(t.with("predict", {"shabé", "tatie"}));
  CHECK(out.starts_with("shabé\tʃ aː b e\t"));
  CHECK(output_of(t.with("predict"), {.input = "shabé\ntatie\n"}) == out);
  CHECK(output_of(t.with("predict"), {.input = "\ntatie\n"}).starts_with("\ntatie\tt aː t i\t"));
  const auto best = lines_of(output_of(t.with("predict", {"--best", "3", "shabé"})));
  REQUIRE(best.size() == 3);
  CHECK(best[0] == lines_of(out)[0]);
  const auto json =
      lines_of(output_of(t.with("predict", {"--json", "--best", "3"}), {.input = "shabé\n\n"}));
  REQUIRE(json.size() == 2);
  const Json first = Json::parse(json[0]);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(best[i] == fmt::format("shabé\t{}\t{:.4f}", first["best"][i]["target"].get<std::string>(),
                                 first["best"][i]["probability"].get<double>()));
  }
  CHECK(first["columns"] == Json({"s", "h", "a", "b", "e", "\u0301"}));
  CHECK(first["rows"] == Json({"ʃ", "aː", "b", "e"}));
  for (const Json& row : first["attention"]) {
    double sum = 0;
    for (const double weight : row) sum += weight;
    CHECK(sum == doctest::Approx(1).epsilon(1e-5));
  }
  CHECK(Json::parse(json[1])["best"].empty());
  CHECK(run(t.with("predict", {"t☃t☃e"})).err ==
        "warning: '☃' was never seen in training and is read as <unk>\n");
  CHECK(output_of(t.with("predict", {"[ta,ti]"})).starts_with("[ta,ti]\t"));
  const ProcessResult some = run(t.with("predict", {"ta", "", "t\ta", "ti"}));
  CHECK(some.status == 1);  // the others are predicted
  CHECK(lines_of(some.out).size() == 2);
  CHECK(some.err ==
        "attune: argument 2: is empty, expected a source\n"
        "attune: argument 3: contains a TAB, expected a source without a target\n");
}

TEST_CASE("attune predict: normalises blanks as in training") {
  const Words words;
  std::string rows;
  for (const char* line : {"3 May 79\t1979", "4  June 80\t1980", " 5 May 81 \t 1981 "})
    for (int i = 0; i < 9; ++i) rows += std::string(line) + "\n";
  write(words / "train.tsv", rows), write(words / "valid.tsv", rows);
  output_of(words.train("out", twenty_steps));
  const auto answer = [&](const std::string& source) {
    return output_of({"predict", "--model", words / "out", source});
  };
  const std::string once = answer("3 May 79");
  for (const char* other : {"3 May 79 ", " 3 May 79", "3  May 79", "3\u00a0May 79"})
    CHECK(answer(other) == once);
  const Json pairs = json_of({"evaluate", "--model", words / "out", "--json"});
  CHECK(pairs["by_length"].size() == 1);  // " 1981 " has the same length
}

TEST_CASE("attune: without --model, uses the model trained last, or reports how to train one") {
  const Words words;
  const auto here = [&](const Arguments& arguments) {
    return run_program("env", Arguments{"-C", words.path(), PROGRAM} + arguments);
  };
  const Arguments predict = {"predict", "ta"},
                  train = Arguments{"train", "train.tsv"} + twenty_steps;
  CHECK(error_line("attune", here(predict)) ==
        "attune: --model: there is no model in attune-model or build/quickstart: train one with "
        "'attune train PAIRS.tsv', or specify one");
  CHECK(here(train).status == 0);
  const std::string first = here(predict).out;
  std::filesystem::create_directories(words / "build/quickstart");
  std::filesystem::copy_file(TrainedWords::get() / "model/best.safetensors",
                             words / "build/quickstart/best.safetensors");
  CHECK(here(predict).out == here({"predict", "--model", "build/quickstart", "ta"}).out);
  CHECK(here(train).status == 0);
  CHECK(here(predict).out == first);
}

TEST_CASE("attune evaluate: exact matches, token errors by length, and the confusion matrix") {
  const TrainedWords& t = TrainedWords::get();
  // The references are the model's predictions, some of them changed.
  std::string sources, file;
  for (const std::string& one : lines_of(words(40, 3))) sources += split(one, '\t')[0] + "\n";
  std::size_t wrong = 0, tokens = 0, number = 0;
  for (const std::string& line : lines_of(output_of(t.with("predict"), {.input = sources}))) {
    auto expected = split(split(line, '\t')[1], ' ');
    if (++number % 4 == 0) expected.push_back("m");
    if (number == 6) expected[0] = "unheard";
    wrong += number % 4 == 0 || number == 6, tokens += expected.size();
    file += split(line, '\t')[0] + "\t" + fmt::format("{}", fmt::join(expected, " ")) + "\n";
  }
  const Directory directory;
  write(directory / "f.tsv", file);
  const Json json = json_of(t.with("evaluate", {directory / "f.tsv", "--json"}));
  CHECK(json["models"] == 1);
  CHECK(json["pairs"] == 40);
  CHECK(json["exact_match"].get<double>() == doctest::Approx(1 - 11 / 40.0));
  CHECK(json["word_error"].get<double>() == doctest::Approx(11 / 40.0));
  CHECK(wrong == 11);
  CHECK(json["all"]["right"] == 29);
  CHECK(json["token_error"].get<double>() == doctest::Approx(11 / static_cast<double>(tokens)));
  long by_length = 0, confusions = 0;
  for (const auto& [length, some] : json["by_length"].items())
    by_length += some["right"].get<long>();
  for (const Json& one : json["confusions"]) confusions += one["times"].get<long>();
  CHECK(by_length == 29);
  CHECK(confusions == 11);
  CHECK(json["confusions"][0] == Json{{"expected", "m"}, {"written", "∅"}, {"times", 10}});
  const std::string table = output_of(t.with("evaluate", {directory / "f.tsv"}));
  CHECK(contains(table, "exact match 72.50 %"));
  CHECK(contains(table, "(not in the vocabulary)"));
  CHECK(contains(table, "11 mistakes; the 10 with the highest probability"));
  // Without a file: the validation pairs.
  const auto of = [&](const Arguments& more) {
    return json_of(t.with("evaluate", more + Arguments{"--json"}))["all"];
  };
  CHECK(of({}) == of({t / "valid.tsv"}));
  Json together = json_of(t.with("evaluate", {"--model", t / "model", "--json"}));
  CHECK(together["models"] == 2);
  CHECK(together["all"] == of({}));
}

TEST_CASE("attune report: does not replace a file that is not an HTML page") {
  const TrainedWords& t = TrainedWords::get();
  const Words files;
  std::filesystem::create_directory(files / "out");
  write(files / "out/report.html", "notes");
  CHECK(contains(error_of(files.train("out", twenty_steps)),
                 "report.html: exists and is not an HTML page"));
  CHECK_FALSE(std::filesystem::exists(files / "out/best.safetensors"));
  const std::string valid = t / "valid.tsv", before = read(valid);
  CHECK(error_of(t.with("report", {"--out", valid})) ==
        "attune: " + valid + ": exists and is not an HTML page, expected another output file");
  CHECK(read(valid) == before);
  CHECK(contains(error_of(t.with("report", {"--out", files / "none/page.html"})),
                 "cannot be written: No such file or directory"));
  CHECK(error_of(t.with("report", {"--model", t / "model"})) ==
        "attune: --out: missing, but required for 2 models");
}

TEST_CASE("attune train: without --valid, every seed has the same held-out pairs") {
  const Words files;
  const auto train = [&](const std::string& out, const Arguments& more) {
    return output_of(Arguments{"train", files / "train.tsv", "--out", files / out} + twenty_steps +
                     more);
  };
  const std::string printed = train("a", {"--held-out", "30"});
  const long held = std::stol(printed.substr(printed.find("train on, ") + 10));
  CHECK((held > 20 && held <= 30));
  CHECK(
      contains(printed, fmt::format("{} pairs to train on, {} to validate on", 400 - held, held)));
  train("b", {"--seed", "2", "--held-out", "30"});
  const auto measured = [&](const std::string& first, const std::string& second) {
    return json_of({"evaluate", "--json", "--model", files / first, "--model", files / second});
  };
  CHECK(measured("a", "b")["all"]["tokens"] == measured("b", "a")["all"]["tokens"]);
  CHECK(measured("a", "b")["pairs"] == held);
  write(files / "train.tsv", words(400, 3));
  CHECK(contains(error_of({"evaluate", "--model", files / "a"}),
                 "train.tsv: the file has changed, or the models were validated on different"));
  check_refused({{{"evaluate", "--model", files / "a", "--out", files / "train.tsv"},
                  files / "train.tsv" + ": is also read or written by this program, ..."}});
  CHECK(contains(error_of({"train", "--resume", "--out", files / "a"}),
                 "_data differs: the checkpoint was trained on other data"));
}

TEST_CASE("make_codecs: does not learn the case of held-out words") {
  const Directory directory;
  std::string rows;
  for (int i = 0; i < 100; ++i) rows += fmt::format("a Name{}\tb\n", i);
  write(directory / "rows.tsv", rows);
  TrainOptions o;
  o.train = directory / "rows.tsv", o.truecase = true;
  o.source_tokens = o.target_tokens = Tokens::words;
  const Survey survey = survey_of(o);
  const Codecs codecs = make_codecs(o, survey);
  for (int i = 0; i < 100; ++i) {
    const bool known = codecs.source.tokenizer.encode(fmt::format("a name{}", i))[1][0] == 'N';
    CHECK(known != survey.holds_out(fmt::format("a Name{}", i)));
  }
}

TEST_CASE("Survey: holds out all pairs of a source together, at most a tenth of all pairs") {
  const Directory directory;
  std::string rows;
  for (int i = 0; i < 300; ++i) rows += fmt::format("source {}\ttarget {}\n", i % 100, i);
  write(directory / "rows.tsv", rows);
  const PairFiles files{directory / "rows.tsv", {}};
  const Survey survey = survey_of(files, 1000);
  CHECK(survey.pairs == 300);
  int sources = 0;
  for (int i = 0; i < 100; ++i) sources += survey.holds_out(fmt::format("source {}", i));
  CHECK(sources == 10);  // with three pairs each
  CHECK(survey_of(files, 7).held_out.size() == 2);
  CHECK(survey_of(files, 0).held_out.empty());
  write(directory / "few.tsv", "a\tb\nc\td\n");
  CHECK_THROWS_WITH_AS(survey_of({directory / "few.tsv", {}}, 10),
                       ("--train: no pairs of " + directory / "few.tsv" +
                        " can be held out (at most 0 of 2, and all or none with the same source), "
                        "expected --valid FILE")
                           .c_str(),
                       Error);
}

TEST_CASE("Survey: holds out the requested number of pairs, whichever source repeats") {
  const Directory directory;
  const PairFiles files{directory / "rows.tsv", {}};
  for (int often = 0; often < 100; often += 5) {
    std::string rows;
    for (int i = 0; i < 200; ++i)
      rows += fmt::format("source {}\ttarget {}\n", i < 100 ? i : often, i);
    write(directory / "rows.tsv", rows);
    CHECK(survey_of(files, 1000).held_out.size() == 20);
  }
  std::string rows;  // each source has more than a tenth of the pairs: holds out the rarest
  for (int i = 0; i < 60; ++i) rows += fmt::format("source {}\ttarget {}\n", i % 3, i);
  write(directory / "rows.tsv", rows + "source 1\tx\nsource 2\ty\n");
  const Survey survey = survey_of(files, 1000);
  CHECK(survey.held_out.size() == 1);
  CHECK(survey.holds_out("source 0"));
}

TEST_CASE("TrainingPairs: prints the place of a long pair, and batches it with few others") {
  const Words files;
  const std::string line = repeated("ba", 600) + "\taː\n";
  write(files / "long.tsv", read(files / "train.tsv") + line + words(20, 3));
  const std::string printed =
      output_of({"train", files / "long.tsv", "--valid", files / "valid.tsv", "--out",
                 files / "out", "--steps", "1", "--hidden", "8"});
  CHECK(contains(printed, files / "long.tsv:401: 1200 tokens (mean: "));
  TrainOptions options = train_options(false);
  options.train = files / "long.tsv", options.valid = files / "valid.tsv";
  options.out = files.path();
  set_silent(true);
  const Survey survey = survey_of(options);
  TrainingPairs pairs(options, survey, make_codecs(options, survey));
  set_silent(false);
  std::size_t seen = 0, largest = 0;
  for (const auto& batch : pairs.batches(0)) {
    seen += batch.size();
    largest = std::max(largest, static_cast<std::size_t>(pairs.batch(batch).source.size()));
  }
  CHECK(seen == 421);
  CHECK(largest <= 64 * 256);
}

TEST_CASE("attune train: excludes and counts validation pairs that are too long") {
  const Words files;
  const std::string line = repeated("ba", 60) + "\taː\n";
  write(files / "valid.tsv", read(files / "valid.tsv") + line);
  write(files / "train.tsv", read(files / "train.tsv") + line);
  const std::string printed =
      output_of(files.train("out", twenty_steps + Arguments{"--max-tokens", "100"}));
  CHECK(contains(printed, "401 pairs, 1 left out: 1 longer than 100 tokens"));
  CHECK(contains(printed, "400 pairs to train on, 40 to validate on (1 too long)"));
  CHECK(json_of({"evaluate", "--model", files / "out", "--json"})["pairs"] == 40);
}

TEST_CASE("attune: composed and decomposed text are equal, unless --nfc no") {
  const Words files;
  std::string decomposed;
  for (const char c : words(400, 1))
    decomposed += c == '\xC3' ? "e\u0301" : std::string(c != '\xA9', c);
  write(files / "decomposed.tsv", decomposed);
  output_of(files.train("a", twenty_steps));
  output_of(Arguments{"train", files / "decomposed.tsv", "--valid", files / "valid.tsv", "--out",
                      files / "b"} +
            twenty_steps);
  check_same_tensors(files / "a/best.safetensors", files / "b/best.safetensors");
  const Arguments composed = {"predict", "--model", files / "a", "té"},
                  other = {"predict", "--model", files / "a", "te\u0301"};
  CHECK(output_of(composed) == output_of(other));
  output_of(
      files.train("as is", twenty_steps + Arguments{"--nfc", "no", "--tokens", "characters"}));
  const ProcessResult result = run({"predict", "--model", files / "as is", "te\u0301"});
  CHECK(contains(result.err, "warning: '\\u0301' was never seen in training"));
  CHECK(contains(output_of(files.train("as is", {"--resume", "--nfc", "no"})),
                 "predict --model '" + files / "as is" + "'"));
  output_of(files.train("c", twenty_steps + Arguments{"--tokens", "characters"}));
  CHECK(contains(error_of({"predict", "--model", files / "c", "--model", files / "as is", "t"}),
                 "its nfc differs from that of the first model"));
}

TEST_CASE("attune score, align: warn about unknown tokens") {
  const TrainedWords& trained = TrainedWords::get();
  write(trained / "unknown.tsv", "ta\tt aː\nt%\tt aː\nta\tt ?\n");
  const ProcessResult score = run(trained.with("score", {trained / "unknown.tsv"}));
  CHECK(score.status == 0);
  CHECK(contains(score.err,
                 "1 of 6 source tokens are not in the vocabulary and are read as "
                 "<unk>: '%'"));
  CHECK(contains(score.err,
                 "1 of 6 target tokens are not in the vocabulary and are read as "
                 "<unk>: '?'"));
  write(trained / "sources", "ta\nt%\n");
  CHECK(contains(run(trained.with("align", {trained / "sources"})).err, "1 of 4 source tokens"));
}

TEST_CASE("attune train: resumes with moved data files") {
  const Words files;
  output_of(files.train("out", twenty_steps));
  std::filesystem::create_directory(files / "moved");
  for (const char* name : {"train.tsv", "valid.tsv"})
    std::filesystem::rename(files / name, files / ("moved/" + std::string(name)));
  const Arguments resume = {"train",    files / "moved/train.tsv",
                            "--valid",  files / "moved/valid.tsv",
                            "--out",    files / "out",
                            "--resume", "--steps",
                            "40"};
  output_of(resume);
  CHECK(step_of(files / "out/last.safetensors") == 40);
  output_of(resume);  // already finished; the best weights may contain the old paths
}

TEST_CASE("attune train --seeds: does not change a directory in use") {
  const Words files;
  const Arguments train = files.train("seeds", twenty_steps + Arguments{"--seeds", "2"});
  output_of(train);
  for (const char* used : {"seeds", "seeds/seed-2"}) {
    const DirectoryLock lock(files / used);
    const auto before = contents_of(files / used);
    CHECK(contains(error_of(train), std::string(used) + " is in use by process "));
    CHECK(contents_of(files / used) == before);
  }
}

TEST_CASE("attune train: messages name existing files and real options") {
  const Words files;
  const std::string out = files / "out";
  CHECK_FALSE(contains(output_of(files.train("out", {"--minutes", "1e-9", "--hidden", "8"})),
                       "last.safetensors"));
  output_of(files.train("out", twenty_steps + Arguments{"--dropout", "-0"}));
  std::filesystem::remove(out + "/best.safetensors");
  const ProcessResult resumed =
      run({"train", "--resume", "--out", out, "--dropout", "0", "--steps", "21"});
  CHECK(resumed.err == out + "/best.safetensors is missing: the next validation writes it again\n");
  CHECK(std::filesystem::exists(out + "/best.safetensors"));
  Safetensors file = load_safetensors(out + "/last.safetensors");
  file.metadata.erase("hidden");
  save_safetensors(files / "without.safetensors", file);
  CHECK(contains(error_of({"average", files / "without.safetensors", out + "/last.safetensors"}),
                 files / "without.safetensors: "));
}

TEST_CASE("make_codecs: chooses the tokenisation from the data by default") {
  const auto kinds = [](const std::vector<text::TextPair>& pairs, TrainOptions options = {}) {
    const Directory directory;
    std::string rows;
    for (const auto& [source, target] : pairs) rows += source + "\t" + target + "\n";
    write(directory / "rows.tsv", rows);
    options.train = directory / "rows.tsv";
    set_silent(true);
    const Codecs codecs = make_codecs(options, survey_of(options.train_files(), 0));
    set_silent(false);
    return kind_of(codecs.source.tokenizer) + " -> " + kind_of(codecs.target.tokenizer);
  };
  CHECK(kinds({{"hello", "HH AH0 L OW1"}, {"cat", "K AE1 T"}}) ==
        "characters -> words between blanks");
  CHECK(kinds({{"hé", "ʃ aː"}, {"a", "t͡s ə"}}) == "decomposed characters -> words between blanks");
  CHECK(kinds({{"27 June 2001", "2001-06-27"}, {"3 mai 79", "é"}}) == "characters -> characters");
  CHECK(kinds({{"a b c d", "the big cat sat here"}, {"e f g h", "no dogs ever came"}}) ==
        "words between blanks -> words between blanks");
  CHECK(kinds({{"1321", "one thousand three hundred twenty one"},
               {"7", "the number seven alone"}}) == "characters -> words between blanks");
  TrainOptions options;
  options.tokens = Tokens::words, options.target_tokens = Tokens::characters;
  CHECK(kinds({{"hé", "ʃ aː"}}, options) == "words between blanks -> characters");
}

TEST_CASE("kind_of: does not depend on the words that a truecaser knows") {
  using text::Tokenizer;
  const auto known = std::vector<std::string>{"decomposed", "words", "\"words\""};
  const auto truecaser = std::make_shared<text::Truecaser>(known, false);
  CHECK(kind_of(Tokenizer(text::Characters{}).with(truecaser)) == "characters");
  CHECK(kind_of(Tokenizer(text::Words{}).with(truecaser)) == "words between blanks");
  CHECK(kind_of(text::decomposed_characters()) == "decomposed characters");
}

TEST_CASE("attune train --seeds: evaluates models alone and as an ensemble, trains none twice") {
  const Words files;
  const Arguments train =
      files.train("seeds", twenty_steps + Arguments{"--seeds", "2", "--threads", "2"});
  const std::string printed = output_of(train);
  for (const char* part :
       {"2 trainings, 2 at a time", "2/2  seed-", "exact match, %, each of the 2 models: ", " ± ",
        "the ensemble: exact match ", "Try it: "})
    CHECK_MESSAGE(contains(printed, part), part);
  CHECK(contains(read(files / "seeds/report.html"), "seed-2"));
  const std::string best = files / "seeds/seed-1/best.safetensors";
  const auto written = std::filesystem::last_write_time(best);
  CHECK(contains(output_of(train), printed.substr(printed.find("the ensemble: "), 30)));
  CHECK(std::filesystem::last_write_time(best) == written);
  CHECK(json_of({"evaluate", "--model", files / "seeds", "--json"})["models"] == 2);
  CHECK(contains(error_of({"average", files / "seeds"}),
                 "its seed differs from that of the first checkpoint"));
  output_of(files.train("alone", twenty_steps + Arguments{"--seed", "2"}));
  for (const auto& [out, seeds, other] : {std::tuple{"seeds", "1", files / "seeds/seed-1"},
                                          {"alone", "2", files / "alone"},
                                          {"seeds", "2", files / "seeds/seed-1"}}) {
    const Arguments more = {"--seed", "2", "--seeds", seeds};
    CHECK(error_of(files.train(out, twenty_steps + more)) ==
          "attune: --out: " + other + " contains another training, expected another directory");
  }
  check_same_tensors(files / "alone/best.safetensors", files / "seeds/seed-2/best.safetensors");
  CHECK(learnt_in(files / "alone") != learnt_in(files / "seeds/seed-1"));
  const Arguments longer =
      files.train("seeds", twenty_steps + Arguments{"--seeds", "2", "--steps", "30"});
  CHECK(contains(error_of(longer), " was trained for 20 steps, not 30 steps"));
  output_of(longer + Arguments{"--resume"});
  CHECK(step_of(files / "seeds/seed-2/last.safetensors") == 30);
  const Arguments by_epochs = files.train("epochs", tiny_words + Arguments{"--seeds", "2"});
  output_of(by_epochs + Arguments{"--epochs", "2"});
  CHECK(contains(error_of(by_epochs + Arguments{"--epochs", "1"}),
                 " trained for 2 epochs, not 1 epochs"));
}

TEST_CASE("attune train --halve: better tokens are an improvement, also without exact matches") {
  const Words files;
  output_of(files.train("out", twenty_steps + Arguments{"--halve", "1", "--validate-every", "4"}));
  const auto metadata = load_safetensors(files / "out/last.safetensors").metadata;
  CHECK(std::stoi(metadata.at("plateau.best")) > 1);  // the number of improvements
  CHECK(log_of(files / "out").back().at("exact_match") == 0);
}

TEST_CASE("attune train --epochs: complete epochs, also if their numbers of batches differ") {
  const Words files;
  output_of(
      files.train("out", without(tiny_words, "--batch") +
                             Arguments{"--epochs", "6", "--batch-tokens", "60", "--pool", "64"}));
  const auto metadata = load_safetensors(files / "out/last.safetensors").metadata;
  CHECK(metadata.at("epoch") == "6");
  CHECK(metadata.at("position") == "0");
}

TEST_CASE("attune train: it stops without improvement, or at the time limit") {
  const Words files;
  CHECK(contains(output_of(files.train(
                     "a", tiny_words + Arguments{"--rate", "1e-9", "--patience", "2", "--average",
                                                 "0", "--validate-every", "10"})),
                 "no improvement after "));
  CHECK(contains(output_of(files.train("b", tiny_words + Arguments{"--minutes", "0.001"})),
                 "out of time, --minutes 0.001 after "));
}

TEST_CASE("attune: every model by name trains and predicts, with or without attention") {
  const Words files;
  for (const char* name : {"bahdanau", "nematus", "luong", "encoder-decoder", "sutskever"}) {
    CAPTURE(name);
    const Arguments train = {"--model", name, "--hidden",         "16", "--embedding", "8",
                             "--steps", "40", "--validate-every", "20", "--rate",      "0.01"};
    output_of(files.train(name, train));
    const auto log = log_of(files / name);
    CHECK(log.back().at("loss") < 0.95 * log.front().at("loss").get<double>());
    CHECK(json_of({"predict", "--json", "--model", files / name, "shabé"}).contains("best"));
    const std::string page = read(files / name + "/report.html");
    const bool attends = models::model_kind(name).attends;
    CHECK(contains(page, ">Attention<") == attends);
    CHECK(contains(page, "Predictions, best first"));
    CHECK(load_safetensors(files / name + "/best.safetensors").metadata.at("model") == name);
    if (attends) continue;
    CHECK(contains(error_of({"align", files / "valid.tsv", "--model", files / name}),
                   "the model has no attention"));
    CHECK(lines_of(output_of({"score", files / "valid.tsv", "--model", files / name})).size() ==
          40);
  }
  CHECK(error_of(files.train("o", {"--model", "sutskever", "--score", "dot"})) ==
        "attune: --score: the model sutskever has no such option, unlike bahdanau, "
        "nematus, luong");
}

TEST_CASE("attune train: other cells and models give the same weights when killed and resumed") {
  const Words files;
  for (const Arguments& kind :
       {Arguments{"--cell", "lstm", "--coverage", "summed", "--readout", "8", "--tied",
                  "target-output"},
        {"--model", "bahdanau", "--dropout", "0.2", "--window", "local-p", "--score", "concat"}}) {
    CAPTURE(kind[0]);
    const std::string whole = files / ("whole" + kind[0]), killed = files / ("killed" + kind[0]);
    output_of(files.train("whole" + kind[0], long_run + kind));
    const Arguments again = files.train("killed" + kind[0], long_run + kind);
    REQUIRE(interrupt(killed, again, SIGKILL).signal == SIGKILL);
    REQUIRE(step_of(killed + "/last.safetensors") < 400);
    CHECK(contains(output_of({"train", "--resume", "--out", killed}), " of 400\n"));
    check_same_run(whole, killed);
    auto before = load_safetensors(whole + "/last.safetensors").metadata,
         after = load_safetensors(killed + "/last.safetensors").metadata;
    for (const char* name : {"seconds", "training", "log_line"})
      before.erase(name), after.erase(name);
    CHECK(before == after);
  }
}

TEST_CASE("attune train: a signal saves the current step; exit status 128 + signal; resumable") {
  const Words files;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    CAPTURE(signal);
    const std::string stopped = files / std::to_string(signal);
    const Arguments train = files.train(std::to_string(signal), long_run);
    const ProcessResult result = interrupt(stopped, train, signal);
    CHECK(result.status == 128 + signal);
    CHECK(result.err.empty());
    const long step = step_of(stopped + "/last.safetensors");
    REQUIRE(step < 400);
    CHECK(contains(result.out, fmt::format("stopped after {} steps", step)));
    CHECK(contains(output_of(train + Arguments{"--resume"}), "finished after 400 steps"));
    check_same_run(Whole::path(), stopped);
  }
  const Arguments ignores = Arguments{"sh", "-c", "trap '' HUP; exec \"$@\"", "sh", PROGRAM};
  const std::string last = files / "ignored/last.safetensors";
  CHECK(
      run_process(ignores + files.train("ignored", long_run),
                  {.signal_when = [&] { return std::filesystem::exists(last); }, .signal = SIGHUP})
          .status == 0);
  const Arguments unread = {"sh", "-c", "(\"$@\"; echo $? >&2) | head -n 1 >/dev/null", "sh",
                            PROGRAM};
  CHECK(
      run_process(unread + files.train("unread", long_run + Arguments{"--steps", "100000"})).err ==
      "141\n");
}

TEST_CASE("attune train: signals between and during validations do not change the weights") {
  const Words files;
  write(files / "valid.tsv", words(1500, 2));
  const Arguments arguments = twenty_steps + Arguments{"--validate-every", "1"};
  output_of(files.train("whole", arguments));
  ProcessResult result;
  int lives = 0;
  do {
    const std::string last = files / "stopped/last.safetensors";
    const auto before = std::filesystem::exists(last) ? read(last) : "";
    const auto saved = [&] { return std::filesystem::exists(last) && read(last) != before; };
    result = run(files.train("stopped", arguments) + Arguments{"--resume"},
                 {.signal_when = saved, .signal = SIGTERM});
  } while (result.status == 143 && ++lives < 100);
  CHECK(result.status == 0);
  CHECK(lives > 3);
  check_same_run(files / "whole", files / "stopped");
}

TEST_CASE("attune train --resume: options that may change, and messages") {
  const Words files;
  const std::string out = files / "out", last = out + "/last.safetensors";
  CHECK(contains(output_of(files.train("out", twenty_steps + Arguments{"--resume"})),
                 fmt::format("no checkpoint to resume in {}: starting a new run\n", out)));
  auto before = contents_of(out);
  const Arguments resume = {"train", "--resume", "--out", out};
  CHECK(contains(output_of(resume), "finished after 20 steps"));
  before.erase(out + "/report.html");
  auto after = contents_of(out);
  after.erase(out + "/report.html");
  CHECK(after == before);
  const std::string trained = "--resume: " + last + " was trained with ";
  check_refused(
      {{resume + Arguments{"--hidden", "17"}, trained + "hidden = '16', not '17'"},
       {resume + Arguments{"--seed", "2"}, trained + "seed = '1', not '2'"},
       {resume + Arguments{"--cell", "lstm"}, trained + "cell = 'gru', not 'lstm'"},
       {resume + Arguments{"--batch", "8"}, trained + "batch = '16', not '8'"},
       {resume + Arguments{"--model", "luong"}, trained + "model = 'nematus', not 'luong'"},
       {resume + Arguments{"--score", "dot"}, trained + "score = 'additive', not 'dot'"},
       {resume + Arguments{"--tokens", "words"}, trained + "tokens = 'auto', not 'words'"}});
  // Removes an incomplete last line, and continues the log.
  write(out + "/log.jsonl", read(out + "/log.jsonl") + R"({"step": 15, "lo)");
  CHECK(contains(output_of(resume + Arguments{"--steps", "30"}), "resuming at step 20 of 30\n"));
  std::vector<long> steps;
  for (const Json& line : log_of(out)) steps.push_back(line.at("step"));
  CHECK(steps == std::vector<long>{10, 20, 30});
  CHECK(contains(output_of(resume + Arguments{"--steps", "5"}),
                 "the checkpoint is already past the requested 5 steps\nfinished after 30 steps"));
}

TEST_CASE("attune train: the log has one JSON object per line, with metrics after validations") {
  const Words files;
  output_of(files.train("out", tiny_words + Arguments{"--steps", "70", "--validate-every", "60"}));
  std::vector<long> steps;
  for (const Json& line : log_of(files / "out")) {
    steps.push_back(line.at("step"));
    for (const char* name : {"loss", "rss_mib", "rate"}) CHECK(line.at(name).get<double>() > 0);
    CHECK(line.at("epoch") == steps.back() / 25);  // epoch of the next batch
    for (const char* name : {"exact_match", "token_error", "bleu", "chrf", "valid_loss"})
      CHECK(line.contains(name) == (steps.back() != 50));
  }
  CHECK(steps == std::vector<long>{50, 60, 70});
  const std::string last = read(files / "out/last.safetensors");  // a second run keeps it
  output_of(files.train("out", twenty_steps));
  CHECK(read(files / "out/last.previous.safetensors") == last);
}

TEST_CASE("attune train: skips and counts non-finite updates; reports divergence") {
  const Words files;
  output_of(files.train("out", twenty_steps + Arguments{"--average", "0"}));
  const std::string last = files / "out/last.safetensors";
  Safetensors file = load_safetensors(last);
  Tensor& w = file.tensors.at("readout.U_o");
  w = full(w.shape(), std::numeric_limits<double>::infinity());
  save_safetensors(last, file);
  const ProcessResult result = run({"train", "--resume", "--out", files / "out", "--steps", "60"});
  CHECK(result.status == 1);
  const std::vector<std::string> lines = lines_of(result.err);
  REQUIRE(lines.size() == 11);
  CHECK(lines[0].starts_with("step 21: the update is skipped: the loss is "));
  CHECK(lines[10] == "attune: train: 10 consecutive updates were skipped, the last one at step 30");
  const Safetensors left = load_safetensors(last);
  CHECK(left.metadata.at("divergence.skipped") == "10");
  for (const auto& [name, tensor] : file.tensors)  // the weights are unchanged
    CHECK(tensor.to_vector<float>() == left.tensors.at(name).to_vector<float>());
}

TEST_CASE("attune: refuses a truncated or changed checkpoint with its name") {
  const Words files;
  const std::string file = files / "run/last.safetensors",
                    whole = read(TrainedWords::get() / "model/last.safetensors");
  std::filesystem::create_directory(files / "run");
  const Arguments predict = {"predict", "--model", file, "ta"},
                  resume = {"train", "--resume", "--out", files / "run"};
  for (const std::size_t size :
       {std::size_t{7}, std::size_t{8}, std::size_t{5000}, whole.size() / 2, whole.size() - 1}) {
    CAPTURE(size);
    write(file, whole.substr(0, size));
    CHECK(contains(error_of(predict), file));
    CHECK(contains(error_of(resume), file));
  }
  for (const auto& [name, value, part] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"hidden", "0", "hidden"},
           {"hidden", "wide", "hidden"},
           {"embedding", "17", "(11, 17)"},
           {"cell", "lstm", "W_x"},
           {"score", "general", "attention"},
           {"encoder-layers", "2", "encoder.layer2.forward."},
           {"coverage", "summed", "attention"},
           {"tied", "anywhere", "tied"},
           {"dropout", "2", "dropout"},
           {"model", "lstm", "model"},
           {"longest-target", "99999999999", "longest-target"},
           {"format", "attune pairs 0", "the format is 'attune pairs 0', expected"},
           {"source_vocabulary", R"(["a", "b"])", ""},
           {"target_vocabulary", R"(["0", "0"])", ""}}) {
    CAPTURE_BINDING(name);
    CAPTURE_BINDING(value);
    save_changed(file, name, value);
    const std::string line = error_of(predict);
    CHECK(contains(line, file));
    CHECK_MESSAGE(contains(line, part), line);
  }
}

TEST_CASE("attune: refuses a checkpoint with enormous sizes before it allocates memory for them") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return;  // a sanitizer needs more address space than the test leaves
#endif
  const Directory directory;
  const std::string file = directory / "last.safetensors";
  save_changed(file, "hidden", "16384");  // W_h alone would have 3 GiB
  for (const std::string& arguments :
       {"predict 1979 --model " + file, "train --resume --out " + directory.path()}) {
    const std::string command = fmt::format("ulimit -v 2000000; exec {} {}", PROGRAM, arguments);
    const std::string line =
        attune::test::error_line("attune", attune::test::run_process({"sh", "-c", command}));
    CHECK(contains(line, file));
    CHECK_FALSE(contains(line, "memory"));
  }
}

TEST_CASE("attune: errors of options and pairs are one line, status 1, and create no files") {
  const Words files;
  const std::string bad = files / "bad.tsv", out = files / "out";
  const auto train = [&](const Arguments& more) {
    return Arguments{"train", bad, "--out", out} + more;
  };
  const Arguments valid = {"--valid", files / "valid.tsv"};
  write(bad, "a\tb\n");
  check_refused({
      {train(valid + Arguments{"--tokens", "words", "--pieces", "20"}),
       "--pieces: has no effect without --tokens bpe or unigram"},
      {train(valid + Arguments{"--held-out", "20"}),
       "--held-out: has no effect without held-out pairs, which --valid replaces"},
      {train({"--batch", "0"}), "--batch: '0' is not a whole number from 1 to 1000000000"},
      {train(valid + Arguments{"--jobs", "2"}), "--jobs: has no effect without --seeds"},
      {train({"--model", "lstm"}), "--model: 'lstm' is not one of bahdanau, ..."},
      {train({"--valid", files / "none"}), files / "none" + ": cannot be read..."},
      {train({}), "--train: no pairs of " + bad + " can be held out (at most 0 of 1..."},
      {train({"--learning-rate", "1"}),
       "'--learning-rate' is not an option; --help-all lists them"},
      {{}, "no command: train, predict, ..."},
      {{"train"}, "train: no pairs, expected attune train PAIRS.tsv (source TAB target ..."},
      {{"trian"}, "'trian' is not a command; did you mean train?"},
      {{"translate"}, "'translate' is not a command: train, predict, ..."},
      {train({"--hiden", "8"}), "'--hiden' is not an option; did you mean --hidden?"},
      {train({"--sed"}), "'--sed': unknown option, or its value is missing; did you mean --seed?"},
      {train({"--seed"}), "--seed: the value is missing"},
      {{"predict", "--model", files.path(), "a"},
       files.path() + ": neither it nor a subdirectory contains best.safetensors"},
      {{"train", files / "train.tsv", "--out", ""}, "--out: the path is empty"},
      {{"train", files / "train.tsv", "--out", files / "train.tsv"}, files / "train.tsv..."},
  });
  for (const auto& [pairs, more, error] :
       std::vector<std::tuple<const char*, Arguments, const char*>>{
           {"a\tb\nno tab\n", {}, ":2: one column, expected source TAB target"},
           {"a\tb\nno tab\n", {"--swap"}, ":2: one column, expected target TAB source"},
           {"a\tb\xff\n", {}, ":1: byte 4 of the line (0xFF) is not UTF-8, expected text in UTF-8"},
           {"", {}, ": contains no pairs, expected lines of source TAB target"}}) {
    write(bad, pairs);
    check_refused({{train(more), bad + error}});
  }
  const std::string bytes = files / "\xff";
  write(bytes, "a\tb\n");
  check_refused({{Arguments{"train", bytes, "--out", out} + valid,
                  "--train: " + in_quotes(bytes) + " is not UTF-8, which checkpoints require"}});
  CHECK_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace attune::pairs::test
