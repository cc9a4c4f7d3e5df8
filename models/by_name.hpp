// Models that are constructed by their name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <variant>

#include <attune/models/loss.hpp>
#include <attune/models/model.hpp>
#include <attune/models/options.hpp>
#include <attune/models/papers.hpp>
#include <attune/models/transformer.hpp>

namespace attune::models {

/// The name of a model, its options, and the options of its loss in training mode.
struct ModelOptions {
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
  ModelOptions defaults;
  Model (*make)(const nn::Scope& scope, const ModelOptions& options);
};

/// bahdanau, nematus, luong, encoder-decoder, sutskever and transformer.
std::span<const ModelKind> model_kinds();
/// Throws if model_kinds() has no such name, where "_" and "-" are equivalent.
const ModelKind& model_kind(std::string_view name);
ModelOptions model_options(std::string_view name);

/// All options of the model options.name except the vocabulary sizes.
OptionList fields_of(ModelOptions& options);
const OptionTable<ModelOptions>& options_of(const ModelOptions& options);

/// Sets an option by name. Throws if the model has no such option; if only other models have it, the
/// message lists these. Throws if the value is invalid.
void set(ModelOptions& options, const std::string& name, const std::string& value);
/// Throws if only other models have an option of that name; the message lists these models.
void check_option(const ModelOptions& options, const std::string& name);

/// Maximum source length that the model's score function accepts; 0 means no limit.
Index longest_source(const ModelOptions& options);

struct Vocabularies {
  Index source, target;
};

/// A model with the options that it was constructed with.
class NamedModel : public Model {
 public:
  /// Constructs the model options.name; its parameters are added to `scope`. Throws if
  /// options.own is of another model, and as the model's constructor does.
  NamedModel(const nn::Scope& scope, const ModelOptions& options, const Vocabularies& sizes);

  /// models::loss; in training mode with the label smoothing and the coverage loss of options().
  Var loss(const text::Batch& batch, const Guide& guide = {}) const;

  ModelOptions options() const;

 private:
  ModelOptions options_;
};

}  // namespace attune::models
