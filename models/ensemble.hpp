// Several models that write one sentence together.
#pragma once

#include <attune/autograd/ops.hpp>
#include <attune/models/decoder.hpp>
#include <attune/nn/attention.hpp>
#include <attune/tensor/check.hpp>

namespace attune::models {

/// Averages the models' probabilities of each word, and their attention weights:
///     p(y_t) = 1/N Σ_n p_n(y_t)
/// An Ensemble is a WordModel, too. The models must have the same vocabularies; with M = Seq2Seq
/// they may differ in wiring and size. Models without attention are left out of the mean weights.
/// Keeps pointers to the models.
template <WordModel M>
class Ensemble {
 public:
  struct Encoded {
    std::vector<decltype(std::declval<const M&>().encode(Tensor(), Tensor()))> of;
    Tensor mask;  // (S, B)
  };
  struct Words {
    std::vector<decltype(std::declval<const M&>().read(Tensor()))> of;
    auto operator[](Index t) const {
      std::vector<std::decay_t<decltype(of[0][t])>> step;
      for (const auto& words : of) step.push_back(words[t]);
      return step;
    }
  };
  using State = std::vector<typename M::State>;    // of each model
  using Output = std::vector<typename M::Output>;  // of each model
  using Step = DecoderStep<Output, State>;

  /// Throws when there are no models.
  explicit Ensemble(std::vector<const M*> models) : models_(std::move(models)) {
    if (models_.empty()) fail("Ensemble", "there is no model");
    for (const M* model : models_)
      if (!model) fail("Ensemble", "a model is null");
  }

  Encoded encode(const Tensor& source, const Tensor& mask) const {
    Encoded encoded{.of = {}, .mask = mask};
    for (const M* model : models_) encoded.of.push_back(model->encode(source, mask));
    return encoded;
  }

  State start(const Encoded& encoded) const {
    State states;
    for (std::size_t n = 0; n < models_.size(); ++n)
      states.push_back(models_[n]->start(encoded.of[n]));
    return states;
  }

  Words read(const Tensor& previous) const {
    Words words;
    for (const M* model : models_) words.of.push_back(model->read(previous));
    return words;
  }

  Step step(const decltype(Words()[0])& words, const State& state) const {
    Step all;
    std::vector<Var> weights;
    for (std::size_t n = 0; n < models_.size(); ++n) {
      auto step = models_[n]->step(words[n], state[n]);
      const Var w = step.weights;
      if (w.defined()) weights.push_back(nn::mean_of_heads(w));
      all.output.push_back(std::move(step.output));
      all.state.push_back(std::move(step.state));
    }
    if (!weights.empty()) all.weights = mean(stack(weights), {0});
    return all;
  }

  /// log p (T, B, V). Throws when the models' vocabularies differ in size.
  Var logits(const Words& words, const std::vector<Output>& outputs) const {
    std::vector<Var> probabilities;
    for (std::size_t n = 0; n < models_.size(); ++n) {
      std::vector<typename M::Output> own;
      for (const Output& output : outputs) own.push_back(output[n]);
      probabilities.push_back(softmax(models_[n]->logits(words.of[n], own), -1));
      ShapeCheck check("Ensemble");
      check("the first model's probabilities", probabilities[0].shape(), "T B V");
      check("another's", probabilities[n].shape(), "T B V");
    }
    return log(mean(stack(probabilities), {0}));
  }

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
