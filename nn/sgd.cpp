#include <cmath>

#include <fmt/format.h>

#include <attune/nn/checkpoint.hpp>
#include <attune/nn/clip.hpp>
#include <attune/nn/sgd.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/threads.hpp>

namespace attune::nn {
namespace {

constexpr Index sgd_tile = 8192;

void require(bool holds, const char* name, double value, const char* range) {
  if (!holds) fail("Sgd", fmt::format("{} = {} is not in {}", name, value, range));
}

/// v is undefined without momentum.
void update(Tensor w, Tensor& velocity, const Tensor& gradient, const SgdOptions& options) {
  visit_floating("Sgd", w, [&](auto zero) {
    using T = decltype(zero);
    const T rate = static_cast<T>(options.rate), momentum = static_cast<T>(options.momentum);
    const T decay = static_cast<T>(options.weight_decay);
    const T* g = gradient.data<T>();
    T* to = w.mutable_data<T>();
    T* v = velocity.defined() ? velocity.mutable_data<T>() : nullptr;
    parallel_ranges(w.size(), sgd_tile, [&](Index begin, Index end) {
      for (Index i = begin; i < end; ++i) {
        T d = g[i] + decay * to[i];
        if (v) {
          v[i] = momentum * v[i] + d;
          d = options.nesterov ? d + momentum * v[i] : v[i];
        }
        to[i] -= rate * d;
      }
    });
  });
}

}  // namespace

Sgd::Sgd(Parameters& parameters, const SgdOptions& options)
    : parameters_(parameters), options_(options) {
  require(options.momentum >= 0 && options.momentum < 1, "momentum", options.momentum, "[0, 1)");
  require(options.weight_decay >= 0 && std::isfinite(options.weight_decay), "weight_decay",
          options.weight_decay, "[0, inf)");
  if (options.nesterov && options.momentum == 0) fail("Sgd", "nesterov needs momentum > 0");
  set_rate(options.rate);
  for (const auto& [name, w] : parameters) {
    velocities_.push_back(options.momentum > 0 ? zeros(w.shape(), w.dtype()) : Tensor());
  }
}

void Sgd::set_rate(double rate) {
  require(rate > 0 && std::isfinite(rate), "rate", rate, "(0, inf)");
  options_.rate = rate;
}

void Sgd::step(const Gradients& gradients) {
  require_all_parameters();
  if (options_.check_gradients) {
    const std::string first = first_not_finite(parameters_, gradients);
    if (!first.empty()) fail("Sgd", first + ": nothing was changed");
  }
  ++steps_;
  for (std::size_t i = 0; i < velocities_.size(); ++i) {
    const Var& w = parameters_.all()[i].variable;
    const Tensor* gradient = gradients.find(w);
    if (gradient) update(w.value(), velocities_[i], *gradient, options_);
  }
}

/// Every parameter must have been there from the start.
void Sgd::require_all_parameters() const {
  if (velocities_.size() != parameters_.all().size()) {
    fail("Sgd", "parameters were added after the optimiser was made");
  }
}

void Sgd::save(Safetensors& file) const {
  require_all_parameters();
  save_tensors(beside_parameters(parameters_, "sgd.v", velocities_), file);
  file.metadata["sgd.steps"] = std::to_string(steps_);
}

void Sgd::load(const Safetensors& file) {
  require_all_parameters();
  const std::int64_t steps = load_count(file.metadata, "sgd.steps");
  load_tensors(file, beside_parameters(parameters_, "sgd.v", velocities_));
  steps_ = steps;
}

}  // namespace attune::nn
