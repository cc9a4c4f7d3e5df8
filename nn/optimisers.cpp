#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <attune/nn/clipping.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/simd/kernels.hpp>
#include <attune/tensor/loops.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune::nn {

constexpr Index tile = 8192;  // elements

void StepState::add_slot(const char* prefix) {
  for (const auto& [path, w] : parameters_)
    slots_.emplace_back(fmt::format("{}.{}", prefix, path), zeros(w.shape(), w.dtype()));
}

void StepState::require_all_parameters() const {
  if (count_ != parameters_.all().size())
    fail(owner_, "parameters were added after its construction");
}

void StepState::save(Safetensors& file) const {
  require_all_parameters();
  save_tensors(slots_, file);
  file.metadata[fmt::format("{}.steps", name_)] = std::to_string(steps_);
}

void StepState::load(const Safetensors& file) {
  require_all_parameters();
  const std::int64_t steps = load_count(file.metadata, fmt::format("{}.steps", name_));
  load_tensors(file, slots_);
  steps_ = steps;
}

Optimiser::Optimiser(Parameters& parameters, const char* owner, const char* name, double rate,
                     double weight_decay)
    : StepState(parameters, owner, name), weight_decay_(weight_decay) {
  set_rate(rate);
  require_in_range(owner_, "weight_decay", weight_decay, "[0, inf)");
}

void Optimiser::set_rate(double rate) {
  require_in_range(owner_, "rate", rate, "(0, inf)");
  rate_ = rate;
}

std::string Optimiser::unusable(const Gradients& gradients) const {
  return non_finite_gradient(parameters_, gradients);
}

void Optimiser::step(const Gradients& gradients) {
  require_all_parameters();
  const auto has_gradient = [&](const NamedVariable& w) { return gradients.find(w.variable); };
  if (std::ranges::none_of(parameters_.all(), has_gradient))
    fail(owner_, "no parameter has a gradient");
  const std::string why = unusable(gradients);
  if (!why.empty()) fail(owner_, why + ": nothing was changed");
  ++steps_;
  for (std::size_t i = 0; i < count_; ++i) {
    const Var& w = parameters_.all()[i].variable;
    if (const Tensor* gradient = gradients.find(w)) update(i, w.value(), *gradient);
  }
}

Adam::Adam(Parameters& parameters, const AdamOptions& options)
    : Optimiser(parameters, "Adam", "adam", options.rate, options.weight_decay), options_(options) {
  require_in_range(owner_, "beta1", options.beta1, "[0, 1)");
  require_in_range(owner_, "beta2", options.beta2, "[0, 1)");
  require_in_range(owner_, "epsilon", options.epsilon, "(0, inf)");
  if (parameters.dtype() == DType::f32) {  // also after rounding
    require_in_range(owner_, "f32 beta1", static_cast<float>(options.beta1), "[0, 1)");
    require_in_range(owner_, "f32 beta2", static_cast<float>(options.beta2), "[0, 1)");
    require_in_range(owner_, "f32 epsilon", static_cast<float>(options.epsilon), "(0, inf)");
  }
  for (const NamedVariable& parameter : parameters)
    decays_.push_back(!options.decays || options.decays(parameter));
  for (const char* prefix : {"adam.m", "adam.v"}) add_slot(prefix);
}

/// Checks the squares as well, since v sums them.
std::string Adam::unusable(const Gradients& gradients) const {
  const double largest = parameters_.dtype() == DType::f32 ? std::numeric_limits<float>::max()
                                                           : std::numeric_limits<double>::max();
  if (gradients.global_norm() < std::sqrt(largest)) return {};
  if (const std::string why = non_finite_gradient(parameters_, gradients); !why.empty()) return why;
  for (const auto& [name, w] : parameters_) {
    const Tensor* g = gradients.find(w);
    const std::string found = g ? first_non_finite(*g * *g) : "";
    if (!found.empty()) return fmt::format("the square of the gradient of '{}' {}", name, found);
  }
  return {};
}

void Adam::update(std::size_t i, Tensor w, const Tensor& gradient) {
  const auto t = static_cast<double>(steps_);
  const double rate = rate_ / (1 - simd::power(options_.beta1, t)),
               root = 1 / std::sqrt(1 - simd::power(options_.beta2, t)),
               decay = decays_[i] ? rate_ * weight_decay_ : 0;
  const auto compute = [&]<class T>(Index begin, Index end, const T* g, T* to, T* m, T* v) {
    simd::run(simd::AdamRow<T>{.w = to + begin,
                               .m = m + begin,
                               .v = v + begin,
                               .gradient = g + begin,
                               .beta1 = static_cast<T>(options_.beta1),
                               .beta2 = static_cast<T>(options_.beta2),
                               .rate = static_cast<T>(rate),
                               .root = static_cast<T>(root),
                               .epsilon = static_cast<T>(options_.epsilon),
                               .decay = static_cast<T>(decay)},
              end - begin);
  };
  parallel_rows("Adam", std::tie(gradient, w, slot(0, i), slot(1, i)), w.size(), tile, compute);
}

Sgd::Sgd(Parameters& parameters, const SgdOptions& options)
    : Optimiser(parameters, "Sgd", "sgd", options.rate, options.weight_decay), options_(options) {
  require_in_range(owner_, "momentum", options.momentum, "[0, 1)");
  if (options.momentum > 0) add_slot("sgd.v");
}

void Sgd::update(std::size_t i, Tensor w, const Tensor& gradient) {
  visit_elements("Sgd", std::tie(gradient, w), [&]<class T>(const T* g, T* to) {
    const T rate = static_cast<T>(rate_), momentum = static_cast<T>(options_.momentum);
    const T decay = static_cast<T>(weight_decay_);
    T* v = slots_.empty() ? nullptr : slot(0, i).mutable_data<T>();
    parallel_ranges(w.size(), tile, [&](Index begin, Index end) {
      for (Index k = begin; k < end; ++k) {
        T d = g[k] + decay * to[k];
        if (v) d = v[k] = momentum * v[k] + d;
        to[k] -= rate * d;
      }
    });
  });
}

MovingAverage::MovingAverage(Parameters& parameters, double decay)
    : StepState(parameters, "MovingAverage", "average"), decay_(decay) {
  require_in_range(owner_, "decay", decay, "(0, 1)");
  add_slot("average");
  for (std::size_t i = 0; i < count_; ++i) copy(parameters_.all()[i].variable.value(), slot(0, i));
}

void MovingAverage::update() {
  require_all_parameters();
  const auto t = static_cast<double>(++steps_);
  const double beta = std::min(decay_, (1 + t) / (10 + t));
  for (std::size_t i = 0; i < count_; ++i) {
    const Tensor& w = parameters_.all()[i].variable.value();
    const auto compute = [=]<class T>(Index begin, Index end, const T* from, T* a) {
      const T share = static_cast<T>(1 - beta);
      for (Index k = begin; k < end; ++k) a[k] += share * (from[k] - a[k]);
    };
    parallel_rows("MovingAverage", std::tie(w, slot(0, i)), w.size(), tile, compute);
  }
}

void MovingAverage::swap() {
  for (std::size_t i = 0; i < count_; ++i) {
    Tensor w = parameters_.all()[i].variable.value();
    std::ranges::swap_ranges(mutable_bytes_of(slot(0, i)), mutable_bytes_of(w));
  }
}

}  // namespace attune::nn
