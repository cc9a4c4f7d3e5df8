// Progress on the way to a number of steps: one line that is rewritten on a terminal, plain lines
// elsewhere.
#pragma once

#include <chrono>
#include <limits>
#include <string>

namespace attune {

/// A time after which a run ends, whatever is left of it.
struct TimeLimit {
  double passed = 0;  // seconds
  double most = std::numeric_limits<double>::infinity();
};

class Progress {
 public:
  /// `done` steps (or what `unit` says) of `total` were made before.
  Progress(long done, long total, std::string unit = "step");
  /// Ends the line that is being rewritten.
  ~Progress();

  /// Shows `text` after the share done and before the time left: of the steps, or of the time where
  /// that ends sooner. On a terminal at most ten times a second; elsewhere only when `line` asks
  /// for a lasting line.
  void show(long done, const std::string& text, bool line, const TimeLimit& limit = {});

 private:
  long first_, total_;
  std::string unit_;
  bool terminal_;
  bool open_ = false;
  std::chrono::steady_clock::time_point start_, shown_;
};

/// Shows what is done, from the beginning, and how long it took, at the end: "learning: 3 s".
class Task {
 public:
  explicit Task(const std::string& what);
  ~Task();

 private:
  std::chrono::steady_clock::time_point start_;
};

double seconds_since(std::chrono::steady_clock::time_point then);

/// "1 min 05 s"
std::string duration(double seconds);

}  // namespace attune
