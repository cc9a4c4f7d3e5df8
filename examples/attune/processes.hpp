// Processes: start and exit of a program, signals, MPI workers, and tasks in child processes.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <attune/nn/workers/workers.hpp>

namespace attune {

/// examples::run_program on each worker. With several workers, the error line names the one that
/// failed, and only the first worker prints anything else.
int run_workers(const char* name, const std::function<int()>& run);

/// Installs handlers that record SIGINT, SIGTERM, SIGHUP and SIGPIPE (the last two follow when a
/// terminal is closed); a run then finishes its step and saves. Signals that are ignored (nohup)
/// stay ignored. Ctrl-C more than a second after the first signal terminates the program at once.
void catch_signals();
bool interrupted();
/// Exit status after a signal, as in a shell: 128 + its number (SIGTERM if another worker got it).
int interrupted_status();

/// Thrown to abandon work after a signal. Not an error, so it does not derive from std::exception.
struct Interrupted {};
/// Throws Interrupted after a signal.
void stop_if_interrupted();

namespace detail {

/// What depends on the operating system. `on_signal` is called with SIGINT, SIGTERM or the like,
/// unless that is ignored; `on_alarm` a second after start_alarm.
void install_handlers(void (*on_signal)(int), void (*on_alarm)(int));
void start_alarm();

}  // namespace detail

/// The processes that mpirun started (the first call joins them), or this process alone. Only the
/// first worker prints and writes files.
nn::Workers& workers();
inline bool is_first_worker() { return workers().rank() == 0; }

using Texts = std::vector<std::string>;
using Numbers = std::vector<double>;
/// All-gather of the numbers (bit for bit), or strings (without NUL), that `make` returns in each
/// worker, in the order of ranks. If it throws Interrupted or Cancelled in one worker, all throw
/// Interrupted. Waits at most `patience` seconds.
Numbers all_gather(const std::function<Numbers()>& make);
Texts all_gather(const std::function<Texts()>& make,
                 double patience = nn::WorkersOptions().patience);

/// Throws an Error "OPERATION: ..." with the first string that differs from the first worker's.
void require_equal(const std::string& operation, const Texts& own);

/// While it exists, operations on Vars throw Cancelled once a second has passed since a signal.
class Cancellable {
 public:
  Cancellable();
  Cancellable(const Cancellable&) = delete;
  Cancellable& operator=(const Cancellable&) = delete;
  ~Cancellable();
};

/// Calls work(i) for i in [0, n) in forked processes, at most `jobs` at a time, and done(i) in this
/// process when each ends. If work(i) throws (which prints the error) or returns a status other
/// than 0, kills the others and returns that status; otherwise returns 0. Throws if a child is
/// killed. After a signal, sends SIGTERM to the children and throws Interrupted once they have
/// ended. Precondition: this process has no other threads. On Windows, throws an Error.
int in_processes(std::size_t n, int jobs, const std::function<int(std::size_t)>& work,
                 const std::function<void(std::size_t)>& done);

}  // namespace attune
