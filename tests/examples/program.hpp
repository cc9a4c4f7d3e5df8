// What the tests of the dates program share: runs of it, their files, and a model that it trained.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/tensor/safetensors.hpp>

#include "support/process.hpp"
#include "support/scratch_directory.hpp"

namespace attune::dates::test {

using attune::test::ProcessOptions;
using attune::test::ProcessResult;
using Arguments = std::vector<std::string>;
using Json = nlohmann::json;

inline Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A new directory, removed with everything in it; paths as text, for command lines.
class Directory {
 public:
  std::string operator/(const std::string& name) const { return (scratch_ / name).string(); }
  std::string path() const { return scratch_.path().string(); }

 private:
  ScratchDirectory scratch_;
};

inline std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), path);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  REQUIRE_MESSAGE(file.good(), path);
}

/// Every file below a directory with its contents.
inline std::map<std::string, std::string> contents_of(const std::string& directory) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    contents[entry.path().string()] =
        entry.is_regular_file() ? read(entry.path().string()) : "a directory";
  }
  return contents;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

inline bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

/// Runs the program, on one thread unless the test says otherwise.
inline ProcessResult run(const Arguments& arguments, ProcessOptions options = {}) {
  options.environment.emplace("ATTUNE_THREADS", "1");
  ProcessResult result =
      attune::test::run_process(Arguments{ATTUNE_DATES} + arguments, std::move(options));
  REQUIRE_FALSE(result.timed_out);
  return result;
}

/// Runs the program, which must succeed, and returns its standard output.
inline std::string output_of(const Arguments& arguments, ProcessOptions options = {}) {
  const ProcessResult result = run(arguments, std::move(options));
  INFO(result.err);
  REQUIRE(result.status == 0);
  return result.out;
}

/// The one line on standard error of a program that failed as it should: status 1, "dates: ...".
inline std::string error_line(const ProcessResult& result) {
  CAPTURE(result.err);
  CHECK(result.status == 1);
  if (result.status != 1) return {};
  CHECK(std::ranges::count(result.err, '\n') == 1);
  CHECK(result.err.ends_with('\n'));
  CHECK(result.err.starts_with("dates: "));
  return result.err.substr(0, result.err.find('\n'));
}

inline std::string error_of(const Arguments& arguments, ProcessOptions options = {}) {
  return error_line(run(arguments, std::move(options)));
}

/// Sizes that train a step in a millisecond.
inline const Arguments tiny = {"--hidden", "16", "--embedding", "8",  "--attention", "8",
                               "--batch",  "16", "--held-out",  "50", "--readout",   "8"};

inline Arguments train(const std::string& out, const Arguments& more = {}) {
  return Arguments{"train", "--out", out} + more;
}
inline Arguments train_tiny(const std::string& out, const Arguments& more = {}) {
  return train(out, tiny + more);
}
inline const Arguments forty_steps = {"--steps", "40", "--validate-every", "20"};

/// Byte for byte the same tensors; metadata such as seconds may differ.
inline void check_same_tensors(const std::string& a, const std::string& b) {
  const Safetensors first = load_safetensors(a), second = load_safetensors(b);
  REQUIRE(first.tensors.size() > 10);
  REQUIRE(first.tensors.size() == second.tensors.size());
  for (const auto& [name, tensor] : first.tensors) {
    CAPTURE(name);
    const Tensor* other = second.find(name);
    REQUIRE(other != nullptr);
    REQUIRE(other->shape() == tensor.shape());
    const auto x = tensor.to_vector<float>(), y = other->to_vector<float>();
    CHECK(std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0);
  }
}

/// How many steps the checkpoint was trained for.
inline long step_of(const std::string& path) {
  return std::stol(load_safetensors(path).metadata.at("step"));
}

inline std::vector<Json> log_of(const std::string& directory) {
  std::vector<Json> lines;
  for (const std::string& line : lines_of(read(directory + "/log.jsonl")))
    lines.push_back(Json::parse(line));
  return lines;
}

/// `count` lines "27 June 2001 TAB 2001-06-27", each another date.
inline std::string example_rows(int count) {
  static constexpr const char* months[] = {"January",   "February", "March",    "April",
                                           "May",       "June",     "July",     "August",
                                           "September", "October",  "November", "December"};
  std::string rows;
  for (int i = 0; i < count; ++i) {
    const int day = 1 + i % 28, month = i % 12, year = 1970 + i;
    rows +=
        fmt::format("{} {} {}\t{}-{:02}-{:02}\n", day, months[month], year, year, month + 1, day);
  }
  return rows;
}

/// A small model that knows English dates well, trained when a test first asks for it.
class Trained {
 public:
  static const Trained& get() {
    static const Trained trained;
    return trained;
  }

  const std::string& model() const { return model_; }
  std::string directory() const { return directory_.path(); }

 private:
  Trained() : model_(directory_ / "best.safetensors") {
    output_of(train(
        directory_.path(),
        {"--hidden", "32", "--embedding", "16", "--attention", "16", "--readout", "16", "--batch",
         "32", "--rate", "0.01", "--held-out", "50", "--steps", "400", "--validate-every", "100"}));
  }

  Directory directory_;
  std::string model_;
};

inline Arguments predict(const Arguments& more) {
  return Arguments{"predict", "--model", Trained::get().model()} + more;
}

}  // namespace attune::dates::test
