// Learning-rate schedules.
#pragma once

#include <cstdint>
#include <functional>

#include <attune/tensor/safetensors.hpp>

namespace attune::nn {

// A schedule is a function from the index of a step (0 for the first one)
// to its learning rate:
//
//     adam.set_rate(schedule(adam.steps()));
//     adam.step(gradients);
//
// A schedule has no state, so nothing needs to be restored when training resumes. Calls throw if a
// field is out of range: rates in (0, inf), numbers of steps >= 1, the index of the step >= 0.

/// Type of any schedule, for a schedule chosen at run time.
using Schedule = std::function<double(Integer step)>;

/// rate · min(t / warm_up, √(warm_up / t)) with t = step + 1  (Vaswani et al., 2017, equation 3):
/// increases linearly to `rate` in the first `warm_up` steps, then decreases with 1 / √t. The paper
/// uses rate = (d · warm_up)^-½, where d is the model size.
struct InverseSquareRoot {
  double rate;
  std::int64_t warm_up = 4000;
  double operator()(Integer step) const;
};

/// `rate` up to step `after`, then linear decay to `last` at step `steps`, then `last`:
///     rate + (last - rate) · clamp((step - after) / (steps - after), 0, 1)
/// Throws unless last >= 0 and steps > after. If `last` is 0, training must end before step
/// `steps`, as optimisers require a rate above 0.
struct LinearDecay {
  double rate;
  double last = 0;
  std::int64_t steps;
  std::int64_t after = 0;
  double operator()(Integer step) const;
};

/// Adds a linear warm-up to the schedule `next`:  min(1, (step + 1) / steps) · next(step)
///     WarmUp{.steps = 400, .next = LinearDecay{.rate = 1e-3, .steps = 10000}}
struct WarmUp {
  std::int64_t steps;
  Schedule next;
  double operator()(Integer step) const;
};

struct HalveOnPlateauOptions {
  double rate;                    // initial rate
  double factor = 0.5;            // each reduction multiplies the rate by it; in (0, 1)
  std::int64_t patience = 0;      // tolerated number of consecutive evaluations without a new best
  bool higher_is_better = false;  // true for metrics such as BLEU or accuracy
};

/// Reduces the rate when a validation metric stops improving. Unlike a schedule it has state, and
/// is called once per evaluation, not once per step:
///     adam.set_rate(plateau.observe(validation_loss));
class HalveOnPlateau {
 public:
  /// Throws if an option is out of range.
  explicit HalveOnPlateau(const HalveOnPlateauOptions& options);

  /// Returns the current rate. After more than `patience` consecutive observations without a new
  /// best metric, multiplies it by the factor and counts from 0 again. Throws on NaN, and then
  /// changes nothing.
  double observe(double metric);

  double rate() const { return rate_; }
  /// The best metric so far; before the first observation, inf, or -inf if higher_is_better.
  double best() const { return best_; }

  /// Adds the exact state to the metadata of a checkpoint: "plateau.rate", ".best" and ".waited".
  void save(Safetensors& file) const;
  /// Restores the state; then call adam.set_rate(plateau.rate()). Throws, and changes nothing, if an
  /// entry is missing or out of range.
  void load(const Safetensors& file);

 private:
  HalveOnPlateauOptions options_;
  double rate_, best_;
  std::int64_t waited_ = 0;  // observations since the best or the last reduction
};

}  // namespace attune::nn
