#include "support/processes.hpp"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <sstream>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <attune/tensor/check.hpp>

#include "support/output.hpp"

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

std::unique_ptr<nn::Workers> joined;

/// Opens standard input, output and error where they are closed, so that no file of the program
/// gets their numbers. To read or to write them fails as before.
void open_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) >= 0) continue;
    // The lowest number that is free is the one it gets.
    if (open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) != stream) _exit(1);
  }
}

struct Child {
  std::size_t item;
  pid_t pid;
  int pipe;          // what it writes, until it ends
  std::string text;  // what came of it
};

[[noreturn]] void work_and_exit(std::size_t item, int pipe, pid_t parent,
                                const std::function<std::string(std::size_t)>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // ends with its parent
  if (getppid() != parent) _exit(2);
  // Files of the parent, and a lock on one, are not the child's.
  close_range(STDERR_FILENO + 1, static_cast<unsigned>(pipe) - 1, 0);
  close_range(static_cast<unsigned>(pipe) + 1, ~0u, 0);
  std::string text;
  int status = 1;
  try {
    text = work(item);
    status = 0;
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {  // a signal
    text = "interrupted";
  }
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = write(pipe, text.data() + at, text.size() - at);
    if (n < 0) _exit(2);
    at += static_cast<std::size_t>(n);
  }
  _exit(status);
}

Child start(std::size_t item, const std::function<std::string(std::size_t)>& work) {
  int ends[2];
  if (pipe(ends) != 0) fail("pipe", std::strerror(errno));
  std::fflush(stdout);  // or the child would have it too
  const pid_t parent = getpid(), pid = fork();
  if (pid < 0) fail("fork", std::strerror(errno));
  if (pid == 0) {
    close(ends[0]);
    work_and_exit(item, ends[1], parent, work);
  }
  close(ends[1]);
  return {item, pid, ends[0], {}};
}

/// The children that run; those that still do at the end of a scope are killed.
class Children {
 public:
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  ~Children() { end(SIGKILL); }

  std::size_t count() const { return running_.size(); }
  void add(Child child) { running_.push_back(std::move(child)); }

  /// Waits for one to end. Throws when it failed, and Interrupted where there was a signal, once
  /// all have ended: they may have something to save.
  Child next() {
    while (true) {
      std::vector<pollfd> pipes;
      for (const Child& child : running_) pipes.push_back({child.pipe, POLLIN, 0});
      // Now and then, for a signal may come just before.
      if (poll(pipes.data(), pipes.size(), 1000) < 0 && errno != EINTR)
        fail("poll", std::strerror(errno));
      if (interrupted()) {
        end(SIGTERM);
        throw Interrupted();
      }
      for (std::size_t i = 0; i < pipes.size(); ++i) {
        if (pipes[i].revents == 0) continue;
        char block[4096];
        const ssize_t n = read(pipes[i].fd, block, sizeof block);
        if (n > 0) running_[i].text.append(block, static_cast<std::size_t>(n));
        if (n > 0 || (n < 0 && errno == EINTR)) continue;
        const auto [child, status] = reap(i);
        if (WIFSIGNALED(status))
          fail("run", fmt::format("its process was ended by signal {}", WTERMSIG(status)));
        if (WEXITSTATUS(status) != 0) throw Error(child.text);
        return child;
      }
    }
  }

 private:
  /// Sends a signal to all, and waits until they have ended.
  void end(int signal) {
    for (const Child& child : running_) kill(child.pid, signal);
    while (!running_.empty()) reap(running_.size() - 1);
  }

  std::pair<Child, int> reap(std::size_t i) {
    Child child = std::move(running_[i]);
    running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
    close(child.pipe);
    int status = 0;
    while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR) continue;
    return {std::move(child), status};
  }

  std::vector<Child> running_;
};

}  // namespace

int run_program(const char* name, const std::function<int()>& run) {
  open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is then an error of writing it
  try {
    set_silent(!is_first_worker());
    const int status = run();
    if (status == 0) flush_output();
    joined.reset();
    return status;
  } catch (const Interrupted&) {
    return interrupted_status();
  } catch (const std::exception& error) {
    // An error of all workers is printed once: the first worker ends the others while they wait.
    if (is_silent()) std::this_thread::sleep_for(std::chrono::seconds(5));
    set_silent(false);
    const bool several = joined && joined->count() > 1;
    complain("{}: {}{}\n", name, several ? joined->name() + ": " : "",
             printable(message_of(error)));
    if (joined) joined->abort();
    return 1;
  }
}

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

nn::Workers& workers() {
  if (!joined) joined = std::make_unique<nn::Workers>();
  return *joined;
}

Texts each_makes(const std::function<Texts()>& make, double patience) {
  std::string said = "made";
  try {
    for (const std::string& text : make()) said += '\0' + text;
    said += '\0';
  } catch (const Interrupted&) {
    said = "interrupted";
  }
  Texts all;
  for (const std::string& one : workers().gather(said, patience)) {
    std::istringstream texts(one);
    std::string text;
    std::getline(texts, text, '\0');
    if (text == "interrupted") throw Interrupted();
    while (std::getline(texts, text, '\0')) all.push_back(text);
  }
  return all;
}

void in_processes(std::size_t n, int jobs, const std::function<std::string(std::size_t)>& work,
                  const std::function<void(std::size_t, const std::string&)>& done) {
  catch_signals();
  Children children;
  for (std::size_t next = 0; next < n || children.count() > 0;) {
    if (next < n && children.count() < static_cast<std::size_t>(jobs)) {
      children.add(start(next++, work));
      continue;
    }
    const Child child = children.next();
    done(child.item, child.text);
  }
}

}  // namespace attune
