// One type for all models, which programs make by name.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <typeinfo>
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
};

/// bahdanau, nematus, luong, encoder-decoder, sutskever and transformer.
std::span<const ModelKind> model_kinds();
/// Throws on a name that is none of them.
const ModelKind& model_kind(std::string_view name);

/// The defaults of a model.
AnyModelOptions model_options(std::string_view name);

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

/// A value whose type only its model knows. Copies share it.
class OfModel {
 public:
  OfModel() = default;
  template <class T>
  OfModel(std::shared_ptr<const T> value) : value_(std::move(value)), type_(&typeid(T)) {}

  /// Throws on another type.
  template <class T>
  const T& as() const {
    if (!type_ || *type_ != typeid(T)) fail("AnyModel", "a value of another model");
    return *static_cast<const T*>(value_.get());
  }

 private:
  std::shared_ptr<const void> value_;
  const std::type_info* type_ = nullptr;
};

/// Any model from words to words: one made by name, or a WordModel of your own. It is a WordModel
/// itself. Copies share the model.
class AnyModel {
 public:
  struct Encoded {
    Mask mask;  // (S, B)
    OfModel value;
  };
  struct Words {
    OfModel all;
    Index t = 0;
    Words operator[](Index step) const { return {all, step}; }
  };
  using State = OfModel;
  using Output = OfModel;
  using Step = DecoderStep<Output, State>;

  /// Its parameters are those of the named model. Throws where options and name do not match, and
  /// as the model's constructor does.
  AnyModel(const nn::Scope& scope, const AnyModelOptions& options, const Vocabularies& sizes);

  template <WordModel M>
  explicit AnyModel(M model) : model_(std::make_shared<const Of<M>>(std::move(model))) {}

  /// source (S, B) i32, mask (S, B)
  Encoded encode(const Tensor& source, const Mask& mask) const {
    return model_->encode(source, mask);
  }
  State start(const Encoded& encoded) const { return model_->start(encoded); }
  Words read(const Tensor& previous) const { return model_->read(previous); }
  Step step(const Words& words, const State& state) const { return model_->step(words, state); }
  Var logits(const Words& words, const std::vector<Output>& outputs) const {
    return model_->logits(words, outputs);
  }
  State select(const State& state, const Tensor& rows) const { return model_->select(state, rows); }

  /// models::loss, in training with the label smoothing and the coverage loss of the options.
  Var loss(const text::Batch& batch, const Guide& guide = {}) const;
  friend Var loss(const AnyModel& model, const text::Batch& batch, const LossOptions& options);

  /// The options that it was made with; for a WordModel of your own the name is empty.
  const AnyModelOptions& options() const { return options_; }

 private:
  struct Interface {
    virtual ~Interface() = default;
    virtual Encoded encode(const Tensor& source, const Mask& mask) const = 0;
    virtual State start(const Encoded& encoded) const = 0;
    virtual Words read(const Tensor& previous) const = 0;
    virtual Step step(const Words& words, const State& state) const = 0;
    virtual Var logits(const Words& words, const std::vector<Output>& outputs) const = 0;
    virtual State select(const State& state, const Tensor& rows) const = 0;
    virtual Var loss(const text::Batch& batch, const LossOptions& options) const = 0;
  };
  template <class M>
  struct Of;

  std::shared_ptr<const Interface> model_;
  AnyModelOptions options_ = {.name = ""};
};

/// models::loss of the model inside, which may fuse that model's output layer with the loss.
Var loss(const AnyModel& model, const text::Batch& batch, const LossOptions& options = {});

/// One model, or the ensemble of several, which averages their probabilities of each word and their
/// attention weights, leaving out models without attention:
///     p(y_t) = 1/N Σ_n p_n(y_t)
/// Throws when there is none, and in use where the vocabularies differ in size.
AnyModel ensemble_of(std::vector<AnyModel> models);

/// One allocation for each step: output and state share it.
template <class M>
struct AnyModel::Of : Interface {
  using Source = decltype(std::declval<const M&>().encode(Tensor(), Mask()));
  using OwnWords = decltype(std::declval<const M&>().read(Tensor()));
  using OwnState = typename M::State;
  using OwnOutput = typename M::Output;
  struct Both {
    OwnOutput output;
    OwnState state;
  };

  explicit Of(M made) : model(std::move(made)) {}

  template <class T>
  static OfModel value_of(T value) {
    return std::make_shared<const T>(std::move(value));
  }

  Encoded encode(const Tensor& source, const Mask& mask) const override {
    return {mask, value_of<Source>(model.encode(source, mask))};
  }
  State start(const Encoded& encoded) const override {
    return value_of<OwnState>(model.start(encoded.value.as<Source>()));
  }
  Words read(const Tensor& previous) const override {
    return {value_of<OwnWords>(model.read(previous))};
  }
  Step step(const Words& words, const State& state) const override {
    auto step = model.step(words.all.as<OwnWords>()[words.t], state.as<OwnState>());
    auto both = std::make_shared<const Both>(Both{std::move(step.output), std::move(step.state)});
    return {std::shared_ptr<const OwnOutput>(both, &both->output), step.weights,
            std::shared_ptr<const OwnState>(both, &both->state)};
  }
  Var logits(const Words& words, const std::vector<Output>& outputs) const override {
    std::vector<OwnOutput> own;
    own.reserve(outputs.size());
    for (const Output& output : outputs) own.push_back(output.as<OwnOutput>());
    return model.logits(words.all.as<OwnWords>(), own);
  }
  State select(const State& state, const Tensor& rows) const override {
    return value_of<OwnState>(model.select(state.as<OwnState>(), rows));
  }
  Var loss(const text::Batch& batch, const LossOptions& options) const override {
    return models::loss(model, batch, options);
  }

  M model;
};

}  // namespace attune::models
