#include <algorithm>

#include <fmt/format.h>

#include <attune/nn/average.hpp>
#include <attune/nn/checkpoint.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/threads.hpp>

namespace attune::nn {
namespace {

constexpr Index average_tile = 8192;

}  // namespace

MovingAverage::MovingAverage(Parameters& parameters, double decay)
    : parameters_(parameters), decay_(decay) {
  if (!(decay > 0 && decay < 1)) {
    fail("MovingAverage", fmt::format("decay = {} is not in (0, 1)", decay));
  }
  for (const auto& [name, w] : parameters) averages_.push_back(w.value().clone());
}

void MovingAverage::update() {
  const auto t = static_cast<double>(++steps_);
  const double beta = std::min(decay_, (1 + t) / (10 + t));
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    const Tensor w = parameters_.all()[i].variable.value();
    visit_floating("MovingAverage", w, [&](auto zero) {
      using T = decltype(zero);
      const T share = static_cast<T>(1 - beta);
      const T* from = w.data<T>();
      T* a = averages_[i].mutable_data<T>();
      parallel_ranges(w.size(), average_tile, [&](Index begin, Index end) {
        for (Index k = begin; k < end; ++k) a[k] += share * (from[k] - a[k]);
      });
    });
  }
}

void MovingAverage::swap() {
  for (std::size_t i = 0; i < averages_.size(); ++i) {
    Tensor w = parameters_.all()[i].variable.value();
    visit_floating("MovingAverage", w, [&](auto zero) {
      using T = decltype(zero);
      T *a = averages_[i].mutable_data<T>(), *to = w.mutable_data<T>();
      std::swap_ranges(a, a + w.size(), to);
    });
  }
}

void MovingAverage::save(Safetensors& file) const {
  save_tensors(beside_parameters(parameters_, "average", averages_), file);
  file.metadata["average.steps"] = std::to_string(steps_);
}

void MovingAverage::load(const Safetensors& file) {
  const std::int64_t steps = load_count(file.metadata, "average.steps");
  load_tensors(file, beside_parameters(parameters_, "average", averages_));
  steps_ = steps;
}

}  // namespace attune::nn
