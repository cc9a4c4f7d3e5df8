// Progress on the way to a number of steps: one line that is rewritten on a terminal, plain lines
// elsewhere.
#pragma once

#include <chrono>
#include <limits>
#include <string>

namespace attune {

class Progress {
 public:
  /// `done` steps (or what `unit` says) of `total` were made before.
  Progress(long done, long total, std::string unit = "step");
  /// Ends the line that is being rewritten.
  ~Progress();

  /// Shows `text` after the share done and before the time left. On a terminal at most ten times a
  /// second; elsewhere only when `line` asks for a lasting line. It ends after `most_left` seconds
  /// at the latest.
  void show(long done, const std::string& text, bool line,
            double most_left = std::numeric_limits<double>::infinity());

 private:
  double seconds() const;

  long first_, total_;
  std::string unit_;
  bool terminal_;
  bool open_ = false;
  std::chrono::steady_clock::time_point start_, shown_;
};

/// Columns of the terminal behind standard output; 80 where there is none.
int terminal_width();

/// "1 min 05 s"
std::string duration(double seconds);

}  // namespace attune
