// Finding the operation that made the first NaN or infinity.
#pragma once

#include <atomic>
#include <span>

#include <attune/autograd/var.hpp>
#include <attune/tensor/check.hpp>

namespace attune {

/// While an object of this class exists, every result of an operation on Vars and every gradient
/// that a pullback gives is checked, in all threads. The first one that is not finite throws an
/// Error:
///
///     anomaly: log: forward made a value that is not finite: (4, 5), element (0, 3) is -inf, from
///     inputs (4, 5)
///     anomaly: sqrt: backward made a gradient that is not finite: (3), element (1) is inf
///     anomaly: matmul: forward got a value that is not finite: variable (4, 5), element (0, 3) is
///     nan
///
/// The third message is about a value that no operation made: a parameter, or a constant such as
/// the data. An infinity that comes from a constant is allowed, such as a mask that is added to
/// scores; NaN is an error even under padding. Results stay the same to the last bit, but every
/// tensor is read once more. ATTUNE_DETECT_ANOMALY=1 in the environment checks the whole process.
class DetectAnomaly {
 public:
  [[nodiscard]] DetectAnomaly();
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;
  ~DetectAnomaly();
};

/// Thrown by operations on Vars and by pullbacks, in all threads, while cancel(true) holds.
struct Cancelled : Error {
  Cancelled() : Error("the computation was cancelled") {}
};
/// Stops a long computation from outside of it. A signal handler may call it. Each call with true is
/// followed by one with false.
void cancel(bool on) noexcept;

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
