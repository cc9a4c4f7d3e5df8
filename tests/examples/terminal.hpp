// Runs a program in a pseudo-terminal, with simulated input.
#pragma once

#include <csignal>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#if __has_include(<pty.h>)
#include <pty.h>
#else  // macOS, whose <util.h> has the name of a header of ICU
#include <termios.h>
extern "C" int forkpty(int*, char*, const termios*, const winsize*);
#endif

#include "support/posix.hpp"

namespace attune::test {

class Terminal {
 public:
  Terminal(std::vector<std::string> arguments, unsigned short columns) {
    const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    std::vector<std::string> environment = environment_with({{"ATTUNE_THREADS", "1"}});
    std::erase_if(environment, [](const std::string& s) { return s.starts_with("COLUMNS="); });
    const std::vector<char*> argv = pointers(arguments), envp = pointers(environment);
    pid_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (pid_ < 0) throw std::runtime_error("forkpty");
    if (pid_ > 0) return;
    execve(argv.front(), argv.data(), envp.data());
    _exit(127);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() {
    close(terminal_);
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
  }

  void type(std::string_view text) const {
    if (::write(terminal_, text.data(), text.size()) != std::ssize(text))
      throw std::runtime_error("the terminal takes nothing");
  }

  /// Waits until `text` is shown. Returns the output up to and including it; line breaks are \n.
  std::string shown_until(const std::string& text) {
    while (unread_.find(text) == unread_.npos) {
      if (!read_more()) throw std::runtime_error("'" + text + "' is not shown, but: " + unread_);
    }
    return take(unread_.find(text) + text.size());
  }

  /// The remaining output; the exit status must be 0.
  std::string shown_to_the_end() {
    while (read_more()) {
    }
    int status = 0;
    waitpid(pid_, &status, 0), pid_ = -1;
    if (status != 0) throw std::runtime_error("the program failed: " + unread_);
    return take(unread_.size());
  }

 private:
  bool read_more() {
    pollfd one{.fd = terminal_, .events = POLLIN, .revents = 0};
    if (poll(&one, 1, 60'000) == 0) throw std::runtime_error("a minute passed after: " + unread_);
    char block[1 << 12];
    const ssize_t count =
        ::read(terminal_, block, sizeof block);  // fails when the program has ended
    for (ssize_t i = 0; i < count; ++i)
      if (block[i] != '\r') unread_ += block[i];
    return count > 0;
  }

  std::string take(std::size_t count) {
    const std::string taken = unread_.substr(0, count);
    unread_.erase(0, count);
    return taken;
  }

  pid_t pid_ = -1;
  int terminal_ = -1;
  std::string unread_;
};

}  // namespace attune::test
