// Optimisers, gradient clipping, moving averages of weights, detection of divergence, and schedules
// of the learning rate.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <attune/autograd/backward.hpp>
#include <attune/nn/parameters.hpp>

namespace attune::nn {

/// The state of an optimiser or a moving average: slots, and a count of steps.
class StepState {
 public:
  /// Steps made so far.
  std::int64_t steps() const { return steps_; }

  /// To and from a checkpoint: "NAME.steps", and each tensor as "PREFIX.PATH".
  void save(Safetensors& file) const;
  /// Throws, before anything has changed, when a tensor is missing or has another shape or dtype,
  /// or when the step count is not a whole number from 0 on.
  void load(const Safetensors& file);

 protected:
  /// `owner` is named in error messages.
  StepState(Parameters& parameters, const char* owner, const char* name)
      : parameters_(parameters), count_(parameters.all().size()), owner_(owner), name_(name) {}

  /// Adds a slot of zeros: one tensor for each parameter, of its shape or of another.
  void add_slot(const char* prefix, Shape (*shape_of)(const Shape& parameter) = nullptr);
  /// The tensor of slot `number`, in the order in which slots were added, for parameter i.
  Tensor& slot(std::size_t number, std::size_t i) { return slots_[number * count_ + i].second; }
  /// Throws if parameters were added since.
  void require_all_parameters() const;

  Parameters& parameters_;
  std::size_t count_;  // parameters
  const char *owner_, *name_;
  NamedTensors slots_;  // one slot after the other
  std::int64_t steps_ = 0;
};

/// What all optimisers have in common, and the base of your own: its constructor adds slots, and
/// `update` changes a parameter; see examples/new_optimiser.cpp. The parameters must outlive the
/// optimiser, and all of them must exist already.
class Optimiser : public StepState {
 public:
  virtual ~Optimiser() = default;

  /// Updates every parameter that has a gradient, and leaves the others and their state alone.
  /// Throws, before anything has changed, if no parameter has a gradient, or if one is NaN or
  /// infinite. The check reads the gradients once, and costs nothing after clip_by_global_norm.
  void step(const Gradients& gradients);

  /// The learning rate from the next step on.
  void set_rate(double rate);

 protected:
  /// Options that all have: α and λ. Throws if one is out of range.
  Optimiser(Parameters& parameters, const char* owner, const char* name, double rate,
            double weight_decay);

  /// Why no step can be made with these gradients; empty if one can.
  virtual std::string unusable(const Gradients& gradients) const;
  /// A step of parameter i.
  virtual void update(std::size_t i, Tensor w, const Tensor& gradient) = 0;

  double rate_ = 0, weight_decay_;
};

struct AdamOptions {
  double rate = 1e-3;  // α
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;  // λ: AdamW where it is not 0
  /// Which parameters decay, asked once for each when the optimiser is made. Empty, the default:
  /// all of them, as in the paper and in PyTorch. Often biases should not: `matrices_only`.
  std::function<bool(const NamedVariable&)> decays = {};
};

/// For AdamOptions::decays: parameters of two axes or more, so neither biases nor v_a.
inline bool matrices_only(const NamedVariable& parameter) { return parameter.variable.rank() >= 2; }

/// Adam (Kingma and Ba, 2015, algorithm 1):
///     m = β₁ m + (1 - β₁) g,   v = β₂ v + (1 - β₂) g²,
///     w -= α · (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + ε)
/// where t counts the optimiser's steps, for all parameters alike: where a frozen part begins to
/// train, make a new Adam, as its first steps would be too large in the old one. A gradient whose
/// square is infinite is an error too, as an infinite v would hold the weight for ever.
///
/// With weight_decay λ it is AdamW (Loshchilov and Hutter, 2019, algorithm 2): before that step,
///     w *= 1 - α λ
/// as in PyTorch (the paper: 1 - η λ, with its schedule multiplier η). The decay follows the rate,
/// but stays out of the moments, which the gradient of an L2 term of the loss would enter.
///
/// In a checkpoint: "adam.m.PATH", "adam.v.PATH", "adam.steps".
class Adam : public Optimiser {
 public:
  /// Throws on an option out of range.
  explicit Adam(Parameters& parameters, const AdamOptions& options = {});

 private:
  std::string unusable(const Gradients& gradients) const override;
  void update(std::size_t i, Tensor w, const Tensor& gradient) override;

  AdamOptions options_;
  std::vector<bool> decays_;  // of each parameter
};

struct SgdOptions {
  double rate;              // α
  double momentum = 0;      // μ
  double weight_decay = 0;  // λ
};

/// Stochastic gradient descent, with momentum as in PyTorch (Sutskever et al., 2013):
///     d = g + λ w,   v = μ v + d,
///     w -= α v
/// from v = 0; without momentum w -= α d. The rate stands outside of v: changing it does not change
/// what is remembered. λ w is the gradient of an L2 term of the loss, λ/2 ‖w‖².
///
/// In a checkpoint: "sgd.steps" and, with momentum, "sgd.v.PATH".
class Sgd : public Optimiser {
 public:
  /// Throws on an option out of range.
  Sgd(Parameters& parameters, const SgdOptions& options);

 private:
  void update(std::size_t i, Tensor w, const Tensor& gradient) override;

  SgdOptions options_;
};

/// Where ‖g‖₂ over all gradients exceeds `largest`, scales them by largest / ‖g‖₂ (Pascanu et al.,
/// 2013). Returns the norm before. The gradients store the norm, so that the check of an optimiser
/// after this costs nothing. Throws unless largest > 0, and, with nothing changed, when an element
/// is NaN or infinite; a finite norm is clipped, however large.
double clip_by_global_norm(Gradients& gradients, double largest);

/// The first parameter whose gradient has an element that is NaN or infinite: "the gradient of
/// 'decoder.W_h' (64, 256), element (3, 17) is nan". Empty where all are finite.
std::string non_finite_gradient(const Parameters& parameters, const Gradients& gradients);

/// The exponential moving average of all parameters (Polyak and Juditsky, 1992, with weights that
/// fall off), which often translates better than the last weights do:
///     a = β a + (1 - β) w,   β = min(decay, (1 + t) / (10 + t))
/// after step t = 1, 2, ..., so that the initial values are soon forgotten.
///
///     adam.step(gradients);
///     average.update();
///     ...
///     { const ScopedAverage scope(average);  validate(); }
///
/// In a checkpoint: "average.PATH", "average.steps".
class MovingAverage : public StepState {
 public:
  /// The parameters must outlive it; all of them must exist already. Throws unless 0 < decay < 1.
  MovingAverage(Parameters& parameters, double decay);

  /// After a step of the optimiser.
  void update();

  /// Exchanges the parameters and their averages; a second call changes them back.
  void swap();

 private:
  double decay_;
};

/// While one lives, the parameters have the values of their averages.
class ScopedAverage {
 public:
  explicit ScopedAverage(MovingAverage& average) : average_(average) { average_.swap(); }
  ~ScopedAverage() { average_.swap(); }
  ScopedAverage(const ScopedAverage&) = delete;
  ScopedAverage& operator=(const ScopedAverage&) = delete;

 private:
  MovingAverage& average_;
};

/// Finds the steps that must be skipped, and training that diverges:
///
///     Gradients gradients = backward(loss);
///     const auto [usable, message] = monitor.observe(loss.item(), params, gradients);
///     if (!message.empty()) std::cerr << "step " << step << ": " << message << "\n";
///     if (usable) {
///       nn::clip_by_global_norm(gradients, 1.0);
///       adam.step(gradients);
///     }
///
/// A step whose loss or gradients are not finite is to be skipped; the training loop decides when
/// to give up (`skipped_in_a_row`). Training diverges when the loss of each of the last 50 steps is
/// more than twice that of the first step, which is about the loss of guessing; a few steps with a
/// large loss do not count.
class DivergenceMonitor {
 public:
  static constexpr double factor = 2;
  static constexpr std::int64_t patience = 50;

  struct Step {
    bool usable;          // whether the optimiser may make it
    std::string message;  // why it is not usable, or, once, that training diverges; else empty
  };
  Step observe(double loss, const Parameters& parameters, Gradients& gradients);

  /// Steps that were not usable: all of them, and those since the last that was.
  std::int64_t skipped() const { return skipped_; }
  std::int64_t skipped_in_a_row() const { return in_a_row_; }

  /// Whether training diverges now.
  bool diverges() const { return above_ >= patience; }

  /// State to and from a checkpoint's metadata: "divergence.first_loss" and three counts, exact.
  void save(Metadata& metadata) const;
  /// Throws, before anything has changed, when one is missing or not a possible value.
  void load(const Metadata& metadata);

 private:
  double first_loss_ = 0;   // 0 until there is one
  std::int64_t above_ = 0;  // steps in a row whose loss was too large
  std::int64_t skipped_ = 0, in_a_row_ = 0;
};

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

/// Another schedule with a warm-up:  min(1, (step + 1) / steps) · next(step)
///     WarmUp{.steps = 400, .next = LinearDecay{.rate = 1e-3, .steps = 10000}}
struct WarmUp {
  std::int64_t steps;
  Schedule next;
  double operator()(std::int64_t step) const;
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

  /// State to and from a checkpoint's metadata: "plateau.rate", ".best" and ".waited", exact.
  void save(Metadata& metadata) const;
  /// Throws, before anything has changed, when one is missing or not a possible value.
  void load(const Metadata& metadata);

 private:
  HalveOnPlateauOptions options_;
  double rate_, best_;
  std::int64_t waited_ = 0;  // observations since the best or the last reduction
};

}  // namespace attune::nn
