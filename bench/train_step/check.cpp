// Compares loss and gradients with those of another program.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/loss.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/errors.hpp>

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

/// A peer may add a bias b_a to the query W_a s; attune's models have none. Adding it to the keys
/// is equivalent.
template <class M>
struct WithQueryBias : M {
  WithQueryBias(const M& model, Var bias) : M(model), b_a(std::move(bias)) {}

  typename M::State start(const models::Encoded& encoded) const {
    typename M::State state = M::start(encoded);
    if constexpr (requires { state.memory.keys; }) state.memory.keys.k = state.memory.keys.k + b_a;
    return state;
  }

  Var b_a;
};

/// max |a - b| / max |b|; NaN if any difference is NaN.
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

template <class M>
bool check_model(const Safetensors& file, nn::Parameters& params, const M& model) {
  const Tensor* bias = file.find(query_bias);
  if (bias) params.add(query_bias, bias->shape(), nn::init::zeros());
  nn::load_parameters(file, params);

  const text::Batch batch = batch_of(file);
  const Var loss = bias ? models::loss(WithQueryBias<M>(model, params[query_bias]), batch)
                        : models::loss(model, batch);
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
  if (!file.metadata.contains("model")) fail("check", "the file has no metadata 'model'");
  nn::Parameters params;
  return with_model(file.metadata.at("model"), params, sizes_of(file),
                    [&](const auto& model) { return check_model(file, params, model); });
}

}  // namespace attune::bench
