// What the programs of a JSON line for each result have in common.
#pragma once

#include <functional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace attune::bench {

/// Parses the command line and runs the body, whose status is the program's. An error is one line.
inline int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  try {
    app.parse(argc, argv);
    return body();
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), error.what());
    return 1;
  }
}

/// --steps and --warmup.
inline void add_repetitions(CLI::App& app, int& steps, int& warmup) {
  app.add_option("--steps", steps, "timed repetitions; the median is reported")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--warmup", warmup, "repetitions before")->check(CLI::Range(0, 1000000));
}

}  // namespace attune::bench
