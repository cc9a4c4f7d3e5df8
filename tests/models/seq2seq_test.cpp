// What holds of the general model, whatever its options.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/models/search.hpp>
#include <attune/models/seq2seq.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/tensor/check.hpp>

#include "models/decoders.hpp"
#include "models/wirings.hpp"
#include "nn/tools.hpp"
#include "support/capture.hpp"
#include "support/errors.hpp"
#include "support/models_batches.hpp"
#include "support/threads_scope.hpp"

namespace attune::models {
namespace {

using test::difference;

/// A model and what to call it.
struct Named {
  std::string name;
  Seq2SeqOptions options;
};

Seq2SeqOptions sized(Seq2SeqOptions o) {
  o.source_vocabulary = 9;
  o.target_vocabulary = 8;
  o.embedding = 6;
  o.hidden = 4;
  o.encoder_layers = o.decoder_layers = std::min<Index>(2, o.decoder_layers);
  o.score.attention = 10;
  o.score.heads = 2;
  o.score.longest = 12;
  o.attention.half_width = 1;
  o.readout = 6;
  return o;
}

/// The published models, and between them every other option.
std::vector<Named> models() {
  std::vector<Named> all;
  const auto add = [&](const std::string& paper, const std::string& changes = "") {
    Seq2SeqOptions options = sized(test::wired(paper, {}));
    test::change(options, changes);
    all.push_back({paper + " " + changes, options});
  };
  for (const auto& [paper, _] : test::wirings) add(paper);
  for (const std::string score : {"dot", "concat", "cosine", "multi-head"}) {
    add("luong", "window=local-p score=" + score);
    add("bahdanau", "normalizer=sparsemax decoder-cell=lstm score=" + score);
  }
  add("luong", "score=scaled-dot window=local-m residual=yes encoder-cell=gru");
  add("bahdanau", "score=location start=mean encoder-layers=2");
  add("nematus", "decoder-layers=2 residual=yes input-feeding=yes");
  add("bahdanau", "tied=target-output self-attention=2 readout-state=previous");
  add("bahdanau", "coverage=summed readout-layers=2 encoder-cell=gru-reset-before");
  add("luong", "coverage=summed window=local-p reading=backward");
  add("encoder-decoder", "reading=bidirectional start=zero input-feeding=yes");
  return all;
}

text::Batch batch_of(std::span<const text::Pair> pairs, DType dtype = DType::f64) {
  return text::make_batch(pairs, dtype);
}

/// Sum over words of the loss.
Var total_loss(const Seq2Seq& model, std::span<const text::Pair> pairs) {
  const text::Batch batch = batch_of(pairs);
  return models::loss(model, batch) * sum(batch.target_mask).item();
}

/// f(model, options, params) for all of them.
template <class F>
void for_each_model(F f, DType dtype = DType::f64) {
  for (const auto& [name, options] : models()) {
    CAPTURE_BINDING(name);
    nn::Parameters params(4, dtype);
    f(Seq2Seq(params, options), options, params);
  }
}

TEST_CASE("Seq2Seq: a padded batch gives the loss and gradients of its sentences one by one") {
  for_each_model([&](const Seq2Seq& model, const Seq2SeqOptions&, nn::Parameters& params) {
    const std::vector<text::Pair> pairs = test::ragged_pairs(9, 8, 8);
    const Var together = total_loss(model, pairs);
    Var apart = total_loss(model, std::span(pairs).first(1));
    for (std::size_t i = 1; i < pairs.size(); ++i)
      apart = apart + total_loss(model, std::span(pairs).subspan(i, 1));
    CHECK(std::abs(together.item() - apart.item()) <= 1e-12 * std::abs(apart.item()));
    const Gradients a = backward(together), b = backward(apart);
    for (const auto& [path, w] : params) {
      CAPTURE_BINDING(path);
      REQUIRE((a.find(w) == nullptr) == (b.find(w) == nullptr));
      if (a.find(w)) CHECK(difference(a[w], b[w]) < 1e-12);
    }
  });
}

TEST_CASE("Seq2Seq: word by word under forced words is force()") {
  for_each_model([&](const Seq2Seq& model, const Seq2SeqOptions& options, nn::Parameters&) {
    const text::Batch batch = batch_of(test::ragged_pairs(9, 8, 8));
    const Forced forced = force(model, batch);
    CHECK(forced.weights.defined() == attends(options));
    Seq2Seq::State state = model.start(model.encode(batch.source, batch.source_mask));
    for (Index t = 0; t < batch.previous.dim(0); ++t) {
      const test::OneStep step = test::step_from(model, batch.previous[t], state);
      CHECK(difference(step.logits, forced.logits.value()[t]) < 1e-13);
      if (attends(options)) CHECK(difference(step.weights, forced.weights.value()[t]) < 1e-13);
    }
  });
}

TEST_CASE("Seq2Seq: select takes columns of a state, with repetition") {
  for_each_model([&](const Seq2Seq& model, const Seq2SeqOptions&, nn::Parameters&) {
    const text::Batch batch = batch_of(test::ragged_pairs(9, 8, 8));
    Seq2Seq::State state = model.start(model.encode(batch.source, batch.source_mask));
    for (Index t = 0; t < 2; ++t) test::step_from(model, batch.previous[t], state);
    const std::int32_t from[] = {2, 0, 0, 1}, words[] = {3, 4, 3}, selected_words[] = {3, 3, 3, 4};
    Seq2Seq::State selected =
        model.select(state, Tensor::of(Shape{4}, std::span<const std::int32_t>(from)));
    CHECK_FALSE(selected.layers[0].h.requires_gradient());
    const test::OneStep step =
        test::step_from(model, Tensor::of(Shape{3}, std::span<const std::int32_t>(words)), state);
    const test::OneStep moved = test::step_from(
        model, Tensor::of(Shape{4}, std::span<const std::int32_t>(selected_words)), selected);
    for (Index i = 0; i < 4; ++i) CHECK(difference(moved.logits[i], step.logits[from[i]]) < 1e-14);
  });
}

/// Copies of random sentences, enough steps for the model to become sure of some words.
void train_a_little(nn::Parameters& params, const Seq2Seq& model) {
  const auto sentences = test::random_sentences({3, 5, 2, 4, 1, 5}, 8, 1, 4);
  std::vector<text::Pair> pairs;
  for (const text::Sentence& s : sentences) pairs.push_back({s, s});
  const text::Batch batch = text::make_batch(pairs);
  nn::Adam adam(params, {.rate = 1e-2});
  for (int i = 0; i < 60; ++i) adam.step(backward(models::loss(model, batch)));
}

void check_same_hypothesis(const Hypothesis& a, const Hypothesis& b) {
  CHECK(a.words == b.words);
  REQUIRE(a.word_log_probabilities.size() == b.word_log_probabilities.size());
  for (std::size_t i = 0; i < a.word_log_probabilities.size(); ++i)
    CHECK(std::abs(a.word_log_probabilities[i] - b.word_log_probabilities[i]) < 1e-5);
  CHECK(a.weights.defined() == b.weights.defined());
}

TEST_CASE("Seq2Seq: a trained model writes the same for a sentence alone and in a padded batch") {
  const auto sources = test::random_sentences({3, 6, 2, 1, 4}, 8, 7, 4);
  for_each_model(
      [&](const Seq2Seq& model, const Seq2SeqOptions&, nn::Parameters& params) {
        train_a_little(params, model);
        for (const Index beam : {1, 4}) {
          const SearchOptions how{.beam = beam, .max_length = 8, .length_penalty = 0.6};
          const auto [source, mask] = text::make_source_batch(sources);
          const auto together = search(model, model.encode(source, mask), how);
          for (std::size_t i = 0; i < sources.size(); ++i) {
            const auto [own_source, own_mask] =
                text::make_source_batch(std::span(sources).subspan(i, 1));
            const auto alone = search(model, model.encode(own_source, own_mask), how);
            check_same_hypothesis(together[i].front(), alone.front().front());
          }
        }
      },
      DType::f32);
}

TEST_CASE("Seq2Seq: what greedy search writes has the same log-probabilities when it is forced") {
  const auto sources = test::random_sentences({3, 6, 2}, 8, 7, 4);
  for_each_model(
      [&](const Seq2Seq& model, const Seq2SeqOptions&, nn::Parameters& params) {
        train_a_little(params, model);
        const auto [source, mask] = text::make_source_batch(sources);
        const auto written = search(model, model.encode(source, mask), {.max_length = 8});
        std::vector<text::Pair> pairs;
        for (std::size_t i = 0; i < sources.size(); ++i)
          pairs.push_back({sources[i], written[i].front().words});
        const auto forced = force_decode(model, text::make_batch(pairs));
        for (std::size_t i = 0; i < sources.size(); ++i) {
          const Hypothesis& h = written[i].front();
          for (std::size_t t = 0; t < h.word_log_probabilities.size(); ++t) {
            CHECK(std::abs(h.word_log_probabilities[t] - forced[i].word_log_probabilities[t]) <
                  1e-5);
          }
        }
      },
      DType::f32);
}

TEST_CASE("Seq2Seq: every published model, with every cell, learns a few sentences by heart") {
  const text::Batch batch = [] {
    std::vector<text::Pair> pairs;
    for (const text::Sentence& s : test::random_sentences({1, 2, 3, 4, 2, 3}, 8, 1, 4))
      pairs.push_back({s, s});
    return text::make_batch(pairs);
  }();
  std::vector<Named> all;
  for (const auto& [paper, _] : test::wirings) all.push_back({paper, test::wired(paper, {})});
  all.push_back({"gru-reset-before", {}});
  test::change(all.back().options, "encoder-cell=gru-reset-before decoder-cell=gru-reset-before");
  for (const auto& [name, options] : all) {
    CAPTURE_BINDING(name);
    Seq2SeqOptions o = sized(options);
    o.embedding = 12;
    o.hidden = o.readout = 16;
    nn::Parameters params(1);
    const Seq2Seq model(params, o);
    nn::Adam adam(params, {.rate = 1e-2});
    for (int i = 0; i < 250; ++i) adam.step(backward(models::loss(model, batch)));
    CHECK(models::loss(model, batch).item() < 0.05);
  }
}

TEST_CASE("Seq2Seq: in steady state training asks the system for no memory") {
  nn::Parameters params(5);
  const Seq2Seq model(params, sized(test::wired("nematus", {})));
  nn::Adam adam(params);
  const text::Batch batch = batch_of(test::ragged_pairs(9, 8, 8), DType::f32);
  const auto step = [&] { adam.step(backward(models::loss(model, batch))); };
  for (int i = 0; i < 3; ++i) step();
  const std::size_t before = buffer_statistics().allocations;
  for (int i = 0; i < 5; ++i) step();
  CHECK(buffer_statistics().allocations == before);
}

/// Weights after training with dropout on large enough a batch that work is cut into tiles.
std::vector<Tensor> train(std::uint64_t seed, int n) {
  const test::ThreadsScope guard(n);
  std::vector<Index> lengths;
  for (Index i = 0; i < 48; ++i) lengths.push_back(1 + i % 7);
  const auto sources = test::random_sentences(lengths, 300, 1);
  const auto targets = test::random_sentences(lengths, 280, 2);
  std::vector<text::Pair> pairs;
  for (std::size_t i = 0; i < sources.size(); ++i) pairs.push_back({sources[i], targets[i]});
  const text::Batch batch = text::make_batch(pairs);

  nn::Parameters params(seed);
  const Seq2Seq model(params, {.source_vocabulary = 300,
                               .target_vocabulary = 280,
                               .embedding = 40,
                               .hidden = 64,
                               .score = {.attention = 48},
                               .readout = 56,
                               .dropout = 0.2});
  nn::Adam adam(params);
  Random random(seed);
  for (int i = 0; i < 20; ++i) {
    const nn::Training training(random);
    Gradients gradients = backward(loss(model, batch));
    nn::clip_by_global_norm(gradients, 1);
    adam.step(gradients);
  }
  std::vector<Tensor> weights;
  for (const auto& [name, w] : params) weights.push_back(w.value().clone());
  return weights;
}

TEST_CASE("Seq2Seq: the same seed trains the same weights to the bit, with one thread or two") {
  const std::vector<Tensor> one = train(1, 1), again = train(1, 1), two = train(1, 2);
  const std::vector<Tensor> other = train(2, 1);
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(test::identical(one[i], again[i]));
    CHECK(test::identical(one[i], two[i]));
    CHECK_FALSE(test::identical(one[i], other[i]));
  }
}

// ---- Options

Seq2SeqOptions plain() { return sized({}); }

double loss_in_training(const Seq2Seq& model, const text::Batch& batch, std::uint64_t seed = 1) {
  Random random(seed);
  const nn::Training training(random);
  return models::loss(model, batch).item();
}

TEST_CASE("Seq2Seq: embeddings, annotations and readouts have their own rates of dropout, or one") {
  const text::Batch batch = batch_of(test::ragged_pairs(9, 8, 8));
  const auto drops = [&](auto change) {
    Seq2SeqOptions o = plain();
    change(o);
    nn::Parameters params(4, DType::f64);
    const Seq2Seq model(params, o);
    return loss_in_training(model, batch) != models::loss(model, batch).item();
  };
  CHECK(drops([](auto& o) { o.dropout = 0.5; }));
  CHECK(drops([](auto& o) { o.embedding_dropout = 0.5; }));
  CHECK(drops([](auto& o) { o.annotation_dropout = 0.5; }));
  CHECK(drops([](auto& o) { o.readout_dropout = 0.5; }));
  CHECK_FALSE(drops([](auto& o) {
    o.dropout = 0.5;  // and nothing left for it: there is one layer
    o.embedding_dropout = o.annotation_dropout = o.readout_dropout = 0;
  }));
}

TEST_CASE("loss: label smoothing and coverage add what their papers say") {
  const text::Batch batch = batch_of(test::ragged_pairs(9, 8, 8));
  const double words = sum(batch.target_mask).item();
  nn::Parameters params(4, DType::f64);
  const Seq2Seq model(params, plain());
  const Forced forced = force(model, batch);
  const Tensor logs = log_softmax(forced.logits, -1).value();  // (T, B, V)
  double expected = 0;
  for (Index b = 0; b < 3; ++b) {
    std::vector<double> covered(4, 0);
    for (Index t = 0; t < 4; ++t) {
      if (batch.target_mask[t][b].item() == 0) continue;
      const std::vector<double> row = logs[t][b].to_vector<double>();
      expected -= 0.7 * row[static_cast<std::size_t>(batch.next[t][b].item())];
      for (double log : row) expected -= 0.3 / 8 * log;
      for (Index s = 0; s < 4; ++s) {
        const double a = forced.weights.value()[t][s][b].item();
        expected += 2 * std::min(a, covered[static_cast<std::size_t>(s)]);
        covered[static_cast<std::size_t>(s)] += a;
      }
    }
  }
  const Var found = loss(model, batch, {.label_smoothing = 0.3, .coverage = 2});
  CHECK(std::abs(found.item() - expected / words) < 1e-12);
}

TEST_CASE("Seq2Seq: tied tables are one parameter") {
  Seq2SeqOptions o = plain();
  o.source_vocabulary = o.target_vocabulary;
  nn::Parameters none(1), output(1), all(1);
  const Seq2Seq apart(none, o);
  o.tied = Tied::target_output;
  const Seq2Seq tied(output, o);
  o.tied = Tied::all;
  const Seq2Seq one(all, o);
  const Index table = 8 * 6;
  CHECK(output.count() == none.count() - table);
  CHECK(all.count() == none.count() - 2 * table);
  CHECK_FALSE(output.contains("output.W"));
  CHECK_FALSE(all.contains("source.E"));
}

TEST_CASE("Seq2Seq: an encoder in two directions is half as wide for scores without weights") {
  Seq2SeqOptions o = plain();
  CHECK(encoder_hidden(o) == 4);
  o.score.kind = "cosine";
  CHECK(encoder_hidden(o) == 2);
  o.reading = Reading::forward;
  CHECK(encoder_hidden(o) == 4);
  o.encoder_hidden = 7;
  CHECK(encoder_hidden(o) == 7);
}

TEST_CASE("Seq2Seq: options that do not fit are named") {
  const auto error = [](auto change) {
    Seq2SeqOptions o = plain();
    change(o);
    nn::Parameters params;
    return error_of([&] { Seq2Seq(params, o); });
  };
  CHECK(error([](auto&) {}) == "no error");
  const auto below = [&](const std::string& name, const char* value, int low, auto change) {
    CHECK(error(change) ==
          fmt::format("{}: '{}' is not a whole number from {} to 65536", name, value, low));
  };
  CHECK(error([](auto& o) { o.dropout = 1; }) == "dropout: '1' is not a number from 0 to 0.99");
  below("embedding", "0", 1, [](auto& o) { o.embedding = 0; });
  below("encoder-hidden", "-1", 0, [](auto& o) { o.encoder_hidden = -1; });
  below("attention", "0", 1, [](auto& o) { o.score.attention = 0; });
  const std::vector<std::pair<std::string, void (*)(Seq2SeqOptions&)>> cases = {
      {"source_vocabulary = 0 is less than 5", [](auto& o) { o.source_vocabulary = 0; }},
      {"target_vocabulary = -3 is less than 5", [](auto& o) { o.target_vocabulary = -3; }},
      {"tied tables take a readout of the embedding's size 6, not 5",
       [](auto& o) { o.readout = 5, o.tied = Tied::target_output; }},
      {"one table for all takes one vocabulary, not 9 and 8 words",
       [](auto& o) { o.tied = Tied::all; }},
      {"coverage is of attention, and this model has none",
       [](auto& o) { o.attend = Attend::never, o.score.coverage = nn::Coverage::summed; }},
      {"a decoder of 4 cannot start from the last state of an encoder of 2",
       [](auto& o) { o.start = Start::last, o.score.kind = "dot"; }}};
  for (const auto& [message, change] : cases) CHECK(error(change) == "Seq2Seq: " + message);
}

/// A tiny model, every extent another.
Seq2SeqOptions tiny() {
  return {.source_vocabulary = 6,
          .target_vocabulary = 7,
          .embedding = 3,
          .hidden = 2,
          .score = {.attention = 4},
          .readout = 5};
}

TEST_CASE("Seq2Seq: loss is the mean cross-entropy of force()'s logits") {
  nn::Parameters params(4, DType::f64);
  const Seq2Seq model(params, tiny());
  const text::Batch batch = text::make_batch(test::ragged_pairs(6, 7, 8), DType::f64);
  const Tensor logits = force(model, batch).logits.value();
  double total = 0, words = 0;
  for (Index t = 0; t < 4; ++t) {
    for (Index b = 0; b < 3; ++b) {
      if (batch.target_mask[t][b].item() == 0) continue;
      const std::vector<double> row = logits[t][b].to_vector<double>();
      double sum = 0;
      for (double x : row) sum += std::exp(x);
      total += std::log(sum) - row[static_cast<std::size_t>(batch.next[t][b].item())];
      ++words;
    }
  }
  CHECK(words == 7);  // 3 + 0 + 1, and </s> three times
  CHECK(std::abs(loss(model, batch).item() - total / words) < 1e-13);
}

TEST_CASE("Seq2Seq: dropout acts in training only") {
  Seq2SeqOptions options = tiny();
  nn::Parameters params(1, DType::f64), plain_params(1, DType::f64);
  const Seq2Seq plain(plain_params, options);
  options.dropout = 0.5;
  const Seq2Seq model(params, options);
  const text::Batch batch = text::make_batch(test::ragged_pairs(6, 7, 8), DType::f64);
  CHECK(loss(model, batch).item() == loss(plain, batch).item());
  const auto in_training = [&](const Seq2Seq& m, std::uint64_t seed) {
    Random random(seed);
    const nn::Training training(random);
    return loss(m, batch).item();
  };
  CHECK(in_training(model, 1) != loss(plain, batch).item());
  CHECK(in_training(model, 1) == in_training(model, 1));
  CHECK(in_training(model, 1) != in_training(model, 2));
  CHECK(in_training(plain, 1) == loss(plain, batch).item());
}

TEST_CASE("Seq2Seq: the decoder starts from zero, or from the bridge") {
  Seq2SeqOptions options = tiny();
  const text::Batch batch = text::make_batch(test::ragged_pairs(6, 7, 8), DType::f64);
  options.start = Start::zero;
  nn::Parameters params(1, DType::f64), with_bridge(1, DType::f64);
  const Seq2Seq from_zero(params, options);
  CHECK_FALSE(params.contains("bridge.W"));
  CHECK(
      test::identical(from_zero.start(from_zero.encode(batch.source, batch.source_mask)).s.value(),
                      zeros({3, 2}, DType::f64)));
  options.start = Start::bridge;
  const Seq2Seq bridged(with_bridge, options);
  CHECK(with_bridge["bridge.W"].shape() == Shape{2, 2});
  // tanh(W ←h_1 + b), where ←h_1 is the second half of the annotation of the first word
  const Seq2Seq::State state = bridged.start(bridged.encode(batch.source, batch.source_mask));
  const Tensor h = slice(state.source->memory.h.value()[0], 1, 2, 4);
  CHECK(difference(state.s.value(), tanh(matmul(h, with_bridge["bridge.W"].value()) +
                                         with_bridge["bridge.b"].value())) < 1e-14);
}

TEST_CASE("Seq2Seq: a mask of another dtype means the same, or is an error") {
  for (const Start start : {Start::zero, Start::bridge}) {
    Seq2SeqOptions options = tiny();
    options.start = start;
    nn::Parameters params(1, DType::f64);
    const Seq2Seq model(params, options);
    const auto loss = [&](DType mask) {
      return models::loss(model, text::make_batch(test::ragged_pairs(6, 7, 8), mask)).item();
    };
    // Where a decoder starts from zeros, these are made in the mask's dtype.
    if (start == Start::zero) CHECK_THROWS_AS(loss(DType::f32), Error);
    if (start == Start::bridge) CHECK(loss(DType::f32) == loss(DType::f64));
  }
}

TEST_CASE("Seq2Seq: a word outside of the vocabulary is an error") {
  nn::Parameters params(1);
  const Seq2Seq model(params, tiny());
  CHECK_THROWS_AS(loss(model, text::make_batch({{text::Pair{{6}, {3}}}})), Error);
  CHECK_THROWS_AS(loss(model, text::make_batch({{text::Pair{{5}, {7}}}})), Error);
}

std::map<std::string, std::string> to_map(const Seq2SeqOptions& options) {
  return fields_to_map(seq2seq_fields(), options);
}

TEST_CASE("Seq2SeqOptions: as text and back") {
  for (const auto& [name, options] : models()) {
    CAPTURE_BINDING(name);
    Seq2SeqOptions back;
    set_fields_from(seq2seq_fields(), back, to_map(options));
    CHECK(to_map(back) == to_map(options));
    CHECK(to_map(options).size() == seq2seq_fields().size());
  }
  CHECK(to_map(plain()).at("attend") == "before");
  CHECK(to_map(plain()).at("hidden") == "4");
}

TEST_CASE("Seq2SeqOptions: every field is set by its text, and says what it does not take") {
  for (const auto& field : seq2seq_fields()) {
    INFO(field.name);
    CHECK_FALSE(field.help.empty());
    Seq2SeqOptions o = plain();
    for (const std::string& choice : field.choices) {
      field.set(o, choice);
      CHECK(field.get(o) == choice);
    }
    if (field.choices.empty()) {
      const bool rate = field.name.ends_with("dropout");
      field.set(o, rate ? "0.5" : "1");
      CHECK(field.get(o) == (rate ? "0.5" : "1"));
    }
    for (const std::string bad : {"", "foo", "-2", "nan", "1x"})
      CHECK_THROWS_AS(field.set(o, bad), Error);
  }
  Seq2SeqOptions o;
  CHECK_ERROR("hidden: '0' is not a whole number from 1 to 65536",
              set_field(seq2seq_fields(), o, "hidden", "0"));
  CHECK_ERROR("window: 'local' is not one of global, local-m, local-p",
              set_field(seq2seq_fields(), o, "window", "local"));
  CHECK_ERROR("options: there is no 'colour'", set_field(seq2seq_fields(), o, "colour", "red"));
  set_field(seq2seq_fields(), o, "score", "scaled_dot");
  CHECK(o.score.kind == "scaled_dot");
  auto map = to_map(o);
  map.erase("residual");
  CHECK_ERROR("options: there is no 'residual'", set_fields_from(seq2seq_fields(), o, map));
}

}  // namespace
}  // namespace attune::models
