#include "support/standard_input.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <attune/tensor/check.hpp>

#include "support/output.hpp"

namespace attune {

void read_as_standard_input(const std::filesystem::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 || dup2(file, STDIN_FILENO) < 0)
    fail(path.string(), fmt::format("cannot be read: {}", std::strerror(errno)));
  close(file);
}

/// Reads some bytes behind those that were not taken yet. False at the end and where reading fails.
bool StandardInput::read_more() {
  constexpr std::size_t block = 1 << 16;
  bytes_.erase(0, static_cast<std::size_t>(gptr() - eback()));
  const std::size_t kept = bytes_.size();
  bytes_.resize(kept + block);
  ssize_t count;
  do {
    count = ::read(STDIN_FILENO, bytes_.data() + kept, block);
  } while (count < 0 && errno == EINTR);
  error_ = count < 0 ? errno : 0;
  ended_ = count <= 0;
  bytes_.resize(kept + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  setg(bytes_.data(), bytes_.data(), bytes_.data() + bytes_.size());
  return !ended_;
}

StandardInput::int_type StandardInput::underflow() {
  if (gptr() == egptr() && (ended_ || !read_more())) {
    errno = error_;
    if (error_ != 0) throw std::system_error(error_, std::generic_category());  // it becomes bad()
    return traits_type::eof();
  }
  return traits_type::to_int_type(*gptr());
}

bool StandardInput::line_waits() {
  constexpr std::ptrdiff_t many = 1 << 20;  // bytes: so long a line is read as it comes
  while (!ended_ && egptr() - gptr() < many && std::find(gptr(), egptr(), '\n') == egptr()) {
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (poll(&input, 1, 0) <= 0) return false;
    read_more();
  }
  return true;
}

void StandardInput::ask() {
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || line_waits()) return;
  complain("> ");
  asked_ = true;
}

bool StandardInput::forgives(const Error& error, const char* program) const {
  if (!asked_ || ended_) return false;
  complain("{}: {}\n", program, error.what());
  return true;
}

void StandardInput::stop_asking() const {
  if (asked_) complain("\n");
}

}  // namespace attune
