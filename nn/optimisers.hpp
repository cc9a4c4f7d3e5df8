// Optimisers, and the moving average of the parameters.
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

  /// Adds a slot: zeros of the shape of each parameter.
  void add_slot(const char* prefix);
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

}  // namespace attune::nn
