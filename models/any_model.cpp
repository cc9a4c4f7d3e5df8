#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/models/any_model.hpp>
#include <attune/nn/attention.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune::models {
namespace {

template <class M>
ModelKind kind(const char* what) {
  using Own = typename M::Options;
  return {M::name,
          what,
          M::attends,
          {.name = M::name, .own = Own()},
          [](const nn::Scope& scope, const AnyModelOptions& o) {
            return AnyModel(M(scope, std::get<Own>(o.own)));
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
    if (name == one.name) return one;
    names.push_back(one.name);
  }
  fail("model", "{} is not one of {}", in_quotes(name), fmt::join(names, ", "));
}

OptionList options_of(AnyModelOptions& o) {
  OptionList all = std::visit([](auto& own) { return options_of(own); }, o.own);
  if (model_kind(o.name).attends)
    all.push_back(option("coverage-loss", "weight of the coverage loss", o.coverage_loss, 0, 1e6));
  all.push_back(option("label-smoothing",
                       "probability mass spread over all tokens that can be generated",
                       o.label_smoothing, 0, 0.99));
  return all;
}

void check_option(const AnyModelOptions& options, const std::string& name) {
  std::vector<const char*> having;
  for (const ModelKind& kind : model_kinds()) {
    AnyModelOptions defaults = kind.defaults;
    if (!find(options_of(defaults), name)) continue;
    if (options.name == kind.name) return;
    having.push_back(kind.name);
  }
  if (!having.empty())
    fail(name, "the model {} has no such option, unlike {}", options.name, fmt::join(having, ", "));
}

void set(AnyModelOptions& options, const std::string& name, const std::string& value) {
  check_option(options, name);
  const OptionList own = options_of(options);
  const Option* const one = find(own, name);
  if (!one) fail(name, "the model {} has no such option", options.name);
  one->set(value);
}

Index longest_source(const AnyModelOptions& options) {
  return std::visit(
      [](const auto& own) -> Index {
        if constexpr (requires { own.score; }) {
          if (own.score.kind == "location") return own.score.longest;
        }
        return 0;
      },
      options.own);
}

AnyModel::AnyModel(const nn::Scope& scope, const AnyModelOptions& options,
                   const Vocabularies& sizes) {
  const ModelKind& kind = model_kind(options.name);
  if (options.own.index() != kind.defaults.own.index())
    fail("AnyModel", "the options belong to another model than {}", options.name);
  if (options.coverage_loss > 0 && !kind.attends)
    fail("AnyModel", "a coverage loss requires a model with attention");
  AnyModelOptions sized = checked(options);
  std::visit(
      [&](auto& own) {
        own.source_vocabulary = sizes.source, own.target_vocabulary = sizes.target;
      },
      sized.own);
  *this = kind.make(scope, sized);
  options_ = std::move(sized);
}

Var AnyModel::loss(const text::Batch& batch, const Guide& guide) const {
  const auto [name, own, label_smoothing, coverage] = options_;
  if (nn::Training::random())
    return models::loss(*this, batch,
                        {.label_smoothing = label_smoothing, .coverage = coverage, .guide = guide});
  const Var loss = models::loss(*this, batch, {.guide = guide});
  const bool regularised = label_smoothing > 0 || coverage > 0;
  return regularised ? nn::outside_of_training(loss, "label smoothing or coverage loss") : loss;
}

namespace {

/// A WordModel that averages the token probabilities and the attention weights of several models.
class Ensemble {
 public:
  struct Encoded {
    std::vector<AnyModel::Encoded> of;  // one per model, as all vectors in this class
    Mask mask;                          // (S, B)
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

  Encoded encode(const Tensor& source, const Mask& mask) const {
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
      if (step.weights.defined()) weights.push_back(std::move(step.weights));
      all.output.push_back(std::move(step.output));
      all.state.push_back(std::move(step.state));
    }
    if (!weights.empty()) all.weights = mean(stack(weights), {0});
    return all;
  }

  DecoderSteps<Words, Output> unroll(const Encoded& encoded, const Tensor& previous,
                                     const Mask& mask, bool weights) const {
    DecoderSteps<Words, Output> all{.words = {}, .outputs = {{}}, .weights = {}};
    std::vector<std::vector<Var>> of_step(weights ? previous.dim(0) : 0);
    for (std::size_t n = 0; n < models_.size(); ++n) {
      AnyModel::Steps own = models_[n].unroll(encoded.of[n], previous, mask, weights);
      all.words.of.push_back(std::move(own.words));
      all.outputs.front().push_back(std::move(own.outputs.front()));
      for (std::size_t t = 0; t < own.weights.size(); ++t) of_step[t].push_back(own.weights[t]);
    }
    for (const std::vector<Var>& step : of_step)
      if (!step.empty()) all.weights.push_back(mean(stack(step), {0}));
    return all;
  }

  /// log p (T, B, V)
  Var logits(const Words& words, const std::vector<Output>& outputs) const {
    ShapeCheck check("Ensemble");
    std::vector<Var> log_p;
    for (std::size_t n = 0; n < models_.size(); ++n) {
      std::vector<AnyModel::Output> own;
      for (const Output& output : outputs) own.push_back(output[n]);
      log_p.push_back(log_softmax(Var(models_[n].logits(words.of[n], own)), -1));
      check(n == 0 ? "the first model's probabilities" : "another's", log_p[n].shape(), "T B V");
    }
    return log_sum_exp(stack(log_p), {0}) - std::log(static_cast<double>(models_.size()));
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
