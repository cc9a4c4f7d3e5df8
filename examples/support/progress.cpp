#include "support/progress.hpp"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "support/output.hpp"

namespace attune {

using Clock = std::chrono::steady_clock;

Progress::Progress(long done, long total, std::string unit)
    : first_(done),
      total_(total),
      unit_(std::move(unit)),
      terminal_(isatty(STDOUT_FILENO)),
      start_(Clock::now()),
      shown_() {}

Progress::~Progress() {
  if (open_) say("\n");
}

namespace {
/// What wraps cannot be overwritten: "\r" goes back to the last line only.
std::string fitted(const std::string& status) {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? status.substr(0, size.ws_col - 1u) : status;
}
}  // namespace

double Progress::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void Progress::show(long done, const std::string& text, bool line, double most_left) {
  const bool due = terminal_ && Clock::now() - shown_ > std::chrono::milliseconds(100);
  if (!line && !due) return;
  shown_ = Clock::now();
  const long here = std::max(1L, done - first_);
  const double left = seconds() / static_cast<double>(here) * static_cast<double>(total_ - done);
  const std::string status =
      fmt::format("{:3.0f} %  {} {}/{}  {}  {} left",
                  100.0 * static_cast<double>(done) / static_cast<double>(total_), unit_, done,
                  total_, text, duration(std::clamp(left, 0.0, std::max(0.0, most_left))));
  if (terminal_) {
    say("\r\x1b[K{}{}", line ? status : fitted(status), line ? "\n" : "");
    open_ = !line;
  } else {
    say("{}\n", status);
  }
  std::fflush(stdout);
}

int terminal_width() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20 ? size.ws_col : 80;
}

std::string duration(double seconds) {
  const long s = static_cast<long>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

}  // namespace attune
