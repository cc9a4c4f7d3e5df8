#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __APPLE__
#include <crt_externs.h>
#include <mach-o/dyld.h>
#define environ (*_NSGetEnviron())
#endif

#include "support/posix.hpp"
#include "support/process.hpp"

namespace attune::test {

std::vector<std::string> this_program() {
#ifdef __APPLE__
  char path[4096];
  std::uint32_t size = sizeof path;
  return {_NSGetExecutablePath(path, &size) == 0 ? path : ""};
#else
  const std::string path = std::filesystem::read_symlink("/proc/self/exe");
  // For programs of another architecture, meson provides the name of the emulator.
  const char* emulator = std::getenv("MESON_EXE_WRAPPER");
  return emulator ? std::vector<std::string>{emulator, path} : std::vector{path};
#endif
}

/// Pointers to the texts with a null at the end, as exec requires.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& changes) {
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

namespace {

/// A temporary file, for standard input and output: unlike a pipe it need not be read while the
/// program runs.
class StreamFile {
 public:
  int descriptor() const { return fileno(file_.get()); }
  void write(std::string_view text) const {
    if (std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size() ||
        std::fflush(file_.get()) != 0)
      throw std::system_error(errno, std::generic_category(), "standard input");
    std::rewind(file_.get());
  }
  std::string read() const {
    std::string text;
    char block[1 << 16];
    std::rewind(file_.get());
    while (const std::size_t n = std::fread(block, 1, sizeof block, file_.get()))
      text.append(block, n);
    return text;
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{std::tmpfile(), std::fclose};
};

}  // namespace

ProcessResult run_process(std::vector<std::string> arguments, const ProcessOptions& options) {
  using Clock = std::chrono::steady_clock;
  const StreamFile in, out, err;
  in.write(options.input);

  std::vector<std::string> environment = environment_with(options.environment);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.descriptor(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.descriptor(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.descriptor(), STDERR_FILENO);
  // Restores signals that the test process ignores, for example under nohup.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, arguments.front().c_str(), &actions, &attributes,
                                 pointers(arguments).data(), pointers(environment).data());
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

}  // namespace attune::test
