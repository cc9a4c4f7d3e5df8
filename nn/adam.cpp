#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <attune/nn/adam.hpp>
#include <attune/nn/clip.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/simd/kernels.hpp>
#include <attune/tensor/threads.hpp>

namespace attune::nn {
namespace {

constexpr Index adam_tile = 8192;

void require(bool holds, const char* name, double value, const char* range) {
  if (!holds) fail("Adam", fmt::format("{} = {} is not in {}", name, value, range));
}

void update(Tensor w, Tensor& m, Tensor& v, const Tensor& gradient, const AdamOptions& options,
            double weight_decay, std::int64_t step) {
  const double t = static_cast<double>(step);
  visit_floating("Adam", w, [&](auto zero) {
    using T = decltype(zero);
    const simd::AdamRow<T> all{
        .w = w.mutable_data<T>(),
        .m = m.mutable_data<T>(),
        .v = v.mutable_data<T>(),
        .gradient = gradient.data<T>(),
        .scale = T(1),
        .beta1 = static_cast<T>(options.beta1),
        .beta2 = static_cast<T>(options.beta2),
        .rate = static_cast<T>(options.rate / (1 - std::pow(options.beta1, t))),
        .root = static_cast<T>(1 / std::sqrt(1 - std::pow(options.beta2, t))),
        .epsilon = static_cast<T>(options.epsilon),
        .decay = static_cast<T>(options.rate * weight_decay),
    };
    parallel_ranges(w.size(), adam_tile, [&](Index begin, Index end) {
      simd::AdamRow<T> part = all;
      part.w += begin, part.m += begin, part.v += begin, part.gradient += begin;
      simd::run(part, end - begin);
    });
  });
}

}  // namespace

Adam::Adam(Parameters& parameters, const AdamOptions& options)
    : parameters_(parameters), options_(options) {
  require(options.beta1 >= 0 && options.beta1 < 1, "beta1", options.beta1, "[0, 1)");
  require(options.beta2 >= 0 && options.beta2 < 1, "beta2", options.beta2, "[0, 1)");
  require(options.epsilon > 0 && std::isfinite(options.epsilon), "epsilon", options.epsilon,
          "(0, inf)");
  require(options.weight_decay >= 0 && std::isfinite(options.weight_decay), "weight_decay",
          options.weight_decay, "[0, inf)");
  set_rate(options.rate);
  for (const NamedVariable& parameter : parameters) {
    const Var& w = parameter.variable;
    const bool decays = !options.decays || options.decays(parameter);
    m_.push_back(zeros(w.shape(), w.dtype()));
    v_.push_back(zeros(w.shape(), w.dtype()));
    weight_decay_.push_back(decays ? options.weight_decay : 0);
  }
}

void Adam::set_rate(double rate) {
  require(rate > 0 && std::isfinite(rate), "rate", rate, "(0, inf)");
  options_.rate = rate;
}

void Adam::step(const Gradients& gradients) {
  require_all_parameters();
  const auto has_gradient = [&](const NamedVariable& w) { return gradients.find(w.variable); };
  if (std::ranges::none_of(parameters_.all(), has_gradient)) {
    fail("Adam", "none of its parameters is among the gradients");
  }
  if (options_.check_gradients) require_finite(gradients);
  ++steps_;
  for (std::size_t i = 0; i < m_.size(); ++i) {
    const Var& w = parameters_.all()[i].variable;
    const Tensor* gradient = gradients.find(w);
    if (gradient) update(w.value(), m_[i], v_[i], *gradient, options_, weight_decay_[i], steps_);
  }
}

/// Throws unless all elements of the gradients, and their squares, are finite.
void Adam::require_finite(const Gradients& gradients) const {
  const double largest = parameters_.dtype() == DType::f32 ? std::numeric_limits<float>::max()
                                                           : std::numeric_limits<double>::max();
  if (gradients.global_norm() < std::sqrt(largest)) return;
  std::string first = first_not_finite(parameters_, gradients);
  for (const auto& [name, w] : parameters_) {
    const Tensor* gradient = gradients.find(w);
    if (!first.empty() || !gradient) continue;
    first = attune::first_not_finite(*gradient * *gradient);
    if (!first.empty()) first = fmt::format("the square of the gradient of '{}' {}", name, first);
  }
  if (!first.empty()) fail("Adam", first + ": nothing was changed");
}

/// Every parameter must have its moments.
void Adam::require_all_parameters() const {
  if (m_.size() != parameters_.all().size()) {
    fail("Adam", "parameters were added after the optimiser was made");
  }
}

NamedTensors Adam::moments() const {
  require_all_parameters();
  NamedTensors all = beside_parameters(parameters_, "adam.m", m_);
  for (auto& v : beside_parameters(parameters_, "adam.v", v_)) all.push_back(std::move(v));
  return all;
}

void Adam::save(Safetensors& file) const {
  save_tensors(moments(), file);
  file.metadata["adam.steps"] = std::to_string(steps_);
}

void Adam::load(const Safetensors& file) {
  const std::int64_t steps = load_count(file.metadata, "adam.steps");
  load_tensors(file, moments());
  steps_ = steps;
}

}  // namespace attune::nn
