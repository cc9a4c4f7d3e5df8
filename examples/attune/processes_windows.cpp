#include <chrono>
#include <csignal>
#include <thread>

#define NOMINMAX
#include <windows.h>

#include "output.hpp"
#include "processes.hpp"

namespace attune {
namespace {

void (*signal_handler)(int) = nullptr;
void (*alarm_handler)(int) = nullptr;

/// Runs in a thread of its own.
BOOL WINAPI on_event(DWORD event) {
  signal_handler(event == CTRL_C_EVENT || event == CTRL_BREAK_EVENT ? SIGINT : SIGTERM);
  // Closing the console ends the process when this returns, or after 5 seconds.
  if (event == CTRL_CLOSE_EVENT) std::this_thread::sleep_for(std::chrono::seconds(5));
  return TRUE;
}

}  // namespace

void detail::install_handlers(void (*on_signal)(int), void (*on_alarm)(int)) {
  signal_handler = on_signal, alarm_handler = on_alarm;
  SetConsoleCtrlHandler(on_event, TRUE);
}

void detail::start_alarm() {
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    alarm_handler(0);
  }).detach();
}

int in_processes(std::size_t, int, const std::function<int(std::size_t)>&,
                 const std::function<void(std::size_t)>&) {
  fail("--seeds", "not available on Windows: run one training for each --seed, with its own --out");
}

}  // namespace attune
