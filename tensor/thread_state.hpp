// The settings of a thread that scope guards change. Tiles of parallel_for inherit all of them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace attune {

class Random;
enum class Precision;

namespace detail {

/// The operation whose pullback is running; null outside of backward. While it is set, reading a
/// buffer that was overwritten since the forward pass throws: the gradient would be wrong.
struct PullbackContext {
  const char* operation = nullptr;
  std::uint64_t recorded_at = 0;
};

/// The comment of a member names the guard that sets it. DetectAnomaly is not among them: it affects
/// all threads.
struct ThreadState {
  PullbackContext pullback;                 // backward
  const std::string* layer_path = nullptr;  // nn::InLayer; `fail` appends it to messages
  Random* training_random = nullptr;        // nn::Training; null outside of training mode
  Precision precision{};                    // InPrecision, set_precision; f32 at first
  bool records_history = true;              // NoGrad
  bool checks_gradients = false;            // gradcheck; suppresses warnings about training
};
/// Shared by program and library, even if the program is compiled with -fvisibility=hidden.
[[gnu::tls_model("initial-exec"),
  gnu::visibility("default")]] inline thread_local constinit ThreadState thread_state;

/// Sets a variable, and restores its old value on scope exit.
template <class T>
class ScopedValue {
 public:
  ScopedValue(T& at, T value) : at_(at), before_(std::exchange(at, value)) {}
  ScopedValue(const ScopedValue&) = delete;
  ~ScopedValue() { at_ = before_; }

 private:
  T& at_;
  T before_;
};

}  // namespace detail
}  // namespace attune
