// Runs the program under test (PROGRAM).
#pragma once

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

/// The error line of a command that fails and prints nothing else.
inline std::string sole_error_of(const Arguments& arguments) {
  const ProcessResult result = run(arguments);
  CHECK(result.out.empty());
  return error_line(std::filesystem::path(PROGRAM).filename().string(), result);
}

/// Checks that each command fails with a line that contains the text.
inline void check_errors(const std::vector<std::pair<Arguments, std::string>>& commands) {
  for (const auto& [arguments, text] : commands) {
    const std::string line = sole_error_of(arguments);
    CHECK_MESSAGE(contains(line, text), line);
  }
}

}  // namespace attune::test
