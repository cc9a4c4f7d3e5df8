#include <cmath>

#include <attune/models/ensemble.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune::models {
namespace {

class Ensemble final : public detail::ModelBase {
  struct Sources {
    std::vector<Source> of;
    Mask mask;
  };
  using States = std::vector<State>;

  /// log 1/N Σ_n softmax(logits_n): (..., V)
  static Var log_mean(const std::vector<Var>& logits) {
    ShapeCheck check("Ensemble");
    std::vector<Var> log_p;
    for (const Var& own : logits) {
      check(log_p.empty() ? "the first model's logits" : "another's", own.shape(), "... V");
      log_p.push_back(log_softmax(own, -1));
    }
    return log_sum_exp(stack(log_p), {0}) - std::log(static_cast<double>(logits.size()));
  }

 public:
  explicit Ensemble(std::vector<Model> models) : models_(std::move(models)) {}

  Source encode(const Tensor& source, const Mask& mask) const override {
    Sources sources{{}, mask};
    for (const Model& model : models_) sources.of.push_back(model.encode(source, mask));
    return sources;
  }
  State start(const Source& source) const override {
    States states;
    for (std::size_t n = 0; n < models_.size(); ++n)
      states.push_back(models_[n].start(source.as<Sources>().of[n]));
    return State(std::move(states));
  }
  State select(const State& state, const Tensor& rows) const override {
    States selected;
    for (std::size_t n = 0; n < models_.size(); ++n)
      selected.push_back(models_[n].select(state.as<States>()[n], rows));
    return State(std::move(selected));
  }

  Step step(const Tensor& previous, const State& state, OutputSubsets* subsets) const override {
    States states;
    std::vector<Var> logits, weights;
    for (std::size_t n = 0; n < models_.size(); ++n) {
      Step step = models_[n].step(previous, state.as<States>()[n], subsets);
      logits.push_back(std::move(step.logits));
      if (step.weights.defined()) weights.push_back(std::move(step.weights));
      states.push_back(std::move(step.state));
    }
    return {log_mean(logits), weights.empty() ? Var() : mean(stack(weights), {0}),
            State(std::move(states))};
  }

  Steps unroll(const Source& source, const Tensor& previous, const Mask& mask,
               bool weights) const override {
    std::vector<Var> logits;
    std::vector<std::vector<Var>> weights_of_step(static_cast<std::size_t>(previous.dim(0)));
    for (std::size_t n = 0; n < models_.size(); ++n) {
      Steps own = models_[n].unroll(source.as<Sources>().of[n], previous, mask, weights);
      logits.emplace_back(own.logits);
      for (std::size_t t = 0; t < own.weights.size(); ++t)
        weights_of_step[t].push_back(own.weights[t]);
    }
    Steps all{{log_mean(logits)}, {}};
    for (const std::vector<Var>& step : weights_of_step)
      if (!step.empty()) all.weights.push_back(mean(stack(step), {0}));
    return all;
  }

 private:
  std::vector<Model> models_;
};

}  // namespace

Model ensemble_of(std::vector<Model> models) {
  if (models.empty()) fail("Ensemble", "there is no model");
  if (models.size() == 1) return models.front();
  Model all;
  all.of_ = std::make_shared<const Ensemble>(std::move(models));
  return all;
}

}  // namespace attune::models
