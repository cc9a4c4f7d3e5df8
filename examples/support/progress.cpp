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
/// Between its beginning and its end, as much of a text as the terminal has room for: "\r" goes
/// back to the start of the last line only.
std::string fitted(const std::string& begin, const std::string& text, const std::string& end) {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  if (!known) return begin + text + end;
  const std::size_t room = size.ws_col - 1u, taken = begin.size() + end.size();
  return (begin + text.substr(0, std::max(room, taken) - taken) + end).substr(0, room);
}
}  // namespace

double Progress::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

void Progress::show(long done, const std::string& text, bool line, const TimeLimit& limit) {
  const bool due = terminal_ && Clock::now() - shown_ > std::chrono::milliseconds(100);
  if (!line && !due) return;
  shown_ = Clock::now();
  const long here = std::max(1L, done - first_);
  const double steps_left =
      seconds() / static_cast<double>(here) * static_cast<double>(total_ - done);
  const double left = std::clamp(steps_left, 0.0, std::max(0.0, limit.most - limit.passed));
  const double share = std::min(
      1.0,
      std::max(static_cast<double>(done) / static_cast<double>(total_), limit.passed / limit.most));
  const std::string begin = fmt::format("{:3.0f} %  {} {}/{}  ", 100 * share, unit_, done, total_),
                    end = fmt::format("  {} left", duration(left));
  if (terminal_) {
    say("\r\x1b[K{}{}", line ? begin + text + end : fitted(begin, text, end), line ? "\n" : "");
    open_ = !line;
  } else {
    say("{}{}{}\n", begin, text, end);
  }
  std::fflush(stdout);
}

Task::Task(const std::string& what) : start_(Clock::now()) {
  say("{}: ", what);
  std::fflush(stdout);
}

Task::~Task() {
  say("{}\n", duration(std::chrono::duration<double>(Clock::now() - start_).count()));
}

std::string duration(double seconds) {
  const long s = static_cast<long>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

}  // namespace attune
