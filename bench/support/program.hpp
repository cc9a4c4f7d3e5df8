// Command line and test data of the programs that print a JSON line for each result.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <stdexcept>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace attune::bench {

/// Parses the command line, runs the body, returns its status. Prints exceptions and returns 1.
inline int run_program(CLI::App& app, int argc, char** argv, const std::function<int()>& body) {
  try {
    app.parse(argc, argv);
    const int status = body();
    if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return status;
    throw std::runtime_error("standard output: cannot be written");
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), error.what());
    return 1;
  }
}

/// Adds --threads, --steps and --warmup. threads = 0: ATTUNE_THREADS, or all CPUs.
inline void add_common_options(CLI::App& app, int& threads, int& steps, int& warmup) {
  app.option_defaults()->always_capture_default();
  app.add_option("--threads", threads, "threads (default: ATTUNE_THREADS, or all CPUs)")
      ->check(CLI::Range(1, 1024))
      ->default_str("");
  app.add_option("--steps", steps, "timed repetitions; the median is reported")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--warmup", warmup, "untimed repetitions before")->check(CLI::Range(0, 1000000));
}

/// Pseudo-random elements in [-scale, scale). The peers in other languages compute the same ones.
inline void fill_mixed(float* x, std::uint32_t n, std::uint32_t seed, float scale) {
  for (std::uint32_t i = 0; i < n; ++i) {
    std::uint32_t h = (i + seed * 1000003u) * 0x9e3779b1u;
    h = (h ^ h >> 15) * 0x85ebca77u;
    h ^= h >> 13;
    x[i] = (static_cast<float>(h >> 8) / 8388608.0f - 1.0f) * scale;  // 24 bits: exact
  }
}

}  // namespace attune::bench
