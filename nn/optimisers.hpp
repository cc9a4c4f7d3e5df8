// Optimisers, gradient clipping, moving averages, divergence detection, learning-rate schedules.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <attune/autograd/backward.hpp>
#include <attune/nn/parameters.hpp>

namespace attune::nn {

/// State of an optimiser or a moving average: the number of steps, and slots. A slot is one tensor
/// for each parameter, such as Adam's m.
class StepState {
 public:
  StepState(const StepState&) = delete;  // a copy would share the elements of the slots
  /// Number of steps so far.
  std::int64_t steps() const { return steps_; }

  /// Adds the state to a checkpoint: metadata "NAME.steps", and each tensor as "PREFIX.PATH". Does
  /// not store the learning rate.
  void save(Safetensors& file) const;
  /// Restores the state. Throws, and changes nothing, if a tensor is missing or has another shape
  /// or dtype, or if the number of steps is not an integer >= 0.
  void load(const Safetensors& file);

 protected:
  /// `owner` is the class name for error messages; `name` is the NAME of the metadata.
  StepState(Parameters& parameters, const char* owner, const char* name)
      : parameters_(parameters), count_(parameters.all().size()), owner_(owner), name_(name) {}

  /// Adds a slot: zeros of the shape of each parameter, or of shape_of(its shape).
  void add_slot(const char* prefix, Shape (*shape_of)(const Shape& parameter) = nullptr);
  /// The tensor for parameter i in slot `number` (from 0, in the order of add_slot).
  Tensor& slot(std::size_t number, std::size_t i) { return slots_[number * count_ + i].second; }
  /// Throws if parameters were added after construction.
  void require_all_parameters() const;

  Parameters& parameters_;
  std::size_t count_;  // number of parameters
  const char *owner_, *name_;
  NamedTensors slots_;  // the slots, concatenated
  std::int64_t steps_ = 0;
};

/// Base class of optimisers. To add one, derive from it: the constructor adds the slots, and
/// `update` changes one parameter; see examples/new_optimiser.cpp. Construct the optimiser after
/// all parameters were added. The Parameters must outlive it.
class Optimiser : public StepState {
 public:
  virtual ~Optimiser() = default;

  /// Updates every parameter that has a gradient; other parameters and their slots do not change.
  /// Throws, and changes nothing, if no parameter has a gradient, or if a gradient is non-finite.
  /// The check reads all gradients once; after clip_by_global_norm it reads only the stored norm.
  void step(const Gradients& gradients);

  /// Sets the learning rate of the following steps. Throws unless it is in (0, inf).
  void set_rate(double rate);

 protected:
  /// Options of all optimisers: the learning rate α and the weight decay λ. Throws on a value out
  /// of range. `owner` and `name` as in StepState.
  Optimiser(Parameters& parameters, const char* owner, const char* name, double rate,
            double weight_decay);

  /// The reason why these gradients cannot be used, for an error message; else empty.
  virtual std::string unusable(const Gradients& gradients) const;
  /// Updates the values w of parameter i; steps() already counts this step.
  virtual void update(std::size_t i, Tensor w, const Tensor& gradient) = 0;

  double rate_ = 0, weight_decay_;
};

struct AdamOptions {
  double rate = 1e-3;  // α
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;  // λ; AdamW if it is not 0
  /// Selects the parameters with weight decay; called once per parameter by the constructor. By
  /// default (empty) all, as in the paper and in PyTorch. `matrices_only` excludes biases.
  std::function<bool(const NamedVariable&)> decays = {};
};

/// For AdamOptions::decays: selects parameters of rank >= 2, which excludes biases and v_a.
inline bool matrices_only(const NamedVariable& parameter) { return parameter.variable.rank() >= 2; }

/// Adam (Kingma and Ba, 2015, algorithm 1):
///     m = β₁ m + (1 - β₁) g,   v = β₂ v + (1 - β₂) g²,
///     w -= α · (m / (1 - β₁ᵗ)) / (√(v / (1 - β₂ᵗ)) + ε)
/// where t is the number of steps of the optimiser, the same for all parameters. To start training
/// a part of the model that was frozen, construct a new Adam: with a large t, the first steps of
/// that part would be too large. `step` also throws if the square of a gradient overflows, as an
/// infinite v would freeze the weight permanently.
///
/// With weight_decay λ it is AdamW (Loshchilov and Hutter, 2019, algorithm 2): before each step,
///     w *= 1 - α λ
/// as in PyTorch (the paper multiplies by 1 - η λ, where η is the schedule multiplier). The decay
/// is proportional to the rate. Unlike an L2 term of the loss, it does not enter m and v.
///
/// Entries in a checkpoint: "adam.m.PATH", "adam.v.PATH", "adam.steps".
class Adam : public Optimiser {
 public:
  /// Throws if an option is out of range.
  explicit Adam(Parameters& parameters, const AdamOptions& options = {});

 private:
  std::string unusable(const Gradients& gradients) const override;
  void update(std::size_t i, Tensor w, const Tensor& gradient) override;

  AdamOptions options_;
  std::vector<bool> decays_;  // for each parameter
};

struct SgdOptions {
  double rate;              // α
  double momentum = 0;      // μ
  double weight_decay = 0;  // λ
};

/// Stochastic gradient descent, with momentum as in PyTorch (Sutskever et al., 2013):
///     d = g + λ w,   v = μ v + d,
///     w -= α v
/// with v = 0 initially. Without momentum, w -= α d. v does not contain the rate α, so a change of
/// the rate does not rescale v. λ w is the gradient of the L2 term λ/2 ‖w‖² of the loss.
///
/// Entries in a checkpoint: "sgd.steps" and, with momentum, "sgd.v.PATH".
class Sgd : public Optimiser {
 public:
  /// Throws if an option is out of range.
  Sgd(Parameters& parameters, const SgdOptions& options);

 private:
  void update(std::size_t i, Tensor w, const Tensor& gradient) override;

  SgdOptions options_;
};

/// Scales all gradients by largest / ‖g‖₂ if their global norm ‖g‖₂ exceeds `largest` (Pascanu et
/// al., 2013). Returns the norm before scaling. `gradients` caches its norm after
/// scaling for the optimiser's check of non-finite gradients. Throws unless largest > 0 and all
/// elements are finite.
double clip_by_global_norm(Gradients& gradients, double largest);

/// Describes the first parameter with a non-finite gradient: "the gradient of 'decoder.W_h'
/// (64, 256), element (3, 17) is nan". Empty if all gradients are finite.
std::string non_finite_gradient(const Parameters& parameters, const Gradients& gradients);

/// Exponential moving average a of all parameters w (Polyak and Juditsky, 1992, with exponential
/// weights), updated after step t = 1, 2, ...:
///     a = β a + (1 - β) w,   β = min(decay, (1 + t) / (10 + t))
/// β is small at first, so the initial values lose their influence quickly. Averaged parameters
/// often have a lower validation loss than the last ones.
///
///     adam.step(gradients);
///     average.update();
///     ...
///     { const ScopedAverage scope(average);  validate(); }
///
/// Entries in a checkpoint: "average.PATH", "average.steps".
class MovingAverage : public StepState {
 public:
  /// Construct it after all parameters were added; they must outlive it. Throws unless 0 < decay <
  /// 1.
  MovingAverage(Parameters& parameters, double decay);

  /// Updates the averages. Call it after each step of the optimiser.
  void update();

  /// Exchanges the parameters and their averages. A second call restores the parameters.
  void swap();

 private:
  double decay_;
};

/// Scope guard: the parameters have the values of their averages until its destruction.
class ScopedAverage {
 public:
  [[nodiscard]] explicit ScopedAverage(MovingAverage& average) : average_(average) {
    average_.swap();
  }
  ~ScopedAverage() { average_.swap(); }
  ScopedAverage(const ScopedAverage&) = delete;
  ScopedAverage& operator=(const ScopedAverage&) = delete;

 private:
  MovingAverage& average_;
};

/// Detects steps to skip, and divergence:
///
///     Gradients gradients = backward(loss);
///     const auto [usable, message] = monitor.observe(loss.item(), params, gradients);
///     if (!message.empty()) std::cerr << "step " << step << ": " << message << "\n";
///     if (usable) {
///       nn::clip_by_global_norm(gradients, 1.0);
///       adam.step(gradients);
///     }
///
/// Skip a step if its loss or a gradient is non-finite. The training loop decides when to stop, for
/// example by `skipped_in_a_row`. Training diverges if the loss of each of the last 50 steps
/// exceeds twice that of the first step, which is about the loss of a uniform prediction. This needs
/// a positive first loss: divergence of a log-density is not detected.
class DivergenceMonitor {
 public:
  static constexpr double factor = 2;
  static constexpr std::int64_t patience = 50;

  struct Step {
    bool usable;          // false if the loss or a gradient is non-finite
    std::string message;  // why it is not usable, or, once, that training diverges; else empty
  };
  Step observe(double loss, const Parameters& parameters, Gradients& gradients);

  /// Number of steps that were not usable: in total, and since the last usable step.
  std::int64_t skipped() const { return skipped_; }
  std::int64_t skipped_in_a_row() const { return in_a_row_; }

  /// Whether the loss of each of the last `patience` steps was too large.
  bool diverges() const { return above_ >= patience; }

  /// Adds the exact state to checkpoint metadata, with keys such as "divergence.first_loss".
  void save(Metadata& metadata) const;
  /// Restores the state. Throws, and changes nothing, if an entry is missing or out of range.
  void load(const Metadata& metadata);

 private:
  double first_loss_ = 0;   // 0 before the first usable step
  std::int64_t above_ = 0;  // consecutive steps with too large a loss
  std::int64_t skipped_ = 0, in_a_row_ = 0;
};

// Learning-rate schedules. A schedule is a function from the index of a step (0 for the first one)
// to its learning rate:
//
//     adam.set_rate(schedule(adam.steps()));
//     adam.step(gradients);
//
// A schedule has no state, so nothing needs to be restored when training resumes. Calls throw if a
// field is out of range: rates in (0, inf), numbers of steps >= 1, the index of the step >= 0.

/// Type of any schedule, for a schedule chosen at run time.
using Schedule = std::function<double(std::int64_t step)>;

/// The same rate at every step.
struct ConstantRate {
  double rate;
  double operator()(std::int64_t step) const;
};

/// rate · min(t / warm_up, √(warm_up / t)) with t = step + 1  (Vaswani et al., 2017, equation 3):
/// increases linearly to `rate` in the first `warm_up` steps, then decreases with 1 / √t. The paper
/// uses rate = (d · warm_up)^-½, where d is the model size.
struct InverseSquareRoot {
  double rate;
  std::int64_t warm_up = 4000;
  double operator()(std::int64_t step) const;
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
  double operator()(std::int64_t step) const;
};

/// Adds a linear warm-up to the schedule `next`:  min(1, (step + 1) / steps) · next(step)
///     WarmUp{.steps = 400, .next = LinearDecay{.rate = 1e-3, .steps = 10000}}
struct WarmUp {
  std::int64_t steps;
  Schedule next;
  double operator()(std::int64_t step) const;
};

struct HalveOnPlateauOptions {
  double rate;                    // initial rate
  double factor = 0.5;            // each reduction multiplies the rate by it; in (0, 1)
  std::int64_t patience = 0;      // tolerated number of consecutive evaluations without a new best
  double minimum = 0;             // lower bound of the rate
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
  /// best metric, reduces it to max(minimum, factor · rate) and counts from 0 again. Throws on NaN,
  /// and then changes nothing.
  double observe(double metric);

  double rate() const { return rate_; }
  /// The best metric so far; before the first observation, inf, or -inf if higher_is_better.
  double best() const { return best_; }

  /// Adds the exact state to the metadata of a checkpoint: "plateau.rate", ".best" and ".waited".
  void save(Metadata& metadata) const;
  /// Restores the state; then call adam.set_rate(plateau.rate()). Throws, and changes nothing, if an
  /// entry is missing or out of range.
  void load(const Metadata& metadata);

 private:
  HalveOnPlateauOptions options_;
  double rate_, best_;
  std::int64_t waited_ = 0;  // observations since the best or the last reduction
};

}  // namespace attune::nn
