// How programs begin and end.
#pragma once

#include <csignal>
#include <exception>

#include <attune/tensor/printable.hpp>

#include "support/output.hpp"
#include "support/signals.hpp"

namespace attune {

/// The status of `run`. What it throws becomes the line "NAME: what is wrong" on standard error and
/// status 1, as does a standard output that cannot be written.
template <class F>
int run_program(const char* name, F run) {
  open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is then an error of writing it
  try {
    const int status = run();
    if (status == 0) flush_output();
    return status;
  } catch (const Interrupted&) {
    return interrupted_status();
  } catch (const std::exception& error) {
    complain("{}: {}\n", name, printable(message_of(error)));
    return 1;
  }
}

}  // namespace attune
