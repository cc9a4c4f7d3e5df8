// Anomaly detection: finds the operation that computed the first NaN or infinity. Cancellation.
#pragma once

#include <atomic>
#include <span>

#include <attune/autograd/var.hpp>
#include <attune/tensor/errors.hpp>

namespace attune {

/// While an object of this class exists, every result of an operation on Vars and every gradient
/// that a pullback computes is checked, in all threads. The first non-finite one throws an Error:
///
///     anomaly: log: forward computed a non-finite value: (4, 5), element (0, 3) is -inf, from
///     inputs (4, 5)
///     anomaly: sqrt: backward computed a non-finite gradient: (3), element (1) is inf
///     anomaly: matmul: forward got a non-finite value: variable (4, 5), element (0, 3) is nan
///
/// The third message is about an input that no operation computed: a parameter, or a constant such
/// as the data. Infinities that come from a constant, such as an additive mask, are allowed. NaN is
/// always an error, even at padding. Results do not change, but every tensor is read once more.
/// ATTUNE_DETECT_ANOMALY=1 in the environment enables the checks for the whole process.
class DetectAnomaly {
 public:
  [[nodiscard]] DetectAnomaly();
  DetectAnomaly(const DetectAnomaly&) = delete;
  DetectAnomaly& operator=(const DetectAnomaly&) = delete;
  ~DetectAnomaly();
};

/// Thrown by operations on Vars and by pullbacks, in all threads, while cancel(true) is in effect.
struct Cancelled : Error {
  Cancelled() : Error("the computation was cancelled") {}
};
/// Stops a running computation from another thread or a signal handler: operations throw Cancelled.
/// Every cancel(true) must be followed by a cancel(false).
void cancel(bool on) noexcept;

namespace detail {

/// Number of DetectAnomaly objects; negative until the environment was read.
[[gnu::visibility("default")]] inline constinit std::atomic<int> anomaly_detectors{-1};

/// Throws unless ATTUNE_DETECT_ANOMALY is unset, empty, 0 or 1.
int read_anomaly_setting();

inline bool detects_anomaly() {
  const int n = anomaly_detectors.load(std::memory_order_relaxed);
  return n != 0 && (n > 0 || read_anomaly_setting() > 0);
}

void check_result(const char* operation, const Tensor& result, std::span<const Var> inputs);
void check_gradient(const char* operation, const Tensor& gradient);

}  // namespace detail
}  // namespace attune
