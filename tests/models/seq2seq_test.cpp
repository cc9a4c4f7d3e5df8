// What holds of the general model, whatever its options.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/models/forced.hpp>
#include <attune/models/search.hpp>
#include <attune/models/seq2seq.hpp>
#include <attune/nn/adam.hpp>
#include <attune/tensor/check.hpp>

#include "models/decoders.hpp"
#include "models/wirings.hpp"
#include "nn/tools.hpp"
#include "support/capture.hpp"
#include "support/models_batches.hpp"

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
  return model.loss(batch) * sum(batch.target_mask).item();
}

TEST_CASE("Seq2Seq: a padded batch gives the loss and gradients of its sentences one by one") {
  for (const auto& [name, options] : models()) {
    CAPTURE_BINDING(name);
    nn::Parameters params(4, DType::f64);
    const Seq2Seq model(params, options);
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
  }
}

TEST_CASE("Seq2Seq: word by word under forced words is force()") {
  for (const auto& [name, options] : models()) {
    CAPTURE_BINDING(name);
    nn::Parameters params(4, DType::f64);
    const Seq2Seq model(params, options);
    const text::Batch batch = batch_of(test::ragged_pairs(9, 8, 8));
    const Forced forced = force(model, batch);
    CHECK(forced.weights.defined() == attends(options));
    Seq2Seq::State state = model.start(model.encode(batch.source, batch.source_mask));
    for (Index t = 0; t < batch.previous.dim(0); ++t) {
      const test::OneStep step = test::step_from(model, batch.previous[t], state);
      CHECK(difference(step.logits, forced.logits.value()[t]) < 1e-13);
      if (attends(options)) CHECK(difference(step.weights, forced.weights.value()[t]) < 1e-13);
    }
  }
}

TEST_CASE("Seq2Seq: select takes columns of a state, with repetition") {
  for (const auto& [name, options] : models()) {
    CAPTURE_BINDING(name);
    nn::Parameters params(4, DType::f64);
    const Seq2Seq model(params, options);
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
  }
}

/// Copies of random sentences, enough steps for the model to become sure of some words.
void train_a_little(nn::Parameters& params, const Seq2Seq& model) {
  const auto sentences = test::random_sentences({3, 5, 2, 4, 1, 5}, 8, 1, 4);
  std::vector<text::Pair> pairs;
  for (const text::Sentence& s : sentences) pairs.push_back({s, s});
  const text::Batch batch = text::make_batch(pairs);
  nn::Adam adam(params, {.rate = 1e-2});
  for (int i = 0; i < 60; ++i) adam.step(backward(model.loss(batch)));
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
  for (const auto& [name, options] : models()) {
    CAPTURE_BINDING(name);
    nn::Parameters params(4);
    const Seq2Seq model(params, options);
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
  }
}

TEST_CASE("Seq2Seq: what greedy search writes has the same log-probabilities when it is forced") {
  const auto sources = test::random_sentences({3, 6, 2}, 8, 7, 4);
  for (const auto& [name, options] : models()) {
    CAPTURE_BINDING(name);
    nn::Parameters params(4);
    const Seq2Seq model(params, options);
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
        CHECK(std::abs(h.word_log_probabilities[t] - forced[i].word_log_probabilities[t]) < 1e-5);
      }
    }
  }
}

TEST_CASE("Seq2Seq: every published model learns a few sentences by heart") {
  const text::Batch batch = [] {
    std::vector<text::Pair> pairs;
    for (const text::Sentence& s : test::random_sentences({1, 2, 3, 4, 2, 3}, 8, 1, 4))
      pairs.push_back({s, s});
    return text::make_batch(pairs);
  }();
  for (const auto& [paper, _] : test::wirings) {
    CAPTURE_BINDING(paper);
    Seq2SeqOptions o = sized(test::wired(paper, {}));
    o.embedding = 12;
    o.hidden = o.readout = 16;
    nn::Parameters params(1);
    const Seq2Seq model(params, o);
    nn::Adam adam(params, {.rate = 1e-2});
    for (int i = 0; i < 250; ++i) adam.step(backward(model.loss(batch)));
    CHECK(model.loss(batch).item() < 0.05);
  }
}

TEST_CASE("Seq2Seq: in steady state training asks the system for no memory") {
  nn::Parameters params(5);
  const Seq2Seq model(params, sized(test::wired("nematus", {})));
  nn::Adam adam(params);
  const text::Batch batch = batch_of(test::ragged_pairs(9, 8, 8), DType::f32);
  const auto step = [&] { adam.step(backward(model.loss(batch))); };
  for (int i = 0; i < 3; ++i) step();
  const std::size_t before = buffer_statistics().allocations;
  for (int i = 0; i < 5; ++i) step();
  CHECK(buffer_statistics().allocations == before);
}

// ---- Options

Seq2SeqOptions plain() { return sized({}); }

double loss_in_training(const Seq2Seq& model, const text::Batch& batch, std::uint64_t seed = 1) {
  Random random(seed);
  const nn::Training training(random);
  return model.loss(batch).item();
}

TEST_CASE("Seq2Seq: outside of training the loss is the mean cross-entropy alone") {
  Seq2SeqOptions o = plain();
  const text::Batch batch = batch_of(test::ragged_pairs(9, 8, 8));
  nn::Parameters params(4, DType::f64), same(4, DType::f64);
  const double expected = Seq2Seq(params, o).loss(batch).item();
  o.label_smoothing = 0.1;
  o.coverage_loss = 1;
  o.dropout = 0.2;
  const Seq2Seq model(same, o);
  CHECK(model.loss(batch).item() == expected);
  CHECK(loss_in_training(model, batch) != expected);
}

TEST_CASE("Seq2Seq: embeddings, annotations and readouts have their own rates of dropout, or one") {
  const text::Batch batch = batch_of(test::ragged_pairs(9, 8, 8));
  const auto drops = [&](auto change) {
    Seq2SeqOptions o = plain();
    change(o);
    nn::Parameters params(4, DType::f64);
    const Seq2Seq model(params, o);
    return loss_in_training(model, batch) != model.loss(batch).item();
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

TEST_CASE("Seq2Seq: label smoothing and coverage add what their papers say") {
  const text::Batch batch = batch_of(test::ragged_pairs(9, 8, 8));
  const double words = sum(batch.target_mask).item();
  Seq2SeqOptions o = plain();
  o.label_smoothing = 0.3;
  o.coverage_loss = 2;
  nn::Parameters params(4, DType::f64);
  const Seq2Seq model(params, o);
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
  CHECK(std::abs(loss_in_training(model, batch) - expected / words) < 1e-12);
}

TEST_CASE("Seq2Seq: dropout per sequence drops the same elements at every step") {
  Seq2SeqOptions o = sized(test::wired("luong", {}));
  o.dropout = 0.5;
  const text::Batch batch = batch_of(test::ragged_pairs(9, 8, 8));
  for (const nn::DropoutKind kind : {nn::DropoutKind::elementwise, nn::DropoutKind::per_sequence}) {
    o.dropout_kind = kind;
    nn::Parameters params(4, DType::f64);
    const Seq2Seq model(params, o);
    Random random(3);
    const nn::Training training(random);
    Seq2Seq::State state = model.start(model.encode(batch.source, batch.source_mask));
    const auto fed = [&](Index t) {
      test::step_from(model, batch.previous[t], state);
      return state.fed.value();
    };
    const Tensor first = fed(0), second = fed(1);
    bool same = true, some = false;
    for (Index i = 0; i < first.size(); ++i) {
      const bool dropped = first.data<double>()[i] == 0;
      same = same && dropped == (second.data<double>()[i] == 0);
      some = some || dropped;
    }
    CHECK(some);
    CHECK(same == (kind == nn::DropoutKind::per_sequence));
  }
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
  const auto message = [](auto change) -> std::string {
    Seq2SeqOptions o = plain();
    change(o);
    nn::Parameters params;
    try {
      const Seq2Seq model(params, o);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message([](auto&) {}) == "");
  CHECK(message([](auto& o) { o.source_vocabulary = 0; }) ==
        "Seq2Seq: source_vocabulary = 0 is less than 5");
  CHECK(message([](auto& o) { o.target_vocabulary = -3; }) ==
        "Seq2Seq: target_vocabulary = -3 is less than 5");
  CHECK(message([](auto& o) { o.embedding = 0; }) == "Seq2Seq: embedding = 0 is less than 1");
  CHECK(message([](auto& o) { o.hidden = 0; }) == "Seq2Seq: hidden = 0 is less than 1");
  CHECK(message([](auto& o) { o.encoder_hidden = -1; }) ==
        "Seq2Seq: encoder_hidden = -1 is less than 0");
  CHECK(message([](auto& o) { o.decoder_layers = 0; }) ==
        "Seq2Seq: decoder_layers = 0 is less than 1");
  CHECK(message([](auto& o) { o.score.attention = 0; }) == "Seq2Seq: attention = 0 is less than 1");
  CHECK(message([](auto& o) { o.readout = 0; }) == "Seq2Seq: readout = 0 is less than 1");
  CHECK(message([](auto& o) { o.readout_layers = 0; }) ==
        "Seq2Seq: readout_layers = 0 is less than 1");
  CHECK(message([](auto& o) { o.dropout = 1; }) == "dropout: the rate 1 is not in [0, 1)");
  CHECK(message([](auto& o) { o.label_smoothing = 1; }) ==
        "Seq2Seq: label_smoothing = 1 is not in [0, 1)");
  CHECK(message([](auto& o) { o.coverage_loss = -1; }) ==
        "Seq2Seq: coverage_loss = -1 is less than 0");
  CHECK(message([](auto& o) { o.readout = 5, o.tied = Tied::target_output; }) ==
        "Seq2Seq: tied tables take a readout of the embedding's size 6, not 5");
  CHECK(message([](auto& o) { o.tied = Tied::all; }) ==
        "Seq2Seq: one table for all takes one vocabulary, not 9 and 8 words");
  CHECK(message([](auto& o) { o.attend = Attend::never, o.coverage_loss = 1; }) ==
        "Seq2Seq: coverage is of attention, and this model has none");
  CHECK(message([](auto& o) { o.start = Start::last, o.score.kind = "dot"; }) ==
        "Seq2Seq: a decoder of 4 cannot start from the last state of an encoder of 2");
}

TEST_CASE("Seq2SeqOptions: as text and back") {
  for (const auto& [name, options] : models()) {
    CAPTURE_BINDING(name);
    const auto map = to_map(options);
    CHECK(map == to_map(seq2seq_options_from(map)));
    CHECK(map.size() == seq2seq_fields().size());
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
      const bool rate = field.name.ends_with("dropout") || field.name == "label-smoothing";
      field.set(o, rate ? "0.5" : "1");
      CHECK(field.get(o) == (rate ? "0.5" : "1"));
    }
    for (const std::string bad : {"", "foo", "-2", "nan", "1x"})
      CHECK_THROWS_AS(field.set(o, bad), Error);
  }
  Seq2SeqOptions o;
  CHECK_THROWS_WITH_AS(set(o, "hidden", "0"), "hidden: '0' is not a whole number from 1 to 65536",
                       Error);
  CHECK_THROWS_WITH_AS(set(o, "window", "local"),
                       "window: 'local' is not one of global, local-m, local-p", Error);
  CHECK_THROWS_WITH_AS(set(o, "colour", "red"), "options: there is no 'colour'", Error);
  set(o, "score", "scaled_dot");
  CHECK(o.score.kind == "scaled_dot");
  auto map = to_map(o);
  map.erase("residual");
  CHECK_THROWS_WITH_AS(seq2seq_options_from(map), "options: there is no 'residual'", Error);
}

}  // namespace
}  // namespace attune::models
