// Finding the operation that made the first NaN or infinity.
#pragma once

#include <atomic>
#include <span>

#include <attune/autograd/var.hpp>

namespace attune {

/// While one lives, in all threads, every result of an operation on Vars and every gradient that a
/// pullback gives is looked at, and the first that is not finite is an Error:
///
///     anomaly: log: forward made a value that is not finite: (4, 5), element (0, 3) is -inf, from
///     inputs (4, 5)
///     anomaly: sqrt: backward made a gradient that is not finite: (3), element (1) is inf
///     anomaly: matmul: forward got a value that is not finite: variable (4, 5), element (0, 3) is
///     nan
///
/// the last of which no operation made: it is a parameter, or came with the data. Infinities of
/// constants may pass on, as those of a mask that is added to scores do; NaN may not, not even under
/// padding. Results are the same to the last bit, but everything is read once more.
/// ATTUNE_DETECT_ANOMALY=1 in the environment is one for the whole process.
class DetectAnomaly {
 public:
  DetectAnomaly();
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;
  ~DetectAnomaly();
};

namespace detail {

/// How many are alive; negative until the environment was read.
inline constinit std::atomic<int> anomaly_detectors{-1};

/// Throws when the environment says something else than 0 or 1.
int read_anomaly_setting();

inline bool detects_anomaly() {
  const int n = anomaly_detectors.load(std::memory_order_relaxed);
  return n != 0 && (n > 0 || read_anomaly_setting() > 0);
}

void check_result(const char* operation, const Tensor& result, std::span<const Var> inputs);
void check_gradient(const char* operation, const Tensor& gradient);

}  // namespace detail
}  // namespace attune
