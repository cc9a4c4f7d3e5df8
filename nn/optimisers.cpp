#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include <fmt/format.h>

#include <attune/nn/optimisers.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/simd/kernels.hpp>
#include <attune/tensor/loops.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune::nn {
namespace {

constexpr Index tile = 8192;  // elements

/// Throws unless the value is in `range`, such as "[0, 1)" or "(0, inf)".
template <class T>
void require(const char* owner, const std::string& name, T value, const char* range) {
  const auto v = static_cast<double>(value);
  char* end = nullptr;
  const double low = std::strtod(range + 1, &end), high = std::strtod(end + 1, &end);
  if ((*range == '[' ? v >= low : v > low) && (*end == ']' ? v <= high : v < high)) return;
  fail(owner, "{} = {} is not in {}", name, value, range);
}

double ratio(std::int64_t a, std::int64_t b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

/// "the gradient of 'W' (2, 3), element (0, 1) is inf" for the first gradient g where of(g) is not
/// finite; empty if all are finite.
template <class Of>
std::string first_non_finite(const char* what, const Parameters& parameters,
                             const Gradients& gradients, Of of) {
  for (const auto& [name, w] : parameters) {
    const Tensor* gradient = gradients.find(w);
    const std::string first = gradient ? first_non_finite(of(*gradient)) : "";
    if (!first.empty()) return fmt::format("the {} of '{}' {}", what, name, first);
  }
  return {};
}

}  // namespace

void StepState::add_slot(const char* prefix, Shape (*shape_of)(const Shape&)) {
  for (const auto& [path, w] : parameters_) {
    const Shape shape = shape_of ? shape_of(w.shape()) : w.shape();
    slots_.emplace_back(fmt::format("{}.{}", prefix, path), zeros(shape, w.dtype()));
  }
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
  require(owner_, "weight_decay", weight_decay, "[0, inf)");
}

void Optimiser::set_rate(double rate) {
  require(owner_, "rate", rate, "(0, inf)");
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
  require(owner_, "beta1", options.beta1, "[0, 1)");
  require(owner_, "beta2", options.beta2, "[0, 1)");
  require(owner_, "epsilon", options.epsilon, "(0, inf)");
  if (parameters.dtype() == DType::f32) {  // also after rounding
    require(owner_, "f32 beta1", static_cast<float>(options.beta1), "[0, 1)");
    require(owner_, "f32 beta2", static_cast<float>(options.beta2), "[0, 1)");
    require(owner_, "f32 epsilon", static_cast<float>(options.epsilon), "(0, inf)");
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
  const std::string first = non_finite_gradient(parameters_, gradients);
  if (!first.empty()) return first;
  return first_non_finite("square of the gradient", parameters_, gradients,
                          [](const Tensor& g) { return g * g; });
}

void Adam::update(std::size_t i, Tensor w, const Tensor& gradient) {
  const auto t = static_cast<double>(steps_);
  visit_floating("Adam", w, [&](auto zero) {
    using T = decltype(zero);
    const simd::AdamRow<T> all{
        .w = w.mutable_data<T>(),
        .m = slot(0, i).mutable_data<T>(),
        .v = slot(1, i).mutable_data<T>(),
        .gradient = gradient.data<T>(),
        .beta1 = static_cast<T>(options_.beta1),
        .beta2 = static_cast<T>(options_.beta2),
        .rate = static_cast<T>(rate_ / (1 - std::pow(options_.beta1, t))),
        .root = static_cast<T>(1 / std::sqrt(1 - std::pow(options_.beta2, t))),
        .epsilon = static_cast<T>(options_.epsilon),
        .decay = static_cast<T>(decays_[i] ? rate_ * weight_decay_ : 0),
    };
    parallel_ranges(w.size(), tile, [&](Index begin, Index end) {
      simd::AdamRow<T> part = all;
      part.w += begin, part.m += begin, part.v += begin, part.gradient += begin;
      simd::run(part, end - begin);
    });
  });
}

Sgd::Sgd(Parameters& parameters, const SgdOptions& options)
    : Optimiser(parameters, "Sgd", "sgd", options.rate, options.weight_decay), options_(options) {
  require(owner_, "momentum", options.momentum, "[0, 1)");
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

double clip_by_global_norm(Gradients& gradients, double largest) {
  if (!(largest > 0)) fail("clip_by_global_norm", "the largest norm {} is not positive", largest);
  const double norm = gradients.global_norm();
  if (!std::isfinite(norm)) {
    std::string first;
    for (const Tensor& gradient : gradients.all())
      if (first.empty()) first = first_non_finite(gradient);
    if (!first.empty()) first.insert(0, ": gradient of a variable ");
    fail("clip_by_global_norm", "the norm of the gradients is {}{}", norm, first);
  }
  if (norm > largest) gradients.scale(largest / norm);
  return norm;
}

std::string non_finite_gradient(const Parameters& parameters, const Gradients& gradients) {
  if (std::isfinite(gradients.global_norm())) return {};
  return first_non_finite("gradient", parameters, gradients, [](const Tensor& g) { return g; });
}

MovingAverage::MovingAverage(Parameters& parameters, double decay)
    : StepState(parameters, "MovingAverage", "average"), decay_(decay) {
  require(owner_, "decay", decay, "(0, 1)");
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

DivergenceMonitor::Step DivergenceMonitor::observe(double loss, const Parameters& parameters,
                                                   Gradients& gradients) {
  const double norm = gradients.global_norm();
  if (!std::isfinite(loss) || !std::isfinite(norm)) {
    ++skipped_, ++in_a_row_;
    if (std::isnan(loss)) loss = std::abs(loss);  // prints "nan", never "-nan"
    const std::string first = non_finite_gradient(parameters, gradients);
    return {false, fmt::format("the update is skipped: the loss is {:.4g}, the norm of the "
                               "gradients {:.4g}{}{}",
                               loss, norm, first.empty() ? "" : ": ", first)};
  }
  in_a_row_ = 0;
  if (first_loss_ == 0) first_loss_ = loss;
  above_ = first_loss_ > 0 && loss > factor * first_loss_ ? above_ + 1 : 0;
  if (above_ != patience) return {true, ""};
  return {true, fmt::format("training diverges: the loss, {:.4g}, has been more than {:g} times "
                            "the first step's, {:.4g}, for {} steps",
                            loss, factor, first_loss_, patience)};
}

void DivergenceMonitor::save(Metadata& metadata) const {
  metadata["divergence.first_loss"] = fmt::format("{}", first_loss_);
  metadata["divergence.above"] = fmt::format("{}", above_);
  metadata["divergence.skipped"] = fmt::format("{}", skipped_);
  metadata["divergence.in_a_row"] = fmt::format("{}", in_a_row_);
}

void DivergenceMonitor::load(const Metadata& metadata) {
  constexpr double most = std::numeric_limits<double>::max();
  DivergenceMonitor read;
  read.first_loss_ = load_number(metadata, "divergence.first_loss", -most, most);
  read.above_ = load_count(metadata, "divergence.above");
  read.skipped_ = load_count(metadata, "divergence.skipped");
  read.in_a_row_ = load_count(metadata, "divergence.in_a_row");
  *this = read;
}

// Schedules

double ConstantRate::operator()(std::int64_t step) const {
  require("ConstantRate", "rate", rate, "(0, inf)");
  require("ConstantRate", "step", step, "[0, inf)");
  return rate;
}

double InverseSquareRoot::operator()(std::int64_t step) const {
  require("InverseSquareRoot", "rate", rate, "(0, inf)");
  require("InverseSquareRoot", "warm_up", warm_up, "[1, inf)");
  require("InverseSquareRoot", "step", step, "[0, inf)");
  return step < warm_up ? rate * ratio(step + 1, warm_up)
                        : rate * std::sqrt(ratio(warm_up, step + 1));
}

double LinearDecay::operator()(std::int64_t step) const {
  require("LinearDecay", "rate", rate, "(0, inf)");
  require("LinearDecay", "last", last, "[0, inf)");
  require("LinearDecay", "after", after, "[0, inf)");
  require("LinearDecay", "step", step, "[0, inf)");
  if (steps <= after) fail("LinearDecay", "steps = {} is not in (after, inf)", steps);
  if (step <= after) return rate;
  return step < steps ? rate + (last - rate) * ratio(step - after, steps - after) : last;
}

double WarmUp::operator()(std::int64_t step) const {
  require("WarmUp", "steps", steps, "[1, inf)");
  require("WarmUp", "step", step, "[0, inf)");
  if (!next) fail("WarmUp", "the schedule `next` is empty");
  return (step < steps ? ratio(step + 1, steps) : 1) * next(step);
}

HalveOnPlateau::HalveOnPlateau(const HalveOnPlateauOptions& options)
    : options_(options),
      rate_(options.rate),
      best_(options.higher_is_better ? -std::numeric_limits<double>::infinity()
                                     : std::numeric_limits<double>::infinity()) {
  const char* const name = "HalveOnPlateau";
  require(name, "rate", options.rate, "(0, inf)");
  require(name, "factor", options.factor, "(0, 1)");
  require(name, "patience", options.patience, "[0, inf)");
  if (!(options.minimum >= 0 && options.minimum <= options.rate))
    fail(name, "minimum = {} is not in [0, rate]", options.minimum);
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

void HalveOnPlateau::save(Metadata& metadata) const {
  // fmt writes the shortest text that reads back as the same number.
  metadata["plateau.rate"] = fmt::format("{}", rate_);
  metadata["plateau.best"] = fmt::format("{}", best_);
  metadata["plateau.waited"] = fmt::format("{}", waited_);
}

void HalveOnPlateau::load(const Metadata& metadata) {
  using Limits = std::numeric_limits<double>;
  HalveOnPlateau read = *this;
  read.rate_ = load_number(metadata, "plateau.rate", Limits::denorm_min(), Limits::max());
  read.best_ = load_number(metadata, "plateau.best", -Limits::infinity(), Limits::infinity());
  read.waited_ = load_count(metadata, "plateau.waited");
  *this = read;
}

}  // namespace attune::nn
