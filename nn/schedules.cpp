#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <attune/nn/parameters.hpp>
#include <attune/nn/schedules.hpp>
#include <attune/tensor/fail.hpp>

namespace attune::nn {
namespace {

double ratio(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

void require_step(const char* owner, double rate, std::int64_t step) {
  require_in_range(owner, "rate", rate, "(0, inf)");
  require_in_range(owner, "step", static_cast<double>(step), "[0, inf)");
}

}  // namespace

double InverseSquareRoot::operator()(Integer step) const {
  require_step("InverseSquareRoot", rate, step);
  require_in_range("InverseSquareRoot", "warm_up", warm_up, "[1, inf)");
  return step < warm_up ? rate * ratio(step + 1, warm_up)
                        : rate * std::sqrt(ratio(warm_up, step + 1));
}

double LinearDecay::operator()(Integer step) const {
  require_step("LinearDecay", rate, step);
  require_in_range("LinearDecay", "last", last, "[0, inf)");
  require_in_range("LinearDecay", "after", after, "[0, inf)");
  if (steps <= after) fail("LinearDecay", "steps = {} is not in (after, inf)", steps);
  if (step <= after) return rate;
  return step < steps ? rate + (last - rate) * ratio(step - after, steps - after) : last;
}

double WarmUp::operator()(Integer step) const {
  require_in_range("WarmUp", "steps", steps, "[1, inf)");
  require_in_range("WarmUp", "step", step, "[0, inf)");
  if (!next) fail("WarmUp", "the schedule `next` is empty");
  return (step < steps ? ratio(step + 1, steps) : 1) * next(step);
}

HalveOnPlateau::HalveOnPlateau(const HalveOnPlateauOptions& options)
    : options_(options),
      rate_(options.rate),
      best_(options.higher_is_better ? -std::numeric_limits<double>::infinity()
                                     : std::numeric_limits<double>::infinity()) {
  const char* const name = "HalveOnPlateau";
  require_in_range(name, "rate", options.rate, "(0, inf)");
  require_in_range(name, "factor", options.factor, "(0, 1)");
  require_in_range(name, "patience", options.patience, "[0, inf)");
}

double HalveOnPlateau::observe(double metric) {
  if (std::isnan(metric)) fail("HalveOnPlateau", "the metric is nan");
  if (options_.higher_is_better ? metric > best_ : metric < best_) {
    best_ = metric;
    waited_ = 0;
  } else if (waited_ < options_.patience) {
    ++waited_;
  } else {
    rate_ *= options_.factor;
    waited_ = 0;
  }
  return rate_;
}

void HalveOnPlateau::save(Safetensors& file) const {
  // fmt writes the shortest text that reads back as the same number.
  file.metadata["plateau.rate"] = fmt::format("{}", rate_);
  file.metadata["plateau.best"] = fmt::format("{}", best_);
  file.metadata["plateau.waited"] = fmt::format("{}", waited_);
}

void HalveOnPlateau::load(const Safetensors& file) {
  using Limits = std::numeric_limits<double>;
  HalveOnPlateau read = *this;
  read.rate_ = load_number(file.metadata, "plateau.rate", Limits::denorm_min(), Limits::max());
  read.best_ = load_number(file.metadata, "plateau.best", -Limits::infinity(), Limits::infinity());
  read.waited_ = load_count(file.metadata, "plateau.waited");
  *this = read;
}

}  // namespace attune::nn
