#include "support/processes.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <attune/tensor/check.hpp>

#include "support/signals.hpp"

namespace attune {
namespace {

struct Child {
  std::size_t item;
  pid_t pid;
  int pipe;          // what it writes, until it ends
  std::string text;  // what came of it
};

void write_all(int pipe, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t n = write(pipe, text.data() + at, text.size() - at);
    if (n < 0) _exit(2);
    at += static_cast<std::size_t>(n);
  }
}

[[noreturn]] void work_and_exit(std::size_t item, int pipe, pid_t parent,
                                const std::function<std::string(std::size_t)>& work) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // ends with its parent
  if (getppid() != parent) _exit(2);
  // Files of the parent, and a lock on one, are not the child's.
  close_range(STDERR_FILENO + 1, static_cast<unsigned>(pipe) - 1, 0);
  close_range(static_cast<unsigned>(pipe) + 1, ~0u, 0);
  try {
    write_all(pipe, work(item));
  } catch (const std::exception& error) {
    write_all(pipe, error.what());
    _exit(1);
  } catch (...) {  // a signal
    write_all(pipe, "interrupted");
    _exit(1);
  }
  _exit(0);
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

/// Reads what a child has written; true at the end of its output.
bool read_some(Child& child) {
  char block[4096];
  const ssize_t n = read(child.pipe, block, sizeof block);
  if (n > 0) child.text.append(block, static_cast<std::size_t>(n));
  return n == 0 || (n < 0 && errno != EINTR);
}

/// The children that run; those that still do at the end of a scope are killed.
class Children {
 public:
  Children() = default;
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  ~Children() {
    for (const Child& child : running_) kill(child.pid, SIGKILL);
    while (!running_.empty()) reap(running_.size() - 1);
  }

  std::size_t count() const { return running_.size(); }
  void add(Child child) { running_.push_back(std::move(child)); }

  /// Tells all to end, and waits until they have: they may have something to save.
  void end() {
    for (const Child& child : running_) kill(child.pid, SIGTERM);
    while (!running_.empty()) reap(running_.size() - 1);
  }

  /// Waits for one to end. Throws when it failed, and Interrupted where there was a signal, once
  /// all have ended.
  Child next() {
    while (true) {
      std::vector<pollfd> pipes;
      for (const Child& child : running_) pipes.push_back({child.pipe, POLLIN, 0});
      // Now and then, for a signal may come just before.
      if (poll(pipes.data(), pipes.size(), 1000) < 0 && errno != EINTR) {
        fail("poll", std::strerror(errno));
      }
      if (interrupted()) {
        end();
        throw Interrupted();
      }
      for (std::size_t i = 0; i < pipes.size(); ++i) {
        if (pipes[i].revents == 0 || !read_some(running_[i])) continue;
        const auto [child, status] = reap(i);
        if (WIFSIGNALED(status)) {
          fail("run", fmt::format("its process was ended by signal {}", WTERMSIG(status)));
        }
        if (WEXITSTATUS(status) != 0) throw Error(child.text);
        return child;
      }
    }
  }

 private:
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
