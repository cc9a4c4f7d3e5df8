// Frequent mistakes and their error messages: the table of CONTRIBUTING.md.
#include <fstream>
#include <functional>
#include <sstream>
#include <type_traits>

#include <doctest/doctest.h>

#include <attune/autograd/attention_ops.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/nn/attention.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/nn/recurrent.hpp>

#include "support/naive.hpp"

namespace attune {
namespace {

struct Mistake {
  std::string code;  // as the table shows it
  std::function<void()> run;
};

const Tensor x = zeros({3, 2});

#define MISTAKE(...)                                      \
  Mistake {                                               \
#__VA_ARGS__, [&] { static_cast<void>(__VA_ARGS__); } \
  }

std::vector<Mistake> mistakes() {
  static nn::Parameters params;
  static const nn::Linear layer(params / "decoder" / "output", 4, 5);
  static const nn::Lstm lstm(params / "encoder", 4, 5);
  static const nn::Embedding embedding(params / "words", 10, 4);
  static const nn::Attention attention(nn::GeneralScore(params / "attention", 4, 2));
  static const nn::Memory memory = attention.precompute(zeros({3, 1, 2}), ones({3, 1}));
  static nn::Adam adam(params, {});
  static const Var w = params["decoder.output.b"];
  return {
      MISTAKE(layer(zeros({3, 2}))),
      MISTAKE(lstm(zeros({3, 4}))),
      MISTAKE(lstm(zeros({3, 1, 4}), {.mask = zeros({3, 1}) - 1e9})),
      MISTAKE(attention.precompute(zeros({3, 1, 5}), ones({3, 1}))),
      MISTAKE(attention({.state = zeros({2, 1, 4})}, memory)),
      MISTAKE(embedding(zeros({3}))),
      MISTAKE(embedding(arange(11))),
      MISTAKE(params.add("v", {3}, nn::init::glorot())),
      MISTAKE(softmax(x, -1, zeros({2}) - 1e9)),
      MISTAKE(softmax(x, -1, ones({3}))),
      MISTAKE(where(x + 2.0, x, x)),
      MISTAKE(concat(std::vector<Var>{x, Var()}, 0)),
      MISTAKE(matmul(x, x)),
      MISTAKE(x + zeros({3})),
      MISTAKE(exp(arange(3))),
      MISTAKE(x.data<double>()),
      MISTAKE(x.at<float>({3, 0})),
      MISTAKE(backward(w)),
      MISTAKE(backward(sum(x))),
      MISTAKE(backward(sum(w), {params["decoder.output.W"]})),
      MISTAKE(adam.step(backward(sum(w) / 0.0))),
      MISTAKE(params["decoder.W"]),
  };
}

/// The rows "| `code` | `message` |" of the page.
std::vector<std::pair<std::string, std::string>> table_of(const std::string& page) {
  std::vector<std::pair<std::string, std::string>> rows;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    const auto middle = line.find("` | `");
    if (!line.starts_with("| `") || middle == std::string::npos) continue;
    rows.emplace_back(line.substr(3, middle - 3),
                      line.substr(middle + 5, line.size() - middle - 5 - 3));
  }
  return rows;
}

}  // namespace

TEST_CASE("mistakes: each has the message in CONTRIBUTING") {
  std::ifstream file(ATTUNE_SOURCE "/CONTRIBUTING.md");
  std::ostringstream page;
  page << file.rdbuf();
  std::vector<std::pair<std::string, std::string>> told;
  for (const Mistake& mistake : mistakes()) told.emplace_back(mistake.code, error_of(mistake.run));
  const auto table = table_of(page.str());
  CHECK(table.size() == told.size());
  for (std::size_t i = 0; i < std::min(table.size(), told.size()); ++i) {
    CHECK(table[i].first == told[i].first);
    CHECK(table[i].second == told[i].second);
  }
}

TEST_CASE("mistakes: an assignment without effect does not compile") {
  static_assert(std::is_assignable_v<Var&, Var>);
  static_assert(!std::is_assignable_v<Var, Var>);  // x[t] = y
}

}  // namespace attune
