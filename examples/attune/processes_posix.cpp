#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif

#include "output.hpp"
#include "processes.hpp"

namespace attune {

void detail::install_handlers(void (*on_signal)(int), void (*on_alarm)(int)) {
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

void detail::start_alarm() { alarm(1); }

namespace {

/// Ends this child process together with its parent, and closes the parent's files and lock.
void detach_from_parent(pid_t parent) {
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0);
#else  // macOS cannot end a process with its parent
  for (int file = getdtablesize(); --file > STDERR_FILENO;) close(file);
#endif
  if (getppid() != parent) _exit(2);
}

[[noreturn]] void work_and_exit(std::size_t item, pid_t parent,
                                const std::function<int(std::size_t)>& work) {
  detach_from_parent(parent);
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
        fail("run", "a child process was killed by signal {}", WTERMSIG(status));
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
