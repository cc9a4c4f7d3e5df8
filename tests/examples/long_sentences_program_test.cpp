// `long_sentences`, run as a user runs it.
#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/tensor/file.hpp>

#include "support/process.hpp"
#include "support/scratch_directory.hpp"

namespace attune::long_sentences {
namespace {

using Arguments = std::vector<std::string>;

test::ProcessResult run(Arguments arguments, const test::ProcessOptions& options = {}) {
  arguments.insert(arguments.begin(), ATTUNE_LONG_SENTENCES);
  return test::run_process(arguments, options);
}

/// Two variants in both settings.
Arguments tiny(const std::filesystem::path& out, const Arguments& more = {}) {
  Arguments all = {"--out",    out.string(), "--steps",    "5",
                   "--hidden", "8",          "--variants", "luong-dot,encoder-decoder"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::string output_of(const Arguments& arguments) {
  const test::ProcessResult result = run(arguments);
  INFO(result.err);
  REQUIRE(result.status == 0);
  return result.out;
}

/// The line on standard error of a program that fails as it should.
std::string error_of(const Arguments& arguments) {
  const test::ProcessResult result = run(arguments);
  CHECK(result.status == 1);
  CHECK(result.out.empty());
  CHECK(std::ranges::count(result.err, '\n') == 1);
  CHECK(result.err.starts_with("long_sentences: "));
  return result.err;
}

/// The results by run, without the seconds, which differ.
std::map<std::string, std::string> results_in(const std::filesystem::path& out) {
  std::map<std::string, std::string> results;
  std::istringstream lines(read_file(out / "results.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    auto json = nlohmann::json::parse(line);
    json.erase("seconds");
    const std::string name = fmt::format("{} {} {}", json["setting"].get<std::string>(),
                                         json["variant"].get<std::string>(), json["seed"].dump());
    CHECK_MESSAGE(results.emplace(name, json.dump()).second, name);
  }
  return results;
}

TEST_CASE("long_sentences: results, tables, a page and charts; the same whatever runs at once") {
  const ScratchDirectory directory;
  const std::string out = output_of(tiny(directory / "one", {"--seeds", "2", "--jobs", "1"}));
  output_of(
      tiny(directory / "three", {"--seeds", "1", "--seeds", "2", "--jobs", "3", "--threads", "2"}));
  const auto results = results_in(directory / "one");
  CHECK(results.size() == 8);
  CHECK(results.contains("a luong-dot 2"));
  CHECK(results == results_in(directory / "three"));
  CHECK(results.at("a luong-dot 1") != results.at("b luong-dot 1"));
  CHECK(out.find("100 %  run 8/8  ") != out.npos);
  CHECK(out.find("\nencoder-decoder  ") != out.npos);
  for (const char* file : {"report.html", "a-models.svg", "a-scores.svg", "b-models.svg"}) {
    CHECK_MESSAGE(std::filesystem::exists(directory / "one" / file), file);
  }
}

TEST_CASE("long_sentences: an interrupted experiment goes on where it was") {
  const ScratchDirectory directory;
  const std::filesystem::path whole = directory / "whole", out = directory / "out";
  output_of(tiny(whole));
  const auto begun = [&] {
    std::error_code none;
    return std::filesystem::file_size(out / "results.jsonl", none) > 0 && !none;
  };
  const auto killed = run(tiny(out, {"--jobs", "1"}), {.signal_when = begun, .signal = SIGKILL});
  REQUIRE(killed.signal == SIGKILL);
  const std::string before = read_file(out / "results.jsonl");
  std::ofstream(out / "results.jsonl", std::ios::app) << "{\"setting\": \"a\", \"var";
  const std::string text = output_of(tiny(out));
  CHECK(text.find(fmt::format("12 runs of 5 steps, {} at once; {} are in ",
                              std::max(1u, std::thread::hardware_concurrency()),
                              std::ranges::count(before, '\n'))) != text.npos);
  CHECK(read_file(out / "results.jsonl").starts_with(before));
  CHECK(results_in(out) == results_in(whole));
}

TEST_CASE("long_sentences: another experiment in the same directory is refused") {
  const ScratchDirectory directory;
  const std::filesystem::path out = directory / "out";
  int tried = 0;
  const auto try_another = [&] {
    if (tried > 0 || !std::filesystem::exists(out / "results.jsonl")) return false;
    const std::string line = error_of(tiny(out));
    CHECK_MESSAGE(line.starts_with(
                      fmt::format("long_sentences: --out: {} is in use by process ", out.string())),
                  line);
    ++tried;
    return false;
  };
  CHECK(run(tiny(out), {.signal_when = try_another}).status == 0);
  REQUIRE(tried == 1);
  CHECK(results_in(out).size() == 12);
}

TEST_CASE("long_sentences: what is there already is not made again") {
  const ScratchDirectory directory;
  output_of(tiny(directory.path(), {"--setting", "b"}));
  const std::string before = read_file(directory / "results.jsonl");
  output_of(tiny(directory.path(), {"--setting", "b"}));
  CHECK(read_file(directory / "results.jsonl") == before);
}

TEST_CASE(
    "long_sentences: --quick is one seed of four models in setting b, unless said otherwise") {
  const ScratchDirectory directory;
  const std::string out = directory.path().string();
  output_of({"--quick", "--out", out, "--steps", "2", "--hidden", "8"});
  CHECK(results_in(out).size() == 4);
  output_of({"--quick", "--out", out, "--steps", "2", "--hidden", "8", "--setting", "a",
             "--variants", "luong-dot"});
  CHECK(results_in(out).size() == 5);
  CHECK(results_in(out).contains("a luong-dot 1"));
}

TEST_CASE("long_sentences: an error is one line that names the option, and nothing is made") {
  const ScratchDirectory directory;
  const std::filesystem::path out = directory / "out";
  const std::vector<std::pair<Arguments, std::string>> cases = {
      {{"--steps", "0"}, "--steps: '0' is not a whole number from 1 to 1000000000"},
      {{"--seeds", "many"}, "--seeds: 'many' is not a whole number from 1 to 1000"},
      {{"--jobs", "0"}, "--jobs: '0' is not a whole number from 1 to 1024"},
      {{"--threads", "0"}, "--threads: '0' is not a whole number from 1 to 1024"},
      {{"--hidden", "12"}, "--hidden: 12 is not a multiple of 8"},
      {{"--setting", "c"}, "--setting: 'c' is not one of a, b, both"},
      {{"--variants", "luong-dot,foo"}, "--variants: 'foo' is not one of encoder-decoder, "},
      {{"--variants", "luong-dot,luong-dot"}, "--variants: luong-dot is given twice"},
      {{"--colour"}, "--colour"}};
  for (auto [arguments, message] : cases) {
    arguments.insert(arguments.end(), {"--out", out.string()});
    const std::string line = error_of(arguments);
    CAPTURE(line);
    CHECK(line.find(message) != line.npos);
  }
  CHECK(directory.count() == 0);
}

TEST_CASE("long_sentences: an --out that cannot be is named, and so are results of other steps") {
  const ScratchDirectory directory;
  write_file(directory / "file", "mine");
  CHECK(error_of(tiny(directory / "file")) ==
        fmt::format("long_sentences: {}: cannot be made: Not a directory\n",
                    (directory / "file").string()));
  const std::filesystem::path out = directory / "out";
  output_of(tiny(out, {"--setting", "a"}));
  CHECK(error_of({"--out", out.string(), "--steps", "6", "--hidden", "8"}) ==
        fmt::format("long_sentences: {}:1: a result of --steps 5, not 6: another --out is needed\n",
                    (out / "results.jsonl").string()));
}

}  // namespace
}  // namespace attune::long_sentences
