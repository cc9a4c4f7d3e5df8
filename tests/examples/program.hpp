// The program of this test, run as a user runs it.
#pragma once

#include <csignal>

#include "tools.hpp"

namespace attune::test {

inline ProcessResult run(const Arguments& arguments, ProcessOptions options = {}) {
  return run_program(PROGRAM, arguments, std::move(options));
}

inline std::string output_of(const Arguments& arguments, ProcessOptions options = {}) {
  const ProcessResult result = run(arguments, std::move(options));
  INFO(result.err);
  REQUIRE(result.status == 0);
  return result.out;
}

/// The one line on standard error of a command that fails, and prints nothing else.
inline std::string sole_error_of(const Arguments& arguments) {
  const ProcessResult result = run(arguments);
  CHECK(result.out.empty());
  return error_line(std::filesystem::path(PROGRAM).filename().string(), result);
}

/// Each command fails with a line that has this text in it.
inline void check_errors(const std::vector<std::pair<Arguments, std::string>>& commands) {
  for (const auto& [arguments, text] : commands) {
    const std::string line = sole_error_of(arguments);
    CHECK_MESSAGE(contains(line, text), line);
  }
}

/// A training that is interrupted at its first checkpoint and resumed has the bits of one that is
/// left alone. `train` has all arguments but --out.
inline void check_resumes_to_the_same_bits(const Arguments& train, const std::string& once,
                                           const std::string& twice) {
  const std::string last = twice + "/last.safetensors";
  output_of(train + Arguments{"--out", once});
  const ProcessResult ended =
      run(train + Arguments{"--out", twice},
          {.signal_when = [&] { return std::filesystem::exists(last); }, .signal = SIGTERM});
  CHECK(ended.status == 128 + SIGTERM);
  CHECK(contains(output_of(train + Arguments{"--out", twice, "--resume"}), "resuming at step "));
  check_same_tensors(once + "/last.safetensors", last);
}

/// A comparison that is asked for again prints the same table, which begins with `title`, and
/// trains nothing: the file of a run stays as it is.
inline std::string check_compares_once(const Arguments& arguments, const std::string& title,
                                       const std::string& file) {
  const std::string table = output_of(arguments);
  const auto written = std::filesystem::last_write_time(file);
  const std::string again = output_of(arguments);
  CHECK(again.substr(again.find(title)) == table.substr(table.find(title)));
  CHECK(std::filesystem::last_write_time(file) == written);
  return table;
}

}  // namespace attune::test
