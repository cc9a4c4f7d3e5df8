// Runs a program with arguments, input and environment; returns its output and exit status.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace attune::test {

struct ProcessOptions {
  std::string input = {};                               // standard input
  std::map<std::string, std::string> environment = {};  // added to the test's own
  std::function<bool()> signal_when = {};               // polled every millisecond until true
  int signal = 9;                                       // sent once signal_when is true
  std::chrono::seconds limit{3000};                     // the program is killed after this time
};

struct ProcessResult {
  int status = -1;  // exit status, or -1 if a signal ended the program
  int signal = 0;   // the signal that ended it, or 0
  bool timed_out = false;
  std::string out, err;
};

/// Runs a program until it ends. Searches PATH unless its name contains a slash. On Windows, a
/// signal is Ctrl-Break (SIGINT) or terminates the program.
ProcessResult run_process(std::vector<std::string> arguments, const ProcessOptions& options = {});

/// The command that starts the running program.
std::vector<std::string> this_program();

/// Runs one hidden test case of this test program in a process of its own.
inline ProcessResult run_test_case(const std::string& name, const ProcessOptions& options = {}) {
  std::vector<std::string> arguments = this_program();
  arguments.insert(arguments.end(), {"--no-skip", "--test-case=" + name});
  const ProcessResult result = run_process(std::move(arguments), options);
  if (result.out.find("test cases: 0 |") != result.out.npos)
    throw std::runtime_error("there is no test case " + name);
  return result;
}

}  // namespace attune::test
