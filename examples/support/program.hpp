// How programs begin and end.
#pragma once

#include <chrono>
#include <csignal>
#include <exception>
#include <thread>

#include <attune/tensor/check.hpp>

#include "support/output.hpp"
#include "support/signals.hpp"
#include "support/workers.hpp"

namespace attune {

/// The status of `run`. What it throws becomes the line "NAME: what is wrong" on standard error and
/// status 1, as does a standard output that cannot be written. With several workers
/// the line names the one that failed, and only the first worker prints anything else.
template <class F>
int run_program(const char* name, F run) {
  open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is then an error of writing it
  try {
    set_silent(!is_first_worker());
    const int status = run();
    if (status == 0) flush_output();
    leave_workers();
    return status;
  } catch (const Interrupted&) {
    return interrupted_status();
  } catch (const std::exception& error) {
    // An error of all workers is printed once: the first worker ends the others while they wait.
    if (is_silent()) std::this_thread::sleep_for(std::chrono::seconds(5));
    set_silent(false);
    complain("{}: {}{}\n", name, worker_prefix(), printable(message_of(error)));
    abort_workers();
    return 1;
  }
}

}  // namespace attune
