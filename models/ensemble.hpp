// Several models that write one sentence together.
#pragma once

#include <attune/autograd/ops.hpp>
#include <attune/models/decoding.hpp>
#include <attune/tensor/check.hpp>

namespace attune::models {

/// What the models make of each word is averaged, the probabilities as the weights of attention:
///     p(y_t) = 1/N Σ_n p_n(y_t)
/// Anything that takes a Decoder takes an ensemble: its readouts are the mean probabilities, and
/// its logits their logarithms. The models must have the same vocabularies; with M = Seq2Seq they
/// may be of any wirings and sizes. Models without attention do not count for the weights. Keeps
/// pointers to the models.
template <Decoder M>
class Ensemble {
 public:
  using ModelState = decltype(std::declval<const M&>().start(Tensor(), Tensor()));
  using State = std::vector<ModelState>;
  struct Step {
    Var readout;  // (B, V): mean probabilities
    Var weights;  // (S, B); undefined without attention
    State state;
  };

  /// Throws when there are no models.
  explicit Ensemble(std::vector<const M*> models) : models_(std::move(models)) {
    if (models_.empty()) fail("Ensemble", "there is no model");
  }

  State start(const Tensor& source, const Tensor& mask) const {
    State states;
    for (const M* model : models_) states.push_back(model->start(source, mask));
    return states;
  }

  /// Throws when the models' vocabularies differ in size.
  Step step(const Tensor& previous, const State& state) const {
    std::vector<Var> probabilities, weights;
    State next;
    for (std::size_t n = 0; n < models_.size(); ++n) {
      auto step = models_[n]->step(previous, state[n]);
      probabilities.push_back(softmax(models_[n]->logits(step.readout), -1));
      ShapeCheck check("Ensemble");
      check("the first model's probabilities", probabilities[0].shape(), "B V");
      check("another's", probabilities[n].shape(), "B V");
      const Var w = step.weights;
      if (w.defined()) weights.push_back(w.rank() == 3 ? mean(w, {0}) : w);
      next.push_back(std::move(step.state));
    }
    return {mean(stack(probabilities), {0}), weights.empty() ? Var() : mean(stack(weights), {0}),
            std::move(next)};
  }

  /// (..., V) -> (..., V)
  Var logits(const Var& readout) const { return log(readout); }

  State select(const State& state, const Tensor& rows) const {
    State selected;
    for (std::size_t n = 0; n < models_.size(); ++n)
      selected.push_back(models_[n]->select(state[n], rows));
    return selected;
  }

 private:
  std::vector<const M*> models_;
};

}  // namespace attune::models
