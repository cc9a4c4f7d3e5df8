// Runs a program with arguments, input and environment; returns its output and exit status.
#pragma once

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace attune::test {

struct ProcessOptions {
  std::string input = {};                               // standard input
  std::map<std::string, std::string> environment = {};  // added to the test's own
  std::function<bool()> signal_when = {};               // polled every millisecond until true
  int signal = SIGKILL;                                 // sent once signal_when is true
  std::chrono::seconds limit{3000};                     // the program is killed after this time
};

struct ProcessResult {
  int status = -1;  // exit status, or -1 if a signal ended the program
  int signal = 0;   // the signal that ended it, or 0
  bool timed_out = false;
  std::string out, err;
};

namespace detail {

/// A file in memory, for standard input and output: unlike a pipe it need not be read while the
/// program runs.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("standard stream", MFD_CLOEXEC)) {
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "memfd_create");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(fd_); }

  int fd() const { return fd_; }

  void write(std::string_view text) const {
    for (off_t at = 0; !text.empty();) {
      const ssize_t n = pwrite(fd_, text.data(), text.size(), at);
      if (n < 0) throw std::system_error(errno, std::generic_category(), "pwrite");
      text.remove_prefix(static_cast<std::size_t>(n));
      at += n;
    }
  }

  std::string read() const {
    std::string text;
    char block[1 << 16];
    while (true) {
      const ssize_t n = pread(fd_, block, sizeof block, static_cast<off_t>(text.size()));
      if (n <= 0) return text;
      text.append(block, static_cast<std::size_t>(n));
    }
  }

 private:
  int fd_;
};

/// Pointers to the texts with a null at the end, as exec requires.
inline std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

inline std::vector<std::string> environment_with(
    const std::map<std::string, std::string>& changes) {
  std::map<std::string, std::string> variables = changes;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == text.npos) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  std::vector<std::string> result;
  for (const auto& [name, value] : variables) result.push_back(name + "=" + value);
  return result;
}

}  // namespace detail

/// Runs a program until it ends. Searches PATH unless its name contains a slash.
inline ProcessResult run_process(std::vector<std::string> arguments,
                                 const ProcessOptions& options = {}) {
  using Clock = std::chrono::steady_clock;
  const detail::MemoryFile in, out, err;
  in.write(options.input);

  std::vector<std::string> environment = detail::environment_with(options.environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.fd(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.fd(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.fd(), STDERR_FILENO);
  // Restores signals that the test process ignores, for example under nohup.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error =
      posix_spawnp(&pid, arguments.front().c_str(), &actions, &attributes,
                   detail::pointers(arguments).data(), detail::pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::system_error(error, std::generic_category(), arguments.front());

  ProcessResult result;
  bool sent = !options.signal_when;
  int status = 0;
  for (const Clock::time_point start = Clock::now(); waitpid(pid, &status, WNOHANG) == 0;) {
    if (!sent && options.signal_when()) {
      kill(pid, options.signal);
      sent = true;
    }
    if (!result.timed_out && Clock::now() - start > options.limit) {
      kill(pid, SIGKILL);
      result.timed_out = true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  result.out = out.read();
  result.err = err.read();
  return result;
}

/// Runs one hidden test case of this test program in a process of its own.
inline ProcessResult run_test_case(const std::string& name, const ProcessOptions& options = {}) {
  std::vector<std::string> arguments = {std::filesystem::read_symlink("/proc/self/exe"),
                                        "--no-skip", "--test-case=" + name};
  // For programs of another architecture, meson provides the name of the emulator.
  if (const char* emulator = std::getenv("MESON_EXE_WRAPPER"))
    arguments.insert(arguments.begin(), emulator);
  const ProcessResult result = run_process(std::move(arguments), options);
  if (result.out.find("test cases: 0 |") != result.out.npos)
    throw std::runtime_error("there is no test case " + name);
  return result;
}

}  // namespace attune::test
