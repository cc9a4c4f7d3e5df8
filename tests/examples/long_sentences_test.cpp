// The parts of long_sentences.
#include <cmath>
#include <csignal>
#include <set>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/models/seq2seq.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

#include "long_sentences/results.hpp"
#include "support/processes.hpp"
#include "support/scratch_directory.hpp"

namespace attune::long_sentences {
namespace {

using text::Sentence;

TEST_CASE("Task: a sentence has the length asked for, words of the language and none twice") {
  const Task task(9, 1);
  Random random(1);
  std::set<std::int32_t> seen;
  for (Index length = 1; length <= 9; ++length) {
    const Sentence sentence = task.draw(length, random);
    const std::set<std::int32_t> words(sentence.begin(), sentence.end());
    CHECK(std::ssize(sentence) == length);
    CHECK(std::ssize(words) == length);
    seen.insert(words.begin(), words.end());
  }
  CHECK(seen == std::set<std::int32_t>{4, 5, 6, 7, 8, 9, 10, 11, 12});
  CHECK(task.source_vocabulary() == 13);
  CHECK(task.target_vocabulary() == 22);
}

TEST_CASE("Task: a word becomes one of two forms, by the class of the word before alone") {
  const Task task(12, 3);
  std::set<std::int32_t> targets, forms;
  for (std::int32_t w = 4; w < 16; ++w) {
    const std::int32_t alone = task.translate({w}).front();
    CHECK(alone >= 4);
    CHECK(alone < 28);
    CHECK(targets.insert(alone).second);
    CHECK_FALSE(targets.contains(alone + 1));
    CHECK_FALSE(targets.contains(alone - 1));
  }
  for (std::int32_t before = 4; before < 16; ++before) {
    const std::int32_t other = before == 4 ? 5 : 4;
    const std::int32_t form = task.translate({before, other})[1] - task.translate({other}).front();
    forms.insert(form);
    for (std::int32_t w = 4; w < 16; ++w) {
      const Sentence pair = task.translate({before, w}), longer = task.translate({7, before, w, 9});
      CHECK(pair.front() == task.translate({before}).front());
      CHECK(pair[1] == task.translate({w}).front() + form);
      CHECK(longer[2] == pair[1]);
    }
  }
  CHECK(forms == std::set<std::int32_t>{0, 1});
}

TEST_CASE("Task: the seed decides the language, the generator the sentences") {
  const Sentence words = {4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
  CHECK(Task(11, 1).translate(words) == Task(11, 1).translate(words));
  CHECK(Task(11, 1).translate(words) != Task(11, 2).translate(words));
  Random a(5), b(5), c(6);
  const Task task(11, 1);
  const auto first = task.pairs(7, 3, a), second = task.pairs(7, 3, b), third = task.pairs(7, 3, c);
  REQUIRE(first.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(first[i].source == second[i].source);
    CHECK(first[i].target == task.translate(first[i].source));
    CHECK(first[i].source != third[i].source);
  }
}

TEST_CASE("Task: errors name the number") {
  Random random(1);
  CHECK_THROWS_WITH_AS(Task(0, 1), "Task: words = 0 is less than 1", Error);
  CHECK_THROWS_WITH_AS(Task(5, 1).draw(6, random), "Task: length 6 is not in 1 to 5", Error);
  CHECK_THROWS_WITH_AS(Task(5, 1).draw(0, random), "Task: length 0 is not in 1 to 5", Error);
}

TEST_CASE("variants: every one is a model, under a name of its own") {
  std::set<std::string> names;
  for (const Variant& one : variants()) {
    CAPTURE(one.name);
    CHECK(names.insert(one.name).second);
    models::Seq2SeqOptions options = options_of(variant(one.name), 8, 9);
    options.source_vocabulary = options.target_vocabulary = 7;
    nn::Parameters parameters;
    CHECK_NOTHROW(models::Seq2Seq(parameters, options));
  }
  CHECK(options_of(variant("luong-location"), 8, 9).score.longest == 9);
  CHECK(options_of(variant("luong-local-m"), 8, 9).attention.window == nn::Window::local_monotonic);
}

/// 0.5 at length 5 and a tenth less at each further one, and the same plus `more`.
Record record(const std::string& variant, std::uint64_t seed, double more = 0) {
  Record record{"b", variant, seed, {}};
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    record.result.accuracy[i] = 0.5 + more - 0.05 * static_cast<double>(i);
  }
  record.result.loss = 1.25;
  record.result.seconds = 2.5;
  record.result.parameters = 321;
  return record;
}

TEST_CASE("results: what is written is read again") {
  const ScratchDirectory directory;
  const Budget budget;
  const std::filesystem::path file = directory / "results.jsonl";
  CHECK(read_records(file, budget).empty());
  const Record before = record("bahdanau", 7, 1.0 / 3);
  report::LogWriter(file.string(), false).write(fields_of(before, budget));
  const std::vector<Record> records = read_records(file, budget);
  REQUIRE(records.size() == 1);
  CHECK(records[0].setting == "b");
  CHECK(records[0].variant == "bahdanau");
  CHECK(records[0].seed == 7);
  CHECK(records[0].result.accuracy == before.result.accuracy);
  CHECK(records[0].result.loss == 1.25);
  CHECK(records[0].result.seconds == 2.5);
  CHECK(records[0].result.parameters == 321);
}

TEST_CASE("results: a line of something else is named, one that was cut short does not count") {
  const ScratchDirectory directory;
  const std::filesystem::path file = directory / "results.jsonl";
  const Budget budget{.steps = 10, .hidden = 8};
  report::LogWriter(file.string(), false).write(fields_of(record("bahdanau", 1), budget));
  const std::string line = read_file(file);
  write_file(file, line + line.substr(0, line.size() / 2));
  CHECK(read_records(file, budget).size() == 1);
  write_file(file, line + "{\"steps\": 10}\n");
  CHECK_THROWS_WITH_AS(read_records(file, budget),
                       fmt::format("{}:2: not a result of long_sentences", file.string()).c_str(),
                       Error);
  write_file(file, line);
  CHECK_THROWS_WITH_AS(
      read_records(file, {.steps = 11, .hidden = 8}),
      fmt::format("{}:1: a result of --steps 10, not 11: another --out is needed", file.string())
          .c_str(),
      Error);
  CHECK_THROWS_WITH_AS(
      read_records(file, {.steps = 10, .hidden = 6}),
      fmt::format("{}:1: a result of --hidden 8, not 6: another --out is needed", file.string())
          .c_str(),
      Error);
}

TEST_CASE("results: a row is mean and standard deviation over the seeds of a variant and setting") {
  Record other = record("bahdanau", 1, 0.5);
  other.setting = "a";
  const std::vector<Row> rows =
      rows_of({record("luong-dot", 1), record("bahdanau", 1), record("bahdanau", 2, 0.1),
               record("bahdanau", 3, 0.5), other},
              "b");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].variant == "bahdanau");
  CHECK(rows[0].seeds == 3);
  CHECK(rows[0].accuracy[0].mean == doctest::Approx(0.7));
  CHECK(rows[0].accuracy[0].deviation == doctest::Approx(std::sqrt((0.04 + 0.01 + 0.09) / 2)));
  CHECK(rows[0].seconds == doctest::Approx(2.5));
  CHECK(rows[0].parameters == 321);
  CHECK(kept(rows[0]) == doctest::Approx(0.4 / 0.6));
  CHECK(rows[1].variant == "luong-dot");
  CHECK(rows[1].accuracy[0].deviation == 0);
  CHECK(kept(Row{}) == 0);
}

TEST_CASE("table: columns are aligned, with a deviation where there is more than one seed") {
  const std::vector<Row> rows =
      rows_of({record("luong-dot", 1), record("bahdanau", 1), record("bahdanau", 2, 0.2)}, "b");
  CHECK(table(rows) ==
        "words              5         10         20         30       "
        "  40         50         60 60 of 20  weights    CPU s\n"
        "bahdanau  60.0 ±14.1 55.0 ±14.1 50.0 ±14.1 45.0 ±14.1 40.0 ±"
        "14.1 35.0 ±14.1 30.0 ±14.1     60 %      321      2.5\n"
        "luong-dot       50.0       45.0       40.0       35.0       "
        "30.0       25.0       20.0     50 %      321      2.5\n");
}

TEST_CASE("plot: a block is as high as the accuracy") {
  Record one = record("bahdanau", 1);
  one.result.accuracy = {1, 0.99, 0.5, 0.25, 0.125, 0.05, 0};
  CHECK(plot(rows_of({one}, "b")) ==
        "            5  10  20  30  40  50  60\n"
        "bahdanau  ███ ███ ▄▄▄ ▂▂▂ ▁▁▁        \n");
}

TEST_CASE("report: a page that stands alone, and a chart for each kind of model with results") {
  const ScratchDirectory directory;
  write_report(directory.path(), {record("encoder-decoder", 1), record("luong-dot", 1)}, {});
  const std::string page = read_file(directory / "report.html");
  for (const char* part : {"Setting b: trained on lengths up to 60", "encoder-decoder", "luong-dot",
                           "<svg", "What to look for"}) {
    CHECK_MESSAGE(page.find(part) != page.npos, part);
  }
  CHECK(page.find(">100</text>") != page.npos);  // though no word in two is right
  CHECK(page.find("Setting a") == page.npos);
  CHECK(page.find("src=") == page.npos);
  CHECK(read_file(directory / "b-models.svg").starts_with("<svg"));
  CHECK(read_file(directory / "b-scores.svg").starts_with("<svg"));
  CHECK(directory.count() == 3);
}

TEST_CASE("report: its text is about what was run") {
  const ScratchDirectory directory;
  const auto page = [&](const std::vector<Record>& records) {
    write_report(directory.path(), records, {});
    return read_file(directory / "report.html");
  };
  const auto check = [](const std::string& html, const std::vector<std::string>& there,
                        const std::vector<std::string>& not_there) {
    for (const std::string& part : there) CHECK_MESSAGE(html.find(part) != html.npos, part);
    for (const std::string& part : not_there) CHECK_MESSAGE(html.find(part) == html.npos, part);
  };
  Record shorter = record("luong-dot", 2);
  shorter.setting = "a";
  const std::string deviation = "mean ± standard", mean = "Mean over",
                    without = "without attention (", with = "Whether models with attention",
                    longer = "fall on longer sentences";
  check(page({record("encoder-decoder", 1), record("bahdanau", 1)}),
        {without + "encoder-decoder)", with, "percent, of one seed"}, {deviation, mean, longer});
  check(page({record("luong-dot", 1), record("luong-dot", 2)}), {deviation, mean, with},
        {without, longer});
  check(page({shorter}), {with, longer}, {without});
  check(page({record("sutskever", 1)}), {without + "sutskever)"}, {with, longer});
}

TEST_CASE("in_processes: every item is worked on once, whatever the number of jobs") {
  for (const int jobs : {1, 3, 10}) {
    std::set<std::size_t> seen;
    in_processes(
        7, jobs, [](std::size_t i) { return std::string(20000 * i, 'x'); },
        [&](std::size_t i, const std::string& text) {
          CHECK(text.size() == 20000 * i);
          CHECK(seen.insert(i).second);
        });
    CHECK(seen.size() == 7);
  }
}

TEST_CASE("in_processes: an error there is an error here, and so is a process that is killed") {
  const auto nothing = [](std::size_t, const std::string&) {};
  const auto throws = [](std::size_t i) -> std::string {
    if (i == 1) fail("work", "no more");
    return {};
  };
  CHECK_THROWS_WITH_AS(in_processes(3, 2, throws, nothing), "work: no more", Error);
  const auto dies = [](std::size_t) -> std::string {
    raise(SIGKILL);
    return {};
  };
  CHECK_THROWS_WITH_AS(in_processes(1, 1, dies, nothing), "run: its process was ended by signal 9",
                       Error);
}

}  // namespace
}  // namespace attune::long_sentences
