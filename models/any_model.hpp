// One type for all models, constructed by the model's name.
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

/// The name of a model, its options, and the options of its loss in training mode.
struct AnyModelOptions {
  std::string name = "bahdanau";  // one of model_kinds()
  /// Options of that model (for Nematus BahdanauOptions), as returned by model_options().
  std::variant<BahdanauOptions, LuongOptions, EncoderDecoderOptions, SutskeverOptions,
               TransformerOptions>
      own = BahdanauOptions{};
  double label_smoothing = 0;  // ε, in training mode
  double coverage_loss = 0;    // λ of See et al. (2017), equation 13, in training mode
};

/// A model that can be constructed by name.
struct ModelKind {
  const char* name;
  const char* what;  // one-line description, for --help
  bool attends;      // whether the model has attention
  AnyModelOptions defaults;
  class AnyModel (*make)(const nn::Scope& scope, const AnyModelOptions& options);
};

/// bahdanau, nematus, luong, encoder-decoder, sutskever and transformer.
std::span<const ModelKind> model_kinds();
/// Throws if model_kinds() has no such name.
const ModelKind& model_kind(std::string_view name);
inline AnyModelOptions model_options(std::string_view name) { return model_kind(name).defaults; }

/// All options except the name and the vocabulary sizes.
OptionList options_of(AnyModelOptions& options);

/// Throws if only other models have an option of that name; the message lists these models.
void check_option(const AnyModelOptions& options, const std::string& name);

/// Sets an option by name. Throws if the model has no such option, or if the value is invalid.
void set(AnyModelOptions& options, const std::string& name, const std::string& value);

/// Maximum source length that the model's score function accepts; 0 means no limit.
Index longest_source(const AnyModelOptions& options);

struct Vocabularies {
  Index source, target;
};

/// A value of a type that depends on the model, such as its decoder state.
using ModelValue = std::any;

/// The value as a T. Throws if it has another type, as the value of another model has.
template <class T>
const T& as(const ModelValue& value) {
  const T* const own = std::any_cast<T>(&value);
  if (!own) fail("AnyModel", "the encoded source or decoder state is one of another type of model");
  return *own;
}

/// Type-erased sequence-to-sequence model: a model constructed by name, or any WordModel. AnyModel
/// satisfies WordModel itself. Copies share the model.
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
  using Output = ModelValue;  // of one step, or of all steps
  using Step = DecoderStep<Output, State>;
  using Steps = DecoderSteps<Words, Output>;

  /// Constructs the model options.name; its parameters are added to `scope`. Throws if
  /// options.own is of another model, and as the model's constructor does.
  AnyModel(const nn::Scope& scope, const AnyModelOptions& options, const Vocabularies& sizes);

  template <WordModel M>
  explicit AnyModel(M model);

  // The functions of a WordModel; each calls the wrapped model.
  std::function<Encoded(const Tensor& source, const Mask& mask)> encode;  // (S, B) i32, (S, B)
  std::function<State(const Encoded& encoded)> start;
  std::function<Words(const Tensor& previous)> read;
  std::function<Step(const Words& words, const State& state)> step;
  std::function<Steps(const Encoded& encoded, const Tensor& previous, const Mask& mask,
                      bool weights)>
      unroll;
  std::function<AffineLogits(const Words& words, const std::vector<Output>& outputs)> logits;
  std::function<State(const State& state, const Tensor& rows)> select;

  /// models::loss; in training mode with the label smoothing and the coverage loss of options().
  Var loss(const text::Batch& batch, const Guide& guide = {}) const;

  /// The options passed to the constructor; the name is empty if it wraps a given WordModel.
  const AnyModelOptions& options() const { return options_; }

 private:
  AnyModelOptions options_ = {.name = ""};
};

/// Ensemble of N models: averages their token probabilities,
///     p(y_t) = 1/N Σ_n p_n(y_t),
/// and the attention weights of the models with attention. Returns the model itself if N = 1.
/// Throws if there is no model; decoding throws if the vocabulary sizes differ.
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
