// One type for all models, which programs make by name.
#pragma once

#include <algorithm>
#include <any>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <attune/models/options.hpp>
#include <attune/models/papers.hpp>
#include <attune/models/search.hpp>
#include <attune/models/transformer.hpp>
#include <attune/models/unroll.hpp>

namespace attune::models {

/// A model's name, its own options, and those of its loss in training.
struct AnyModelOptions {
  std::string name = "bahdanau";  // one of model_kinds()
  /// Of the named model; Nematus has Bahdanau's. model_options() makes them match.
  std::variant<BahdanauOptions, LuongOptions, EncoderDecoderOptions, SutskeverOptions,
               TransformerOptions>
      own = BahdanauOptions{};
  double label_smoothing = 0;  // ε, in training
  double coverage_loss = 0;    // λ, See et al. (2017), equation 13; in training, with attention
};

/// A model that can be made by name.
struct ModelKind {
  const char* name;
  const char* what;  // in a line, for --help
  bool attends;
  AnyModelOptions defaults;
  class AnyModel (*make)(const nn::Scope& scope, const AnyModelOptions& options);
};

/// bahdanau, nematus, luong, encoder-decoder, sutskever and transformer.
std::span<const ModelKind> model_kinds();
/// Throws on a name that is none of them.
const ModelKind& model_kind(std::string_view name);
inline AnyModelOptions model_options(std::string_view name) { return model_kind(name).defaults; }

/// All but the name and the vocabularies.
OptionList options_of(AnyModelOptions& options);

/// Throws where the model has no option of that name, but others have, which the error names.
void check_option(const AnyModelOptions& options, const std::string& name);

/// Sets an option by name. Throws where the model has none of that name, as check_option does.
void set(AnyModelOptions& options, const std::string& name, const std::string& value);

/// The longest source that the model's score takes, or 0 for any.
Index longest_source(const AnyModelOptions& options);

struct Vocabularies {
  Index source, target;
};

/// A value whose type only its model knows.
using ModelValue = std::any;

/// The value. Throws on that of another model.
template <class T>
const T& as(const ModelValue& value) {
  const T* const own = std::any_cast<T>(&value);
  if (!own) fail("AnyModel", "a value of another model");
  return *own;
}

/// Any model from words to words: one made by name, or a WordModel of your own. It is a WordModel
/// itself. Copies share the model.
class AnyModel {
 public:
  struct Encoded {
    Mask mask;  // (S, B)
    ModelValue value;
  };
  struct Words {
    ModelValue all;
    Index t = 0;
    Words operator[](Index at) const { return {all, at}; }
  };
  using State = ModelValue;
  using Output = ModelValue;  // of one step, or of all of them
  using Step = DecoderStep<Output, State>;
  using Steps = DecoderSteps<Words, Output>;

  /// Its parameters are those of the named model. Throws where options and name do not match, and
  /// as the model's constructor does.
  AnyModel(const nn::Scope& scope, const AnyModelOptions& options, const Vocabularies& sizes);

  template <WordModel M>
  explicit AnyModel(M model);

  // The functions of a WordModel, by those of the model inside.
  std::function<Encoded(const Tensor& source, const Mask& mask)> encode;  // (S, B) i32, (S, B)
  std::function<State(const Encoded& encoded)> start;
  std::function<Words(const Tensor& previous)> read;
  std::function<Step(const Words& words, const State& state)> step;
  std::function<Steps(const Encoded& encoded, const Tensor& previous, const Mask& mask,
                      bool weights)>
      unroll;
  std::function<AffineLogits(const Words& words, const std::vector<Output>& outputs)> logits;
  std::function<State(const State& state, const Tensor& rows)> select;

  /// models::loss, in training with the label smoothing and the coverage loss of the options.
  Var loss(const text::Batch& batch, const Guide& guide = {}) const;

  /// The options that it was made with; for a WordModel of your own the name is empty.
  const AnyModelOptions& options() const { return options_; }

 private:
  AnyModelOptions options_ = {.name = ""};
};

/// One model, or the ensemble of several, which averages their probabilities of each word and their
/// attention weights, leaving out models without attention:
///     p(y_t) = 1/N Σ_n p_n(y_t)
/// Throws when there is none, and in use where the vocabularies differ in size.
AnyModel ensemble_of(std::vector<AnyModel> models);

template <WordModel M>
AnyModel::AnyModel(M made) {
  const auto model = std::make_shared<const M>(std::move(made));
  using OwnEncoded = decltype(model->encode(Tensor(), Mask()));
  using OwnWords = decltype(model->read(Tensor()));
  using OwnState = typename M::State;
  using OwnOutputs = std::vector<typename M::Output>;

  encode = [model](const Tensor& source, const Mask& mask) {
    return Encoded{mask, std::make_any<OwnEncoded>(model->encode(source, mask))};
  };
  start = [model](const Encoded& encoded) {
    return std::make_any<OwnState>(model->start(as<OwnEncoded>(encoded.value)));
  };
  read = [model](const Tensor& previous) {
    return Words{std::make_any<OwnWords>(model->read(previous))};
  };
  step = [model](const Words& words, const State& state) {
    auto own = model->step(as<OwnWords>(words.all)[words.t], as<OwnState>(state));
    OwnOutputs outputs;
    outputs.push_back(std::move(own.output));
    return Step{std::make_any<OwnOutputs>(std::move(outputs)), own.weights,
                std::make_any<OwnState>(std::move(own.state))};
  };
  unroll = [model](const Encoded& encoded, const Tensor& previous, const Mask& mask, bool weights) {
    auto own = models::unroll(*model, as<OwnEncoded>(encoded.value), previous, mask, weights);
    return Steps{{std::make_any<OwnWords>(std::move(own.words))},
                 {std::make_any<OwnOutputs>(std::move(own.outputs))},
                 std::move(own.weights)};
  };
  logits = [model](const Words& words, const std::vector<Output>& outputs) {
    OwnOutputs own;
    for (const Output& output : outputs)
      std::ranges::copy(as<OwnOutputs>(output), std::back_inserter(own));
    return AffineLogits{model->logits(as<OwnWords>(words.all), own)};
  };
  select = [model](const State& state, const Tensor& rows) {
    return std::make_any<OwnState>(model->select(as<OwnState>(state), rows));
  };
}

}  // namespace attune::models
