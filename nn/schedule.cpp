#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <attune/nn/parameters.hpp>
#include <attune/nn/schedule.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {
namespace {

template <class T>
void require(bool holds, const char* schedule, const char* name, T value, const char* range) {
  if (!holds) fail(schedule, fmt::format("{} = {} is not in {}", name, value, range));
}

void require_rate(const char* schedule, double rate) {
  require(rate > 0 && std::isfinite(rate), schedule, "rate", rate, "(0, inf)");
}

void require_count(const char* schedule, const char* name, std::int64_t count, std::int64_t least) {
  require(count >= least, schedule, name, count, least == 0 ? "[0, inf)" : "[1, inf)");
}

double ratio(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

}  // namespace

double ConstantRate::operator()(std::int64_t step) const {
  require_rate("ConstantRate", rate);
  require_count("ConstantRate", "step", step, 0);
  return rate;
}

double InverseSquareRoot::operator()(std::int64_t step) const {
  require_rate("InverseSquareRoot", rate);
  require_count("InverseSquareRoot", "warm_up", warm_up, 1);
  require_count("InverseSquareRoot", "step", step, 0);
  return step < warm_up ? rate * ratio(step + 1, warm_up)
                        : rate * std::sqrt(ratio(warm_up, step + 1));
}

double LinearDecay::operator()(std::int64_t step) const {
  require_rate("LinearDecay", rate);
  require(last >= 0 && std::isfinite(last), "LinearDecay", "last", last, "[0, inf)");
  require_count("LinearDecay", "after", after, 0);
  require(steps > after, "LinearDecay", "steps", steps, "(after, inf)");
  require_count("LinearDecay", "step", step, 0);
  if (step <= after) return rate;
  return step < steps ? rate + (last - rate) * ratio(step - after, steps - after) : last;
}

/// The factor of the rate at a step of the warm-up; 1 from its last step on.
double detail::warm_up_share(std::int64_t step, std::int64_t steps) {
  require_count("WarmUp", "steps", steps, 1);
  require_count("WarmUp", "step", step, 0);
  return step < steps ? ratio(step + 1, steps) : 1;
}

HalveOnPlateau::HalveOnPlateau(const HalveOnPlateauOptions& options)
    : options_(options),
      rate_(options.rate),
      best_(options.higher_is_better ? -std::numeric_limits<double>::infinity()
                                     : std::numeric_limits<double>::infinity()) {
  const char* const name = "HalveOnPlateau";
  require_rate(name, options.rate);
  require(options.factor > 0 && options.factor < 1, name, "factor", options.factor, "(0, 1)");
  require_count(name, "patience", options.patience, 0);
  require(options.minimum >= 0 && options.minimum <= options.rate, name, "minimum", options.minimum,
          "[0, rate]");
}

double HalveOnPlateau::observe(double metric) {
  if (std::isnan(metric)) fail("HalveOnPlateau", "the metric is nan");
  if (options_.higher_is_better ? metric > best_ : metric < best_) {
    best_ = metric;
    waited_ = 0;
  } else if (waited_ < options_.patience) {
    ++waited_;
  } else {
    rate_ = std::max(options_.minimum, options_.factor * rate_);
    waited_ = 0;
  }
  return rate_;
}

void HalveOnPlateau::save(Metadata& metadata, const std::string& name) const {
  // fmt writes the shortest text that reads back as the same number.
  metadata[name + ".rate"] = fmt::format("{}", rate_);
  metadata[name + ".best"] = fmt::format("{}", best_);
  metadata[name + ".waited"] = fmt::format("{}", waited_);
}

void HalveOnPlateau::load(const Metadata& metadata, const std::string& name) {
  using Limits = std::numeric_limits<double>;
  const double rate = load_number(metadata, name + ".rate", Limits::denorm_min(), Limits::max());
  const double best =
      load_number(metadata, name + ".best", -Limits::infinity(), Limits::infinity());
  const std::int64_t waited = load_count(metadata, name + ".waited");
  rate_ = rate;
  best_ = best;
  waited_ = waited;
}

}  // namespace attune::nn
