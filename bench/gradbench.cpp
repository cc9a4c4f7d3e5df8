// The evals lstm and gmm of GradBench (github.com/gradbench/gradbench), in f64. As its C++ tools do,
// prints the output of the function and then the time of each run:
//
//     build/bench/gradbench lstm INPUT.json jacobian
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <numbers>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/attune.hpp>

namespace {

using namespace attune;
using nlohmann::json;

/// The numbers, vectors and matrices of an input by name; the parameters are variables.
using Input = std::map<std::string, Var>;

Tensor tensor_of(const json& given) {
  if (given.is_number()) return scalar(given.get<double>(), DType::f64);
  if (!given.at(0).is_array()) {
    const auto values = given.get<std::vector<double>>();
    return Tensor::of<double>({std::ssize(values)}, values);
  }
  std::vector<Tensor> rows;
  for (const json& row : given) rows.push_back(tensor_of(row));
  return stack(rows);
}

json json_of(const Tensor& x) {
  if (x.rank() < 2) return x.to_vector<double>();
  json rows = json::array();
  for (Index i = 0; i < x.dim(0); ++i) rows.push_back(json_of(x[i]));
  return rows;
}

/// ADBench's LSTM, whose weight matrices are diagonal. main_params: for each layer, the weights and
/// the biases of the gates f i o g. extra_params: input weight, output weight, output bias.
Var lstm(const Input& in) {
  const Var main = in.at("main_params"), extra = in.at("extra_params"), state = in.at("state");
  const Tensor sequence = in.at("sequence").value();
  const Index steps = sequence.dim(0) - 1, size = state.dim(1);
  Var x = Var(sequence.slice(0, steps)) * extra[0];
  for (Index layer = 0; layer < state.dim(0); layer += 2) {
    const Var w = reshape(main[layer], {4, size}), b = reshape(main[layer + 1], {4, size});
    const auto gate = [&](const Var& of, Index k) { return of * w[k] + b[k]; };
    const Var f = sigmoid(gate(x, 0)), o = sigmoid(gate(x, 2));
    Var h = state[layer], c = state[layer + 1];
    std::vector<Var> outputs;
    const Var w_i = w[1], b_i = b[1], w_g = w[3], b_g = b[3];
    for (Index t = 0; t < steps; ++t) {
      c = c * f[t] + sigmoid(h * w_i + b_i) * tanh(h * w_g + b_g);
      h = o[t] * tanh(c);
      outputs.push_back(h);
    }
    x = stack(outputs);
  }
  const Var y = x * extra[1] + extra[2];
  const Var normalizer = log(sum(exp(y), -1, KeepAxes::yes) + 2);
  return mean((normalizer - y) * Var(sequence.slice(1, steps + 1)));
}

/// The log posterior of a Gaussian mixture with a Wishart prior. L is a lower triangular matrix for
/// each component, with diagonal e^q; l holds the elements below it, column by column.
Var gmm(const Input& in) {
  const Var &alpha = in.at("alpha"), &mu = in.at("mu"), &q = in.at("q"), &l = in.at("l");
  const Var& x = in.at("x");
  const Index n = x.dim(0), d = x.dim(1), k = alpha.dim(0), below = d * (d - 1) / 2;
  std::vector<std::int32_t> at(d * d, static_cast<std::int32_t>(d + below));  // the zero
  for (Index column = 0, next = d; column < d; ++column) {
    at[column * d + column] = static_cast<std::int32_t>(column);
    for (Index row = column + 1; row < d; ++row)
      at[row * d + column] = static_cast<std::int32_t>(next++);
  }
  const Var elements = concat({exp(q), l, zeros({k, 1}, DType::f64)}, 1);
  const Var matrices =
      reshape(gather(elements, Tensor::of<std::int32_t>({d * d}, at), 1), {k, d, d});
  // L (x - μ) for all n and k, from one product: (n, k d)
  const Var centered = matmul(x, reshape(matrices, {k * d, d}), {.b = true}) -
                       reshape(batched_matmul(matrices, unsqueeze(mu, -1)), {k * d});
  const Var sum_q = sum(q, -1);
  const Var terms = alpha + sum_q - 0.5 * sum(square(reshape(centered, {n, k, d})), -1);
  const double gamma = in.at("gamma").item(), m = in.at("m").item(),
               dof = static_cast<double>(d) + m + 1;
  double log_gamma = 0.25 * static_cast<double>(d * (d - 1)) * std::log(std::numbers::pi);
  for (Index j = 0; j < d; ++j) log_gamma += std::lgamma(0.5 * (dof - static_cast<double>(j)));
  const double constant =
      dof * static_cast<double>(d) * (std::log(gamma) - 0.5 * std::log(2)) - log_gamma;
  const Var prior = 0.5 * gamma * gamma * (sum(square(exp(q))) + sum(square(l))) - m * sum(sum_q);
  return sum(log_sum_exp(terms, -1)) - static_cast<double>(n) * log_sum_exp(alpha) - prior +
         (static_cast<double>(k) * constant -
          static_cast<double>(n * d) * 0.5 * std::log(2 * std::numbers::pi));
}

struct Eval {
  Var (*objective)(const Input&);
  std::vector<std::string> parameters;
  bool one_list;  // GradBench expects all gradients in one list
};

void run(const Eval& eval, const json& given, bool gradient) {
  using Clock = std::chrono::steady_clock;
  Input in;
  for (const auto& [name, value] : given.items()) in[name] = tensor_of(value);
  for (const std::string& name : eval.parameters) in[name] = variable(in.at(name).value());
  json output;
  std::string times;
  double seconds = 0;
  for (int i = 0; i < given.value("min_runs", 1) || seconds < given.value("min_seconds", 0.0);
       ++i) {
    const auto start = Clock::now();
    const Var y = eval.objective(in);
    const Gradients of = gradient ? backward(y) : Gradients();
    const double time = std::chrono::duration<double>(Clock::now() - start).count();
    seconds += time;
    times += fmt::format("{{\"name\": \"evaluate\", \"nanoseconds\": {:.0f}}}\n", 1e9 * time);
    output = gradient ? json::object() : json(y.item());
    for (const std::string& name : eval.parameters)
      if (gradient) output[name] = json_of(of[in.at(name)]);
  }
  json list = json::array();
  for (const std::string& name : eval.parameters)
    if (gradient && eval.one_list)
      for (const json& row : output[name]) list.insert(list.end(), row.begin(), row.end());
  fmt::print("{}\n{{\"name\": \"prepare\", \"nanoseconds\": 0}}\n{}",
             (list.empty() ? output : list).dump(), times);
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, Eval> evals{{"lstm", {lstm, {"main_params", "extra_params"}, true}},
                                          {"gmm", {gmm, {"alpha", "mu", "q", "l"}, false}}};
  const std::string function = argc == 4 ? argv[3] : "";
  if (argc != 4 || !evals.contains(argv[1]) ||
      (function != "objective" && function != "jacobian")) {
    fmt::print(stderr, "Usage: {} lstm|gmm FILE objective|jacobian\n", argv[0]);
    return 1;
  }
  try {
    std::ifstream file(argv[2]);
    run(evals.at(argv[1]), json::parse(file), function == "jacobian");
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", argv[2], error.what());
    return 1;
  }
}
