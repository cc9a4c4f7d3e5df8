#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/models/by_name.hpp>
#include <attune/tensor/fail.hpp>

namespace attune::models {
namespace {

template <class M>
ModelKind kind(const char* what) {
  using Own = typename M::Options;
  return {M::name,
          what,
          M::attends,
          {.name = M::name, .own = Own()},
          [](const nn::Scope& scope, const ModelOptions& o) -> Model {
            return M(scope, std::get<Own>(o.own));
          }};
}

}  // namespace

std::span<const ModelKind> model_kinds() {
  static const std::vector<ModelKind> all = {
      kind<Bahdanau>("attends before the cell (Bahdanau et al., 2014)"),
      kind<Nematus>("attends between two cells (Sennrich et al., 2017)"),
      kind<Luong>("attends after the cell (Luong et al., 2015)"),
      kind<EncoderDecoder>("no attention: final encoder state at every step (Cho et al., 2014)"),
      kind<Sutskever>("no attention: final state of the reversed source (Sutskever et al., 2014)"),
      kind<Transformer>("self-attention instead of recurrent cells (Vaswani et al., 2017)")};
  return all;
}

const ModelKind& model_kind(std::string_view name) {
  std::vector<const char*> names;
  for (const ModelKind& one : model_kinds()) {
    if (with_hyphens(std::string(name)) == one.name) return one;
    names.push_back(one.name);
  }
  fail("model", "{} is not one of {}", in_quotes(name), fmt::join(names, ", "));
}

ModelOptions model_options(std::string_view name) { return model_kind(name).defaults; }

OptionList fields_of(ModelOptions& o) {
  OptionList all = std::visit([](auto& own) { return fields_of(own); }, o.own);
  if (model_kind(o.name).attends)
    all.push_back(option("coverage-loss", "weight of the coverage loss", o.coverage_loss, 0, 1e6));
  all.push_back(option("label-smoothing",
                       "probability mass spread over all tokens that can be generated",
                       o.label_smoothing, 0, 0.99));
  return all;
}

const OptionTable<ModelOptions>& options_of(const ModelOptions& options) {
  static const auto tables = [] {
    std::map<std::string, OptionTable<ModelOptions>> all;
    for (const ModelKind& kind : model_kinds())
      all.emplace(kind.name, OptionTable<ModelOptions>(kind.defaults));
    return all;
  }();
  return tables.at(model_kind(options.name).name);
}

void check_option(const ModelOptions& options, const std::string& name) {
  if (find(options_of(options), name)) return;
  std::vector<const char*> having;
  for (const ModelKind& kind : model_kinds())
    if (find(options_of(kind.defaults), name)) having.push_back(kind.name);
  if (!having.empty())
    fail(name, "the model {} has no such option, unlike {}", options.name, fmt::join(having, ", "));
}

void set(ModelOptions& options, const std::string& name, const std::string& value) {
  check_option(options, name);
  const Option* const one = find(options_of(options), name);
  if (!one) fail(name, "the model {} has no such option", options.name);
  options_of(options).set(options, *one, value);
}

Index longest_source(const ModelOptions& options) {
  return std::visit(
      [](const auto& own) -> Index {
        if constexpr (requires { own.score; }) {
          if (own.score.kind == "location") return own.score.longest;
        }
        return 0;
      },
      options.own);
}

NamedModel::NamedModel(const nn::Scope& scope, const ModelOptions& options,
                       const Vocabularies& sizes) {
  const ModelKind& kind = model_kind(options.name);
  if (options.own.index() != kind.defaults.own.index())
    fail("model", "the options belong to another model than {}", options.name);
  if (options.coverage_loss > 0 && !kind.attends)
    fail("model", "a coverage loss requires a model with attention");
  ModelOptions sized = checked(options);
  std::visit(
      [&](auto& own) {
        own.source_vocabulary = sizes.source, own.target_vocabulary = sizes.target;
      },
      sized.own);
  static_cast<Model&>(*this) = kind.make(scope, sized);
  options_ = std::move(sized);
}

ModelOptions NamedModel::options() const { return options_; }

Var NamedModel::loss(const text::Batch& batch, const Guide& guide) const {
  const auto [name, own, label_smoothing, coverage] = options_;
  if (nn::Training::random())
    return models::loss(*this, batch,
                        {.label_smoothing = label_smoothing, .coverage = coverage, .guide = guide});
  const Var loss = models::loss(*this, batch, {.guide = guide});
  const bool regularised = label_smoothing > 0 || coverage > 0;
  return regularised ? nn::outside_of_training(loss, "label smoothing or coverage loss") : loss;
}

}  // namespace attune::models
