#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/models/any_model.hpp>
#include <attune/nn/attention.hpp>
#include <attune/tensor/check.hpp>

namespace attune::models {
namespace {

using Field = OptionField<AnyModelOptions>;
using Fields = std::vector<Field>;

/// An option of a model's own struct, as one of AnyModelOptions.
template <class Own>
Field lifted(const OptionField<Own>& own) {
  Field field{.name = own.name, .help = own.help, .choices = own.choices, .type = own.type};
  field.get = [own](const AnyModelOptions& o) { return own.get(std::get<Own>(o.own)); };
  field.set = [own](AnyModelOptions& o, const std::string& text) {
    own.set(std::get<Own>(o.own), text);
  };
  field.is_flag = own.is_flag, field.needs = own.needs;
  if (own.has_effect)
    field.has_effect = [own](const AnyModelOptions& o) {
      return own.has_effect(std::get<Own>(o.own));
    };
  return field;
}

constexpr double largest = 1 << 16, deepest = 64;

/// What a paper's model has options for, in the order of Seq2SeqOptions.
template <class Own>
std::vector<OptionField<Own>> paper_fields() {
  std::vector<OptionField<Own>> all;
  const auto number = [&](const char* name, const char* help, auto member, double low,
                          double high) {
    all.push_back(number_field<Own>(name, help, member, low, high));
  };
  number("embedding", "size E of a word's vector", &Own::embedding, 1, largest);
  number("hidden", "size H of states", &Own::hidden, 1, largest);
  if constexpr (requires(Own o) { o.layers; })
    number("layers", "layers of encoder and decoder", &Own::layers, 1, deepest);
  all.push_back(cell_field<Own>("cell", "cell of encoder and decoder", &Own::cell));
  if constexpr (requires(Own o) { o.score; }) {
    for (auto& field : attention_fields<Own>()) all.push_back(std::move(field));
  } else if constexpr (requires(Own o) { o.attention; }) {
    number("attention", "size A of the additive score", &Own::attention, 1, largest);
  }
  if constexpr (requires(Own o) { o.input_feeding; }) {
    all.push_back(choice_field<Own, bool>("input-feeding",
                                          "whether the decoder reads the readout before",
                                          &Own::input_feeding, {{false, "no"}, {true, "yes"}}));
  }
  if constexpr (requires(Own o) { o.readout; })
    number("readout", "size R of the layer before the softmax", &Own::readout, 1, largest);
  number("dropout", "rate on embeddings, annotations and readouts, and between layers",
         &Own::dropout, 0, 0.99);
  return all;
}

std::vector<OptionField<TransformerOptions>> transformer_fields() {
  using O = TransformerOptions;
  using Layer = nn::TransformerLayerOptions;
  const auto number = [](const char* name, const char* help, auto member, double low, double high) {
    return number_field<O>(name, help, member, low, high);
  };
  const auto of_layer = [](auto member) {
    return [member](O & o) -> auto& { return o.layer.*member; };
  };
  return {
      number("hidden", "size D of word vectors and states", of_layer(&Layer::size), 1, largest),
      number("attention-heads", "heads of every attention", of_layer(&Layer::heads), 1, largest),
      number("inner", "size of the feed-forward blocks", of_layer(&Layer::inner), 1, largest),
      number("encoder-layers", "layers of the encoder", &O::encoder_layers, 1, deepest),
      number("decoder-layers", "layers of the decoder", &O::decoder_layers, 1, deepest),
      choice_field<O, nn::Nonlinearity>(
          "nonlinearity", "of the feed-forward blocks", of_layer(&Layer::nonlinearity),
          {{nn::Nonlinearity::relu, "relu"}, {nn::Nonlinearity::gelu, "gelu"}}),
      choice_field<O, nn::Norm>("norm", "whether a layer normalises before or after its parts",
                                of_layer(&Layer::norm),
                                {{nn::Norm::before, "before"}, {nn::Norm::after, "after"}}),
      tied_field<O>(),
      number("alignment-layer",
             "decoder layer whose attention is the alignment; 0: the last but one",
             &O::alignment_layer, 0, deepest),
      number("dropout", "rate on word vectors and on what a layer adds", of_layer(&Layer::dropout),
             0, 0.99),
      number("attention-dropout", "rate on attention weights; -1: as dropout",
             of_layer(&Layer::attention_dropout), -1, 0.99),
      number("inner-dropout", "rate within the feed-forward blocks; -1: as dropout",
             of_layer(&Layer::inner_dropout), -1, 0.99)};
}

struct Kind : ModelKind {
  AnyModelOptions defaults;
  Fields fields;
  AnyModel (*make)(const nn::Scope& scope, const AnyModelOptions& options);
};

template <class M>
Kind kind(const char* name, const char* what) {
  using Own = typename M::Options;
  const AnyModelOptions defaults{.name = name, .own = Own()};
  Fields fields;
  if constexpr (std::is_same_v<M, Seq2Seq>) {
    for (const auto& field : seq2seq_fields()) fields.push_back(lifted(field));
  } else if constexpr (std::is_same_v<M, Transformer>) {
    for (const auto& field : transformer_fields()) fields.push_back(lifted(field));
  } else {
    for (const auto& field : paper_fields<Own>()) fields.push_back(lifted(field));
  }
  if (attends(defaults)) {
    fields.push_back(number_field<AnyModelOptions>("coverage-loss",
                                                   "weight of the loss for attending twice",
                                                   &AnyModelOptions::coverage_loss, 0, 1e6));
  }
  fields.push_back(number_field<AnyModelOptions>(
      "label-smoothing", "share of the target probability spread over all words",
      &AnyModelOptions::label_smoothing, 0, 0.99));
  return {{name, what}, defaults, fields, [](const nn::Scope& scope, const AnyModelOptions& o) {
            return AnyModel(M(scope, std::get<Own>(o.own)));
          }};
}

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      kind<Bahdanau>("bahdanau", "attends before the cell, additive (Bahdanau et al., 2014)"),
      kind<Nematus>("nematus", "attends between two GRU cells, additive (Sennrich et al., 2017)"),
      kind<Luong>("luong", "attends after the cell, any score and window (Luong et al., 2015)"),
      kind<EncoderDecoder>("encoder-decoder",
                           "no attention: final encoder state at every step (Cho et al., 2014)"),
      kind<Sutskever>("sutskever",
                      "no attention: final state of the reversed source (Sutskever et al., 2014)"),
      kind<Transformer>("transformer", "self-attention in place of cells (Vaswani et al., 2017)"),
      kind<Seq2Seq>("seq2seq", "every wiring is an option")};
  return all;
}

const Kind& kind_of(std::string_view name) {
  std::vector<const char*> names;
  for (const Kind& one : kinds()) {
    if (name == one.name) return one;
    names.push_back(one.name);
  }
  fail("model", fmt::format("{} is not one of {}", in_quotes(name), fmt::join(names, ", ")));
}

const Field* find(std::span<const Field> fields, std::string_view name) {
  const auto at = std::ranges::find(fields, name, &Field::name);
  return at == fields.end() ? nullptr : &*at;
}

/// The option of whatever model the options are of.
const Field& field_of(const AnyModelOptions& options, const std::string& name) {
  if (const Field* field = find(kind_of(options.name).fields, name)) return *field;
  std::vector<const char*> having;
  for (const Kind& other : kinds())
    if (find(other.fields, name)) having.push_back(other.name);
  fail(name, having.empty() ? fmt::format("there is no such option of the model {}", options.name)
                            : fmt::format("the model {} has no such option, only {}", options.name,
                                          fmt::join(having, ", ")));
}

}  // namespace

std::span<const ModelKind> model_kinds() {
  static const std::vector<ModelKind> all(kinds().begin(), kinds().end());
  return all;
}

AnyModelOptions model_options(std::string_view name,
                              std::initializer_list<std::pair<const char*, const char*>> values) {
  const Kind& kind = kind_of(name);
  AnyModelOptions options = kind.defaults;
  for (const auto& [option, value] : values)
    if (const Field* field = find(kind.fields, option)) field->set(options, value);
  return options;
}

std::span<const Field> all_model_fields() {
  static const Fields all = [] {
    Fields fields;
    for (const Kind& kind : kinds()) {
      for (const Field& own : kind.fields) {
        const auto at = std::ranges::find(fields, own.name, &Field::name);
        (at == fields.end() ? fields.emplace_back() : *at) = own;
      }
    }
    for (Field& field : fields) {
      std::vector<const char*> names;
      for (const Kind& kind : kinds())
        if (find(kind.fields, field.name)) names.push_back(kind.name);
      const std::string name = field.name;
      field.get = [name](const AnyModelOptions& o) {
        const Field* own = find(kind_of(o.name).fields, name);
        return own ? own->get(o) : "";
      };
      field.set = [name](AnyModelOptions& o, const std::string& t) { field_of(o, name).set(o, t); };
      field.has_effect = [name](const AnyModelOptions& o) {
        const Field* own = find(kind_of(o.name).fields, name);
        return own && (!own->has_effect || own->has_effect(o));
      };
      if (names.size() == kinds().size()) continue;
      field.needs += fmt::format("{}the model {}", field.needs.empty() ? "" : " of ",
                                 fmt::join(names, " or "));
    }
    return fields;
  }();
  return all;
}

void set(AnyModelOptions& options, const std::string& name, const std::string& value) {
  field_of(options, name).set(options, value);
}

std::map<std::string, std::string> to_map(const AnyModelOptions& options) {
  auto map = fields_to_map<AnyModelOptions>(kind_of(options.name).fields, options);
  map["model"] = options.name;
  return map;
}

AnyModelOptions model_options_from(const std::map<std::string, std::string>& map) {
  const auto name = map.find("model");
  if (name == map.end()) fail("options", "there is no 'model'");
  AnyModelOptions options = model_options(name->second);
  set_fields_from<AnyModelOptions>(kind_of(options.name).fields, options, map);
  return options;
}

bool attends(const AnyModelOptions& options) {
  if (const auto* own = std::get_if<Seq2SeqOptions>(&options.own)) return attends(*own);
  return std::holds_alternative<BahdanauOptions>(options.own) ||
         std::holds_alternative<LuongOptions>(options.own) ||
         std::holds_alternative<TransformerOptions>(options.own);
}

Index longest_source(const AnyModelOptions& options) {
  return std::visit(
      [&](const auto& own) -> Index {
        if constexpr (requires { own.score; }) {
          if (own.score.kind == "location" && attends(options)) return own.score.longest;
        }
        return 0;
      },
      options.own);
}

AnyModel::AnyModel(const nn::Scope& scope, const AnyModelOptions& options,
                   const Vocabularies& sizes)
    : options_(options) {
  const Kind& kind = kind_of(options.name);
  if (options.own.index() != kind.defaults.own.index())
    fail("AnyModel", fmt::format("the options are not those of the model {}", options.name));
  if (options.coverage_loss > 0 && !attends(options))
    fail("AnyModel", "coverage is of attention, and this model has none");
  std::visit(
      [&](auto& own) {
        own.source_vocabulary = sizes.source, own.target_vocabulary = sizes.target;
      },
      options_.own);
  model_ = kind.make(scope, options_).model_;
}

Var AnyModel::loss(const text::Batch& batch, const Guide& guide) const {
  const auto [name, own, label_smoothing, coverage] = options_;
  if (nn::Training::random())
    return model_->loss(batch,
                        {.label_smoothing = label_smoothing, .coverage = coverage, .guide = guide});
  const Var loss = model_->loss(batch, {.guide = guide});
  const bool regularised = label_smoothing > 0 || coverage > 0;
  return regularised ? nn::outside_of_training(loss, "label smoothing or coverage loss") : loss;
}

Var loss(const AnyModel& model, const text::Batch& batch, const LossOptions& options) {
  return model.model_->loss(batch, options);
}

namespace {

/// A WordModel that averages the models' probabilities of each word, and their weights.
class Ensemble {
 public:
  struct Encoded {
    std::vector<AnyModel::Encoded> of;  // of each model, as all vectors here
    Tensor mask;                        // (S, B)
  };
  struct Words {
    std::vector<AnyModel::Words> of;
    Words operator[](Index t) const {
      Words step;
      for (const AnyModel::Words& words : of) step.of.push_back(words[t]);
      return step;
    }
  };
  using State = std::vector<AnyModel::State>;
  using Output = std::vector<AnyModel::Output>;
  using Step = DecoderStep<Output, State>;

  explicit Ensemble(std::vector<AnyModel> models) : models_(std::move(models)) {
    if (models_.empty()) fail("Ensemble", "there is no model");
  }

  Encoded encode(const Tensor& source, const Tensor& mask) const {
    return {of_each([&](std::size_t n) { return models_[n].encode(source, mask); }), mask};
  }
  State start(const Encoded& encoded) const {
    return of_each([&](std::size_t n) { return models_[n].start(encoded.of[n]); });
  }
  Words read(const Tensor& previous) const {
    return {of_each([&](std::size_t n) { return models_[n].read(previous); })};
  }
  State select(const State& state, const Tensor& rows) const {
    return of_each([&](std::size_t n) { return models_[n].select(state[n], rows); });
  }

  Step step(const Words& words, const State& state) const {
    Step all;
    std::vector<Var> weights;
    for (std::size_t n = 0; n < models_.size(); ++n) {
      AnyModel::Step step = models_[n].step(words.of[n], state[n]);
      if (step.weights.defined()) weights.push_back(nn::mean_of_heads(step.weights));
      all.output.push_back(std::move(step.output));
      all.state.push_back(std::move(step.state));
    }
    if (!weights.empty()) all.weights = mean(stack(weights), {0});
    return all;
  }

  /// log p (T, B, V)
  Var logits(const Words& words, const std::vector<Output>& outputs) const {
    ShapeCheck check("Ensemble");
    std::vector<Var> probabilities;
    for (std::size_t n = 0; n < models_.size(); ++n) {
      std::vector<AnyModel::Output> own;
      for (const Output& output : outputs) own.push_back(output[n]);
      probabilities.push_back(softmax(models_[n].logits(words.of[n], own), -1));
      check(n == 0 ? "the first model's probabilities" : "another's", probabilities[n].shape(),
            "T B V");
    }
    return log(mean(stack(probabilities), {0}));
  }

 private:
  template <class F>
  std::vector<std::invoke_result_t<F, std::size_t>> of_each(F f) const {
    std::vector<std::invoke_result_t<F, std::size_t>> all;
    for (std::size_t n = 0; n < models_.size(); ++n) all.push_back(f(n));
    return all;
  }

  std::vector<AnyModel> models_;
};

}  // namespace

AnyModel ensemble_of(std::vector<AnyModel> models) {
  return models.size() == 1 ? models.front() : AnyModel(Ensemble(std::move(models)));
}

}  // namespace attune::models
