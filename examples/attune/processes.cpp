#include "processes.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <attune/autograd/anomaly.hpp>

#include "output.hpp"

namespace attune {
namespace {

volatile std::sig_atomic_t signalled = 0;  // the first signal
std::timespec first_time;                  // time of the first signal

enum { not_cancellable, cancellable, cancelled };
std::atomic<int> computation{not_cancellable};

void on_alarm(int) {
  int expected = cancellable;
  if (computation.compare_exchange_strong(expected, cancelled)) cancel(true);
}

void on_signal(int signal) {
  alarm(1);
  std::timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (signalled == 0) {
    signalled = signal;
    first_time = now;
  } else if (signal == SIGINT && now.tv_sec > first_time.tv_sec + 1) {
    // Not sooner: `timeout` sends its signal to the process and then again to its group.
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
}

std::unique_ptr<nn::Workers> joined;

/// Opens /dev/null for closed standard streams, so that no other file gets their descriptors. The
/// access mode keeps reading standard input, or writing the others, an error.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // open() returns the lowest free descriptor.
    if (open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) != stream) _exit(1);
  }
}

[[noreturn]] void work_and_exit(std::size_t item, pid_t parent,
                                const std::function<int(std::size_t)>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // the child ends with its parent
  if (getppid() != parent) _exit(2);
  // The child must not hold the parent's files and lock.
  close_range(STDERR_FILENO + 1, ~0u, 0);
  int status = 1;
  try {
    status = work(item);
  } catch (const std::exception& error) {
    complain("attune: {}\n", error.what());
  } catch (const Interrupted&) {
    status = interrupted_status();
  }
  _exit(status);
}

}  // namespace

int run_program(const char* name, const std::function<int()>& run) {
  open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);             // exceeding the file size limit is then a write error
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // each line appears at once in a redirected log
  try {
    set_silent(!is_first_worker());
    const int status = run();
    if (status == 0) flush_output();
    joined.reset();
    return status;
  } catch (const Interrupted&) {
    return interrupted_status();
  } catch (const std::exception& error) {
    // An error of all workers is printed once: the first worker terminates the others in the sleep.
    if (is_silent()) {
      std::signal(SIGTERM, SIG_DFL);  // mpirun terminates them with SIGTERM
      std::this_thread::sleep_for(std::chrono::seconds(10));
    }
    set_silent(false);
    const bool several = joined && joined->count() > 1;
    complain("{}: {}{}\n", name, several ? joined->name() + ": " : "",
             printable(message_of(error)));
    if (joined) joined->abort();
    return 1;
  }
}

void catch_signals() {
  struct sigaction later {};
  later.sa_handler = on_alarm;
  later.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &later, nullptr);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    if (action.sa_handler == SIG_IGN) continue;
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, nullptr);
  }
}

Cancellable::Cancellable() {
  computation = cancellable;
  if (interrupted()) alarm(1);
}

Cancellable::~Cancellable() {
  if (computation.exchange(not_cancellable) == cancelled) cancel(false);
}

bool interrupted() { return signalled != 0; }

int interrupted_status() { return 128 + (interrupted() ? signalled : SIGTERM); }

void stop_if_interrupted() {
  if (interrupted()) throw Interrupted();
}

nn::Workers& workers() {
  if (joined) return *joined;
  joined = std::make_unique<nn::Workers>();
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})  // of Open MPI, and of MPICH
    if (const char* size = std::getenv(name); joined->count() == 1 && size && std::atoi(size) > 1)
      complain(
          "warning: {} processes were started, but attune was built without MPI: each runs "
          "independently\n",
          size);
  return *joined;
}

Texts all_gather(const std::function<Texts()>& make, double patience) {
  std::string own;
  try {
    for (const std::string& text : make()) own += text + '\0';
  } catch (const Interrupted&) {
    own = "interrupted";
  } catch (const Cancelled&) {
    own = "interrupted";
  }
  Texts all;
  for (const std::string& one : workers().gather(own, patience)) {
    if (one == "interrupted") throw Interrupted();
    std::istringstream texts(one);
    for (std::string text; std::getline(texts, text, '\0');) all.push_back(text);
  }
  return all;
}

void require_equal(const std::string& operation, const Texts& own) {
  if (workers().count() == 1) return;
  const Texts first = all_gather([&] { return is_first_worker() ? own : Texts(); });
  const Texts differences = all_gather([&] {
    const auto [found, expected] = std::ranges::mismatch(own, first);
    if (found == own.end() && expected == first.end()) return Texts();
    const auto text = [](const Texts& all, auto at) { return at == all.end() ? "nothing" : *at; };
    return Texts{fmt::format("{} has {}, but {} has {}", workers().name(), text(own, found),
                             workers().name(0), text(first, expected))};
  });
  if (!differences.empty()) fail(operation, differences.front());
}

int in_processes(std::size_t n, int jobs, const std::function<int(std::size_t)>& work,
                 const std::function<void(std::size_t)>& done) {
  catch_signals();
  std::map<pid_t, std::size_t> running;  // process -> item
  const auto end_all = [&] {
    for (const auto& [pid, item] : running) kill(pid, SIGTERM);  // lets them save a checkpoint
    for (const auto& [pid, item] : running) waitpid(pid, nullptr, 0);
  };
  try {
    for (std::size_t next = 0; next < n || !running.empty();) {
      stop_if_interrupted();
      if (next < n && running.size() < static_cast<std::size_t>(jobs)) {
        std::fflush(stdout);  // otherwise the child would print the buffer again
        const pid_t parent = getpid(), pid = fork();
        if (pid < 0) fail("fork", std::strerror(errno));
        if (pid == 0) work_and_exit(next, parent, work);
        running.emplace(pid, next++);
        continue;
      }
      int status = 0;
      const pid_t ended = waitpid(-1, &status, WNOHANG);
      if (ended <= 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        continue;
      }
      const auto child = running.extract(ended);
      if (child.empty()) continue;  // inherited from the program that was this process before exec
      if (WIFSIGNALED(status))
        fail("run", fmt::format("a child process was killed by signal {}", WTERMSIG(status)));
      if (status != 0) {
        end_all();
        return WEXITSTATUS(status);
      }
      done(child.mapped());
    }
  } catch (...) {
    end_all();
    throw;
  }
  return 0;
}

}  // namespace attune
