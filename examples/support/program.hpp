// How programs end.
#pragma once

#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>

#include <fmt/format.h>

#include "support/output.hpp"

namespace attune {

/// The status of `run`. What it throws becomes the line "NAME: what is wrong" on standard error and
/// status 1, as does a standard output that cannot be written.
template <class F>
int run_program(const char* name, F run) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is then an error of writing it
  try {
    const int status = run();
    flush_output();
    return status;
  } catch (const std::filesystem::filesystem_error& error) {
    fmt::print(stderr, "{}: {}: {}\n", name, error.path1().string(), error.code().message());
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 1;
  }
}

}  // namespace attune
