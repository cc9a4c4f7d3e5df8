// Learning rates that change during training.
//
// A schedule is a value that says the rate of a step from the number of steps made before it, as
// optimisers count them (the first step has number 0):
//
//     adam.set_rate(schedule(adam.steps()));
//     adam.step(gradients);
//
// It has no state, so that a run resumed from a checkpoint goes on with the right rate. Calls throw
// when a field is out of range: rates in (0, inf), steps at least 1, the step's number at least 0.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <attune/tensor/safetensors.hpp>
#include <attune/tensor/shape.hpp>

namespace attune::nn {

/// Any schedule, where it is chosen at run time: all of those below convert to it.
using Schedule = std::function<double(std::int64_t step)>;

/// rate
struct ConstantRate {
  double rate;
  double operator()(std::int64_t step) const;
};

/// rate · min(t / warm_up, √(warm_up / t)) with t = step + 1  (Vaswani et al., 2017, equation 3):
/// rises to `rate` over the first `warm_up` steps, and then falls with 1 / √t. The paper's rate is
/// (d · warm_up)^-½ for vectors of d elements.
struct InverseSquareRoot {
  double rate;
  std::int64_t warm_up = 4000;
  double operator()(std::int64_t step) const;
};

/// `rate` up to step `after`; from there a straight line to `last` at step `steps`, which stays:
///     rate + (last - rate) · min(1, (step - after) / (steps - after))
/// `last` may be 0: then training is over before that step.
struct LinearDecay {
  double rate;
  double last = 0;
  std::int64_t steps;
  std::int64_t after = 0;
  double operator()(std::int64_t step) const;
};

namespace detail {
double warm_up_share(std::int64_t step, std::int64_t steps);
}

/// Another schedule with a warm-up:  min(1, (step + 1) / steps) · next(step)
///     WarmUp<LinearDecay>{.steps = 400, .next = {.rate = 1e-3, .steps = 10000}}
///     WarmUp<ConstantRate>{.steps = 400, .next = {1e-3}}
template <class Next>
struct WarmUp {
  std::int64_t steps;
  Next next;
  double operator()(std::int64_t step) const {
    return detail::warm_up_share(step, steps) * next(step);
  }
};

struct HalveOnPlateauOptions {
  double rate;                    // to begin with
  double factor = 0.5;            // in (0, 1)
  std::int64_t patience = 0;      // observations in a row without a new best that are tolerated
  double minimum = 0;             // the rate goes no lower
  bool higher_is_better = false;  // BLEU or accuracy, not a loss
};

/// Reduces the rate when a metric of held-out data stops improving. It has state, and is called
/// once per evaluation, not once per step:
///     adam.set_rate(plateau.observe(validation_loss));
class HalveOnPlateau {
 public:
  /// Throws on an option out of range.
  explicit HalveOnPlateau(const HalveOnPlateauOptions& options);

  /// Returns the rate from now on: max(minimum, factor · rate) at the first observation after
  /// `patience` others without a new best, which starts a new count. Throws on NaN, with nothing
  /// changed; an infinite loss is no new best.
  double observe(double metric);

  double rate() const { return rate_; }
  /// The best metric so far; before the first observation, the worst possible.
  double best() const { return best_; }

  /// State to and from a checkpoint's metadata: "NAME.rate", "NAME.best", "NAME.waited", exact.
  void save(Metadata& metadata, const std::string& name = "plateau") const;
  /// Throws, before anything has changed, when one is missing or not a possible value.
  void load(const Metadata& metadata, const std::string& name = "plateau");

 private:
  HalveOnPlateauOptions options_;
  double rate_, best_;
  std::int64_t waited_ = 0;  // observations since the best or the last reduction
};

}  // namespace attune::nn
