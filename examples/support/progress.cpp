#include "support/progress.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "support/output.hpp"
#include "support/terminal.hpp"

namespace attune {

using Clock = std::chrono::steady_clock;

Progress::Progress(long done, long total, std::string unit)
    : first_(done),
      total_(total),
      unit_(std::move(unit)),
      terminal_(obeys_escapes()),
      start_(Clock::now()),
      shown_() {}

Progress::~Progress() {
  if (open_) say("\n");
}

namespace {
/// Whether a text may be cut there: where two blanks end a field and a name begins the next one, for
/// numbers have blanks before them, too.
bool ends_field(const std::string& text, std::size_t at) {
  return at == text.size() || (text.compare(at, 2, "  ") == 0 && at + 2 < text.size() &&
                               std::isalpha(static_cast<unsigned char>(text[at + 2])) != 0);
}

/// The share done, the time left, and between them what the terminal has room for: the count, and
/// fields of the text. "\r" goes back to the start of the last line only.
std::string fitted(const std::string& share, const std::string& count, const std::string& text,
                   const std::string& left) {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  if (!known) return share + count + "  " + text + left;
  const std::size_t room = size.ws_col - 1u, least = share.size() + left.size();
  const std::string begin = least + count.size() <= room ? share + count : share;
  const std::size_t taken = begin.size() + 2 + left.size();
  std::size_t end = text.size();
  while (end > 0 && (taken + end > room || !ends_field(text, end))) --end;
  return (begin + (end > 0 ? "  " : "") + text.substr(0, end) + left).substr(0, room);
}
}  // namespace

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

void Progress::show(long done, const std::string& text, bool line, const TimeLimit& limit) {
  const bool due = terminal_ && Clock::now() - shown_ > std::chrono::milliseconds(100);
  if (!line && !due) return;
  shown_ = Clock::now();
  const long here = std::max(1L, done - first_);
  const double steps_left =
      seconds_since(start_) / static_cast<double>(here) * static_cast<double>(total_ - done);
  const double left = std::clamp(steps_left, 0.0, std::max(0.0, limit.most - limit.passed));
  const double share = std::min(
      1.0,
      std::max(static_cast<double>(done) / static_cast<double>(total_), limit.passed / limit.most));
  const std::string percent = fmt::format("{:3.0f} %", 100 * share),
                    count = fmt::format("  {} {}/{}", unit_, done, total_),
                    end = fmt::format("  {} left", duration(left));
  const std::string whole = percent + count + "  " + text + end;
  if (terminal_) {
    say("\r\x1b[K{}{}", line ? whole : fitted(percent, count, text, end), line ? "\n" : "");
    open_ = !line;
  } else {
    say("{}\n", whole);
  }
  std::fflush(stdout);
}

Task::Task(const std::string& what) : start_(Clock::now()) {
  say("{}: ", what);
  std::fflush(stdout);
}

Task::~Task() { say("{}\n", duration(seconds_since(start_))); }

std::string duration(double seconds) {
  const long s = static_cast<long>(seconds + 0.5);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

}  // namespace attune
