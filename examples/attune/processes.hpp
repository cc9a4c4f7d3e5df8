// The processes of a program: how it begins and ends, signals, the workers that mpirun starts, and
// tasks in processes of their own.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <attune/nn/workers/workers.hpp>

namespace attune {

/// The status of `run`. What it throws becomes the line "NAME: what is wrong" on standard error and
/// status 1, as does a standard output that cannot be written. With several workers
/// the line names the one that failed, and only the first worker prints anything else.
int run_program(const char* name, const std::function<int()>& run);

/// From now on Ctrl-C and SIGTERM are noted, and SIGHUP and SIGPIPE, which follow when a terminal
/// is closed; but signals that the program was started to ignore (nohup) stay ignored. Ctrl-C more
/// than a second after the first signal ends the program at once. A run finishes its step and saves.
void catch_signals();
bool interrupted();
/// 128 + the number of the signal, as a shell has it.
int interrupted_status();

/// Ends what may be left unfinished. It is no error, and so no std::exception.
struct Interrupted {};
/// Throws Interrupted where there was a signal.
void stop_if_interrupted();

/// The processes that mpirun started, which are joined at the first call; or this one alone. Only
/// the first one prints, and writes files.
nn::Workers& workers();
inline bool is_first_worker() { return workers().rank() == 0; }

using Texts = std::vector<std::string>;
/// The texts that `make` returns in each of them, those of the first one first; none may have a
/// NUL. Where it throws Interrupted in one, all do. Others wait for it `patience` seconds at most.
Texts each_makes(const std::function<Texts()>& make,
                 double patience = nn::WorkersOptions().patience);

/// Throws an Error that begins with the operation and names the first of a worker's texts that
/// differs from the first worker's.
void require_equal(const std::string& operation, const Texts& own);

/// While it exists, operations on Vars throw Cancelled from a second after a signal on.
class Cancellable {
 public:
  Cancellable();
  Cancellable(const Cancellable&) = delete;
  Cancellable& operator=(const Cancellable&) = delete;
  ~Cancellable();
};

/// Calls work(i) for i in [0, n), each in a forked process and at most `jobs` at once, then done(i)
/// in this process, as the processes end. Returns 0, or the status of the first one whose work does
/// not return 0 or throws, which it prints: the others are killed then. Throws where one is killed.
/// After a signal to this process all get SIGTERM, and Interrupted is thrown when they have ended.
/// This process must have started no threads.
int in_processes(std::size_t n, int jobs, const std::function<int(std::size_t)>& work,
                 const std::function<void(std::size_t)>& done);

}  // namespace attune
