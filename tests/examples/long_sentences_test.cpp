// `long_sentences`: its task, and the program as a user runs it.
#include <csignal>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "long_sentences/task.hpp"
#include "program.hpp"
#include "support/processes.hpp"

namespace attune::long_sentences {
namespace {

using namespace test;
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
  CHECK(task.vocabularies().source == 13);
  CHECK(task.vocabularies().target == 22);
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

/// Two variants in both settings.
Arguments tiny(const std::string& out, const Arguments& more = {}) {
  return Arguments{"--out",    out, "--steps",    "5",
                   "--hidden", "8", "--variants", "luong-dot,encoder-decoder"} +
         more;
}

/// The results by run, without the seconds, which differ.
std::map<std::string, Json> results_in(const std::string& out) {
  std::map<std::string, Json> results;
  for (const std::string& line : lines_of(read(out + "/results.jsonl"))) {
    Json json = Json::parse(line);
    CHECK(json.erase("seconds") == 1);
    const std::string name = fmt::format("{} {} {}", json["setting"].get<std::string>(),
                                         json["variant"].get<std::string>(), json["seed"].dump());
    CHECK_MESSAGE(results.emplace(name, json).second, name);
  }
  return results;
}

/// A line of results.jsonl: 50 % of the words right, and `more`.
std::string result(const std::string& variant, int seed, double more = 0) {
  Json json{{"setting", "b"}, {"variant", variant}, {"seed", seed},     {"steps", 5},
            {"hidden", 8},    {"seconds", 2.5},     {"parameters", 321}};
  for (const int length : {5, 10, 20, 30, 40, 50, 60})
    json[fmt::format("accuracy_{}", length)] = 0.5 + more;
  return json.dump() + "\n";
}

TEST_CASE("long_sentences: results, tables and a page; the same whatever runs at once") {
  const Directory directory;
  const std::string one = directory / "one";
  const std::string out = output_of(tiny(one, {"--seeds", "2", "--jobs", "1"}));
  output_of(tiny(directory / "three", {"--seeds", "1", "--seeds", "2", "--jobs", "3"}));
  const auto results = results_in(one);
  CHECK(results.size() == 8);
  CHECK(results.contains("a luong-dot 2"));
  CHECK(results == results_in(directory / "three"));
  CHECK(results.at("a luong-dot 1") != results.at("b luong-dot 1"));
  CHECK(contains(out, "100 %  run 8/8  "));
  CHECK(contains(out, "\na: trained on lengths up to 20\nwords right, %"));
  CHECK(contains(out, "\nencoder-decoder  "));
  const std::string page = read(one + "/report.html");
  for (const char* part : {"Setting a: trained on lengths up to 20", "encoder-decoder", "luong-dot",
                           "Models, trained on lengths up to 20</", "Scores and windows, trained",
                           "<svg", "What the papers found", ">100</text>"}) {
    CHECK_MESSAGE(contains(page, part), part);
  }
  CHECK_FALSE(contains(page, "src="));
}

TEST_CASE("long_sentences: mean and standard deviation over the seeds of a setting") {
  const Directory directory;
  std::string other = result("bahdanau", 1, 0.5);
  other.replace(other.find("\"b\""), 3, "\"a\"");
  write(directory / "results.jsonl", other + result("bahdanau", 2, 0.1) + result("luong-dot", 1) +
                                         result("bahdanau", 1) + result("luong-dot", 2) +
                                         result("bahdanau", 3, 0.5) + result("luong-dot", 3));
  const std::string out = output_of({"--out", directory.path(), "--steps", "5", "--hidden", "8",
                                     "--setting", "b", "--variants", "luong-dot,bahdanau"});
  CHECK(contains(out, "6 runs of 5 steps"));
  CHECK(contains(out, "; 6 are in "));
  // 50, 60 and 100 %: √((20² + 10² + 30²) / 2)
  CHECK(contains(out, "\nbahdanau        70.0 ± 26.5  70.0 ± 26.5"));
  CHECK(out.find("bahdanau") < out.find("luong-dot"));
  const std::string page = read(directory / "report.html");
  CHECK(contains(page, "70.0 ± 26.5"));
  CHECK_FALSE(contains(page, "Setting a"));
}

TEST_CASE("long_sentences: every variant is a model; what is there is not made again") {
  const Directory directory;
  const Arguments all = {"--out", directory.path(), "--steps", "1",       "--hidden",
                         "8",     "--setting",      "a",       "--seeds", "1"};
  output_of(all);
  const std::string before = read(directory / "results.jsonl");
  CHECK(results_in(directory.path()).size() == 16);
  output_of(all);
  CHECK(read(directory / "results.jsonl") == before);
}

TEST_CASE("long_sentences: an interrupted experiment goes on where it was") {
  const Directory directory;
  const std::string whole = directory / "whole", out = directory / "out";
  output_of(tiny(whole));
  const auto begun = [&] {
    std::error_code none;
    return std::filesystem::file_size(out + "/results.jsonl", none) > 0 && !none;
  };
  const auto killed = run(tiny(out, {"--jobs", "1"}), {.signal_when = begun, .signal = SIGKILL});
  REQUIRE(killed.signal == SIGKILL);
  const std::string before = read(out + "/results.jsonl");
  std::ofstream(out + "/results.jsonl", std::ios::app) << "{\"setting\": \"a\", \"var";
  const std::string text = output_of(tiny(out));
  CHECK(contains(text, fmt::format("12 runs of 5 steps, {} at once; {} are in ",
                                   std::max(1u, std::thread::hardware_concurrency()),
                                   std::ranges::count(before, '\n'))));
  CHECK(read(out + "/results.jsonl").starts_with(before));
  CHECK(results_in(out) == results_in(whole));
}

TEST_CASE("long_sentences: another experiment in the same directory is refused") {
  const Directory directory;
  const std::string out = directory / "out";
  int tried = 0;
  const auto try_another = [&] {
    if (tried > 0 || !std::filesystem::exists(out + "/results.jsonl")) return false;
    const std::string line = sole_error_of(tiny(out));
    CHECK_MESSAGE(
        line.starts_with(fmt::format("long_sentences: --out: {} is in use by process ", out)),
        line);
    ++tried;
    return false;
  };
  CHECK(run(tiny(out), {.signal_when = try_another}).status == 0);
  REQUIRE(tried == 1);
  CHECK(results_in(out).size() == 12);
}

TEST_CASE(
    "long_sentences: --quick is one seed of four models in setting b, unless said otherwise") {
  const Directory directory;
  const Arguments quick = {"--quick", "--out", directory.path(), "--steps", "2", "--hidden", "8"};
  output_of(quick);
  CHECK(results_in(directory.path()).size() == 4);
  output_of(quick + Arguments{"--setting", "a", "--variants", "luong-dot"});
  CHECK(results_in(directory.path()).size() == 5);
  CHECK(results_in(directory.path()).contains("a luong-dot 1"));
}

TEST_CASE("long_sentences: an error is one line that names the option, and nothing is made") {
  const Directory directory;
  const Arguments out = {"--out", directory / "out"};
  check_errors({
      {out + Arguments{"--steps", "0"}, "--steps: '0' is not a whole number from 1 to 1000000000"},
      {out + Arguments{"--seeds", "many"}, "--seeds: 'many' is not a whole number from 1 to 1000"},
      {out + Arguments{"--jobs", "0"}, "--jobs: '0' is not a whole number from 1 to 1024"},
      {out + Arguments{"--hidden", "12"}, "--hidden: 12 is not a multiple of 8"},
      {out + Arguments{"--setting", "c"}, "--setting: 'c' is not one of a, b, both"},
      {out + Arguments{"--variants", "bahdanau,foo"}, "'foo' is not one of encoder-decoder, "},
      {out + Arguments{"--variants", "luong-dot,luong-dot"}, "luong-dot is given twice"},
      {out + Arguments{"--colour"}, "--colour"},
  });
  CHECK(contents_of(directory.path()).empty());
}

TEST_CASE("long_sentences: an --out that cannot be is named, and so is a line of another result") {
  const Directory directory;
  write(directory / "file", "mine");
  CHECK(sole_error_of(tiny(directory / "file")) ==
        fmt::format("long_sentences: {}: cannot be made: Not a directory", directory / "file"));
  const std::string file = directory / "results.jsonl";
  for (const auto& [steps, hidden, text, message] :
       {std::tuple{"6", "8", "", "1: a result of --steps 5, not 6: use another --out"},
        {"5", "16", "", "1: a result of --hidden 8, not 16: use another --out"},
        {"5", "8", "{\"steps\": 5}\n", "2: not a result of long_sentences"}}) {
    write(file, result("luong-dot", 1) + text);
    CHECK(sole_error_of({"--out", directory.path(), "--steps", steps, "--hidden", hidden}) ==
          fmt::format("long_sentences: {}:{}", file, message));
  }
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
