#include "train_step/check.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/loss.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/nn/checkpoint.hpp>
#include <attune/tensor/check.hpp>

#include "train_step/workload.hpp"

namespace attune::bench {
namespace {

constexpr double loss_tolerance = 1e-4, gradient_tolerance = 1e-3;  // of f32
constexpr const char* query_bias = "attention.b_a";

const Tensor& tensor(const Safetensors& file, const std::string& name) {
  if (const Tensor* found = file.find(name)) return *found;
  fail("check", fmt::format("the file has no tensor '{}'", name));
}

Sizes sizes_of(const Safetensors& file) {
  const auto size = [&](const char* name) { return nn::load_count(file.metadata, name); };
  return {.E = size("E"), .H = size("H"), .A = size("A"), .V = size("V"), .L = size("L")};
}

text::Batch batch_of(const Safetensors& file) {
  return {.source = tensor(file, "batch.source"),
          .source_mask = tensor(file, "batch.source_mask"),
          .previous = tensor(file, "batch.previous"),
          .next = tensor(file, "batch.next"),
          .target_mask = tensor(file, "batch.target_mask")};
}

/// A peer may add a bias b_a to the query W_a s, which the models here have not. It is the same to
/// add it to the keys.
struct WithQueryBias : models::Seq2Seq {
  WithQueryBias(const models::Seq2Seq& model, Var bias)
      : models::Seq2Seq(model), b_a(std::move(bias)) {}

  State start(const models::Encoded& encoded) const {
    State state = models::Seq2Seq::start(encoded);
    auto source = std::make_shared<Source>(*state.source);
    source->memory.keys.k = source->memory.keys.k + b_a;
    state.source = source;
    return state;
  }

  Var b_a;
};

/// max |a - b| / max |b|, NaN where an element is.
double relative_difference(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = std::abs(x[i] - y[i]);
    if (std::isnan(d)) return d;
    difference = std::max(difference, d);
    largest = std::max(largest, std::abs(y[i]));
  }
  return difference == 0 ? 0 : difference / largest;
}

bool report(const std::string& name, double difference, double tolerance) {
  const bool same = difference <= tolerance;  // false for NaN
  fmt::print("{:<32} {:.1e}{}\n", name, difference, same ? "" : "   DIFFERENT");
  return same;
}

bool check_model(const Safetensors& file, const models::Seq2SeqOptions& options) {
  nn::Parameters params;
  const models::Seq2Seq model(params, options);
  const Tensor* bias = file.find(query_bias);
  if (bias) params.add(query_bias, bias->shape(), nn::init::zeros());
  nn::load_parameters(file, params);

  const text::Batch batch = batch_of(file);
  const Var loss =
      bias ? models::loss(WithQueryBias(model, params[query_bias]), batch) : model.loss(batch);
  const double expected = tensor(file, "loss").item();
  bool same = report("loss", std::abs(loss.item() - expected) / std::abs(expected), loss_tolerance);
  const Gradients gradients = backward(loss);
  for (const auto& [name, w] : params) {
    const Tensor& gradient = nn::find_tensor(file, "gradient." + name, w.shape(), DType::f32);
    same &= report(name, relative_difference(gradients[w], gradient), gradient_tolerance);
  }
  return same;
}

}  // namespace

bool check(const std::filesystem::path& path) {
  const Safetensors file = load_safetensors(path);
  if (!file.metadata.contains("model")) fail("check", "the file does not say of which model it is");
  return check_model(file, options_of(file.metadata.at("model"), sizes_of(file)));
}

}  // namespace attune::bench
