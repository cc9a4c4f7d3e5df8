// Decoders with known probabilities, and models by name.
#pragma once

#include <cmath>
#include <functional>
#include <numeric>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/models/by_name.hpp>
#include <attune/models/papers.hpp>
#include <attune/models/search.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/random.hpp>

#include "nn/tools.hpp"

namespace attune::test {

using models::Hypothesis;
using Words = std::vector<std::int32_t>;
using Probabilities = std::vector<double>;

inline constexpr Index kVocabulary = 6;  // <pad>, <s>, </s>, <unk>, 4, 5
inline constexpr std::int32_t kEnd = text::Vocabulary::end;
inline constexpr auto kAll = models::OutputTokens::all;

/// A decoder from a table: the probabilities of the next token are a function of the source's
/// first token and of the tokens generated so far.
class TableDecoder {
 public:
  using Table = std::function<Probabilities(std::int32_t source, const Words& words)>;
  struct State {
    std::vector<Words> read;  // of each row: the source's first word, <s>, words
    Tensor mask;              // (S, rows)
  };
  using Output = Var;  // the logits, which are log-probabilities
  using Step = models::DecoderStep<Output, State>;
  struct Source {
    Tensor words, mask;
  };

  explicit TableDecoder(Table table) : table_(std::move(table)) {}

  Source encode(const Tensor& source, const Tensor& mask) const { return {source, mask}; }

  State start(const Source& source) const {
    starts.push_back(source.words.shape());
    State state{.read = {}, .mask = source.mask};
    for (std::int32_t word : source.words[0].to_vector<std::int32_t>())
      state.read.push_back({word});
    return state;
  }

  Tensor read(const Tensor& previous) const { return previous; }

  Step step(const Tensor& previous, const State& state) const {
    State next = state;
    const auto rows = static_cast<Index>(state.read.size());
    REQUIRE(previous.shape() == Shape{rows});
    rows_of_steps.push_back(rows);
    std::vector<double> readout, weights(static_cast<std::size_t>(state.mask.size()));
    for (Index r = 0; r < rows; ++r) {
      Words& read = next.read[static_cast<std::size_t>(r)];
      read.push_back(previous.data<std::int32_t>()[r]);
      CHECK(read[1] == text::Vocabulary::begin);
      for (double p : table_(read[0], Words(read.begin() + 2, read.end()))) {
        readout.push_back(std::log(p));
      }
      for (Index s = 0; s < state.mask.dim(0); ++s) {
        weights[static_cast<std::size_t>(s * rows + r)] =
            state.mask[s][r].item() == 0 ? 0 : weight(s, source_length(state.mask, r), read.back());
      }
    }
    return {Tensor::of(Shape{rows, kVocabulary}, std::span<const double>(readout)),
            Tensor::of(state.mask.shape(), std::span<const double>(weights)), next};
  }

  Var logits(const Tensor&, const std::vector<Var>& outputs) const { return stack(outputs); }

  State select(const State& state, const Tensor& rows) const {
    ++selects;
    State selected{.read = {}, .mask = gather(state.mask, rows, 1)};
    for (std::int32_t row : rows.to_vector<std::int32_t>()) {
      selected.read.push_back(state.read[static_cast<std::size_t>(row)]);
    }
    return selected;
  }

  /// The attention weight of position s of `length` after a token; it differs for each token.
  static double weight(Index s, Index length, std::int32_t after) {
    double total = 0;
    for (Index i = 0; i < length; ++i) total += static_cast<double>(1 + i * after);
    return static_cast<double>(1 + s * after) / total;
  }

  mutable std::vector<Shape> starts;  // (S, B) of each batch
  mutable std::vector<Index> rows_of_steps;
  mutable Index selects = 0;

 private:
  static Index source_length(const Tensor& mask, Index row) {
    Index length = 0;
    for (Index s = 0; s < mask.dim(0); ++s) length += mask[s][row].item() == 1;
    return length;
  }

  Table table_;
};

/// The given probabilities of </s>, 4 and 5; the rest is divided among the other three.
inline Probabilities next(double end, double four, double five) {
  const double rest = std::max(1e-30, 1 - end - four - five) / 3;
  return {rest, rest, end, rest, four, five};
}

/// Random probabilities for every source and prefix; </s> after `longest` tokens.
inline TableDecoder::Table random_table(std::size_t longest, std::uint64_t seed = 1) {
  return [=](std::int32_t source, const Words& words) {
    if (words.size() >= longest) return Probabilities{1e-30, 1e-30, 1, 1e-30, 1e-30, 1e-30};
    std::string name = std::to_string(source);
    for (std::int32_t word : words) name += fmt::format(",{}", word);
    Random random(seed, name);
    Probabilities p;
    for (Index i = 0; i < kVocabulary; ++i) p.push_back(std::exp(random.normal()));
    const double total = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& x : p) x /= total;
    return p;
  };
}

inline bool near(double a, double b) { return std::abs(a - b) < 1e-12; }

/// Checks that tokens, probabilities and weights are equal bit for bit.
inline bool same(const Hypothesis& a, const Hypothesis& b) {
  return a.words == b.words && a.word_log_probabilities == b.word_log_probabilities &&
         a.log_probability == b.log_probability && a.score == b.score && a.complete == b.complete &&
         a.weights.defined() == b.weights.defined() &&
         (!a.weights.defined() || identical(a.weights, b.weights));
}

/// Checks that a complete hypothesis has the table's log-probabilities, for sources that begin with
/// 4.
inline void check_log_probabilities(const Hypothesis& h, const TableDecoder::Table& table,
                                    bool complete = true) {
  REQUIRE(h.complete == complete);
  const std::size_t steps = h.words.size() + (complete ? 1 : 0);
  REQUIRE(h.word_log_probabilities.size() == steps);
  Words before;
  double total = 0;
  for (std::size_t i = 0; i < steps; ++i) {
    const std::int32_t word = i < h.words.size() ? h.words[i] : kEnd;
    const double expected = std::log(table(4, before)[static_cast<std::size_t>(word)]);
    CHECK(near(h.word_log_probabilities[i], expected));
    total += expected;
    before.push_back(word);
  }
  CHECK(near(h.log_probability, total));
}

/// One step of any decoder after these tokens (rows) i32.
struct OneStep {
  Tensor logits, weights;  // (rows, V), (S, rows) or undefined
};

/// A decoder without a state: the next step is a function of the last tokens (rows).
struct ScriptedDecoder {
  struct State {};

  State start(const models::Encoded&) const { return {}; }
  Tensor read(const Tensor& previous) const { return previous; }
  models::DecoderStep<Var, State> step(const Tensor& previous, const State&) const {
    const OneStep step = next(previous);
    return {step.logits, step.weights, {}};
  }
  Var logits(const Tensor&, const std::vector<Var>& outputs) const { return stack(outputs); }
  State select(const State&, const Tensor&) const { return {}; }

  std::function<OneStep(const Tensor& previous)> next;
};

/// An encoded source (S, B) without annotations and padding.
inline models::Encoded no_annotations(Index steps, Index batch) {
  return {.h = {}, .last = {}, .mask = ones({steps, batch})};
}
inline OneStep step_from(const models::Model& model, const Tensor& previous,
                         models::Model::State& state) {
  models::Model::Step step = model.step(previous, state);
  state = std::move(step.state);
  return {step.logits.value(), step.weights.value()};
}

/// A Bahdanau model with distinct probabilities: its initial values are scaled.
struct Translator {
  nn::Parameters params;
  models::Bahdanau model{params,
                         {.source_vocabulary = 11,
                          .target_vocabulary = 9,
                          .embedding = 5,
                          .hidden = 6,
                          .readout = 4,
                          .score = {.attention = 7}}};
  explicit Translator(DType dtype = DType::f32) : params(3, dtype) {
    test::scale_parameters(params, 3);
  }
};

/// What a model computes for given target tokens.
struct Forced {
  Var logits;   // (T, B, V)
  Var weights;  // (T, S, B); undefined without attention
};
inline Forced force(const models::Model& model, const models::Model::Source& source,
                    const Tensor& previous) {
  const auto [logits, weights] = model.unroll(source, previous);
  return {Var(logits), weights.empty() ? Var() : stack(weights)};
}
inline Forced force(const models::Model& model, const text::Batch& batch) {
  return force(model, model.encode(batch.source, batch.source_mask), batch.previous);
}

/// "luong score=dot window=local-p": the name of a model, and its options. `sizes` has the same
/// form without a name; options that the model lacks are ignored.
inline models::ModelOptions options_from(const std::string& text, const std::string& sizes = "") {
  std::istringstream words(text), defaults(sizes);
  std::string word;
  words >> word;
  models::ModelOptions options = models::model_options(word);
  const auto& own = models::options_of(options);
  const auto set = [&](const std::string& change, bool required) {
    const auto equals = change.find('=');
    const models::Option* option = models::find(own, change.substr(0, equals));
    if (option) own.set(options, *option, change.substr(equals + 1));
    if (!option && required) throw Error(text + ": there is no such option: " + change);
  };
  while (defaults >> word) set(word, false);
  while (words >> word) set(word, true);
  return options;
}

}  // namespace attune::test
