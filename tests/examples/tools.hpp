// Shared by the tests of programs: processes and files.
#pragma once

#include <algorithm>
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
#include <nlohmann/json.hpp>

#include <attune/tensor/errors.hpp>
#include <attune/tensor/safetensors.hpp>

#include "support/capture.hpp"
#include "support/process.hpp"
#include "support/scratch_directory.hpp"

namespace attune::test {

using Arguments = std::vector<std::string>;
using Json = nlohmann::json;

inline Arguments operator+(Arguments a, const Arguments& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A temporary directory, removed at the end. Paths are strings, for command lines.
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

/// All files below a directory, with their contents.
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

/// True if the text has no control characters except line breaks.
inline bool is_plain(std::string_view text) { return printable(text, "\n") == text; }

/// Runs a program, on one thread by default.
inline ProcessResult run_program(const std::string& program, const Arguments& arguments,
                                 ProcessOptions options = {}) {
  options.environment.emplace("ATTUNE_THREADS", "1");
  ProcessResult result = run_process(Arguments{program} + arguments, std::move(options));
  REQUIRE_FALSE(result.timed_out);
  return result;
}

/// Checks that the --help of each command ends with an example.
inline void check_examples(const std::string& program, const Arguments& commands) {
  const std::string name = std::filesystem::path(program).filename().string();
  for (const std::string& command : commands) {
    const std::string help = run_program(program, {command, "--help"}).out;
    CAPTURE(help);
    CHECK(help.rfind("\nExample: " + name + " " + command + " ") ==
          help.rfind('\n', help.size() - 2));
  }
}

/// Checks for status 1 and a single error line "NAME: ...", and returns the line.
inline std::string error_line(const std::string& name, const ProcessResult& result) {
  CAPTURE(result.err);
  CHECK(result.status == 1);
  if (result.status != 1) return {};
  CHECK(std::ranges::count(result.err, '\n') == 1);
  CHECK(result.err.ends_with('\n'));
  CHECK(result.err.starts_with(name + ": "));
  CHECK(is_plain(result.err));
  return result.err.substr(0, result.err.find('\n'));
}

/// Checks that tensors are equal byte for byte; metadata such as seconds may differ.
inline void check_same_tensors(const std::string& a, const std::string& b) {
  const Safetensors first = load_safetensors(a), second = load_safetensors(b);
  REQUIRE(first.tensors.size() > 10);
  REQUIRE(first.tensors.size() == second.tensors.size());
  for (const auto& [name, tensor] : first.tensors) {
    CAPTURE_BINDING(name);
    const Tensor* other = second.find(name);
    REQUIRE(other != nullptr);
    REQUIRE(other->shape() == tensor.shape());
    const auto x = tensor.to_vector<float>(), y = other->to_vector<float>();
    CHECK(std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0);
  }
}

/// The number of steps of the checkpoint.
inline long step_of(const std::string& path) {
  return std::stol(load_safetensors(path).metadata.at("step"));
}

inline std::vector<Json> log_of(const std::string& directory) {
  std::vector<Json> lines;
  for (const std::string& line : lines_of(read(directory + "/log.jsonl")))
    lines.push_back(Json::parse(line));
  return lines;
}

/// The same without machine-dependent fields.
inline std::vector<Json> learnt_in(const std::string& directory) {
  std::vector<Json> lines = log_of(directory);
  for (Json& line : lines) {
    for (const char* name : {"training", "seconds", "rss_mib", "peak_mib", "tokens_per_s"}) {
      line.erase(name);
    }
  }
  return lines;
}

}  // namespace attune::test
