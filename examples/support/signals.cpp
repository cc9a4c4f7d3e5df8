#include "support/signals.hpp"

#include <csignal>
#include <ctime>
#include <initializer_list>

#include <signal.h>

namespace attune {
namespace {

volatile std::sig_atomic_t signalled = 0;  // the first signal
std::timespec first_time;                  // of it

void note(int signal) {
  std::timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (signalled == 0) {
    signalled = signal;
    first_time = now;
  } else if (signal == SIGINT && now.tv_sec > first_time.tv_sec + 1) {
    // Not sooner: timeout sends its signal to a program and then to the program's group.
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
}

}  // namespace

void catch_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action.sa_handler = note;
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, nullptr);
  }
}

bool interrupted() { return signalled != 0; }

int interrupted_status() { return 128 + signalled; }

void stop_if_interrupted() {
  if (interrupted()) throw Interrupted();
}

}  // namespace attune
