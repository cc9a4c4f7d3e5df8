#include <algorithm>
#include <cmath>
#include <limits>

#include <attune/models/model.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/index.hpp>
#include <attune/tensor/kernels/simd/kernels.hpp>
#include <attune/tensor/loops.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune::models {

Model::Steps Model::unroll(const Source& source, const Tensor& previous, const Mask& mask,
                           bool weights) const {
  ShapeCheck check("unroll");
  check("the source's mask", source.mask, "S B")("previous", previous, "T B");
  if (mask.defined()) check("mask", mask, "T B");
  return of_->unroll(source, previous, mask, weights);
}

Index OutputSubsets::size(Index row) const { return std::ssize(ids_[sentences_[row]]); }

std::int32_t OutputSubsets::id(Index row, Index column) const {
  return ids_[sentences_[row]][column];
}

Tensor OutputSubsets::logits(const AffineLogits& all) {
  const Tensor &x = all.x.value(), &W = all.affine.W.value(), &bias = all.affine.b.value();
  ShapeCheck check("OutputSubsets");
  check("rows", {1, std::ssize(sentences_)}, "T B")("outputs", x, "T B R");
  const Index v = W.defined() ? W.dim(all.affine.transposed ? 0 : 1) : x.dim(-1);
  Index width = 0;
  for (const std::size_t sentence : sentences_) {
    const std::vector<std::int32_t>& ids = ids_[sentence];
    width = std::max<Index>(width, std::ssize(ids));
    if (!ids.empty() && (ids.front() < 0 || ids.back() >= v))
      fail("OutputSubsets", "the tokens {} to {} are not in 0 to {}", ids.front(), ids.back(),
           v - 1);
  }
  Tensor y = full({check['B'], width}, -std::numeric_limits<double>::infinity(), x.dtype());
  std::vector<Tensor> copies;  // (ids, R) of each row, if W is not transposed
  for (const std::size_t sentence : sentences_)
    if (W.defined() && !all.affine.transposed) copies.push_back(columns(W, sentence));
  const attune::detail::OrNull weights{W}, biases{bias};
  const auto compute = [&]<class T>(Index row, const T* outputs, const T* w, const T* b, T* to) {
    const std::vector<std::int32_t>& ids = ids_[sentences_[row]];
    const Index n = std::ssize(ids), r = check['R'];
    const T* const own = outputs + row * r;
    to += row * width;
    if (!w) return void(std::ranges::transform(ids, to, [&](std::int32_t id) { return own[id]; }));
    std::vector<const T*> rows(ids.size());  // of Wᵀ
    const T* const copied = copies.empty() ? nullptr : copies[row].template data<T>();
    for (Index i = 0; i < n; ++i) rows[i] = copied ? copied + i * r : w + ids[i] * r;
    simd::run(simd::StepScoresRow<T>{own, rows.data(), 1, 1, r, T(1), to}, n);
    for (Index i = 0; b && i < n; ++i) to[i] += b[ids[i]];
  };
  parallel_rows("logits", std::tie(x, weights, biases, y), check['B'],
                rows_of_tile(width * check['R']), compute);
  return y;
}

const Tensor& OutputSubsets::columns(const Tensor& W, std::size_t sentence) {
  auto& [kept, columns] = columns_[bytes_of(W).data()];
  kept = W;
  Tensor& own = columns[sentence];
  const std::vector<std::int32_t>& ids = ids_[sentence];
  if (!own.defined())
    own = transpose(gather(W, Tensor::of<std::int32_t>({std::ssize(ids)}, ids), 1), 0, 1);
  return own;
}

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
