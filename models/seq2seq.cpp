#include <numeric>

#include <attune/autograd/attention.hpp>
#include <attune/autograd/loss.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/models/seq2seq.hpp>
#include <attune/nn/coverage.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>

namespace attune::models {
namespace {

const Seq2SeqOptions& checked(const Seq2SeqOptions& options) {
  check(options);
  return options;
}

nn::StackedOptions decoder_stack(const Seq2SeqOptions& o) {
  return {.layers = o.decoder_layers,
          .dropout = o.dropout,
          .dropout_kind = o.dropout_kind,
          .residual = o.residual == Residual::yes};
}

nn::RecurrentOptions decoder_cell(const Seq2SeqOptions& o) {
  return {.cell = o.decoder_cell, .norm = o.norm};
}

nn::Embedding source_table(const nn::Scope& scope, const Seq2SeqOptions& o,
                           const nn::Embedding& target) {
  if (o.tied == Tied::all) return target;
  return nn::Embedding(scope / "source", o.source_vocabulary, o.embedding);
}

/// The coverage loss is a part of the loss in training alone.
bool penalises_coverage(const Seq2SeqOptions& o) {
  return o.coverage_loss > 0 && nn::Training::random() != nullptr;
}

/// The mean annotation of each sentence: h (S, B, D) -> (B, D)
Var mean_of(const Var& h, const Tensor& mask) { return weighted_sum(mask / sum(mask, {0}), h); }

}  // namespace

/// One step of the recurrence, and what the readouts of all steps are made from afterwards.
struct Seq2Seq::Advance {
  Var s, context;  // as the readout sees them
  Var weights;
  State state;
};

/// The recurrence over all steps of a batch.
struct Seq2Seq::Unrolled {
  Var readouts;  // (T, B, R)
  std::vector<Var> weights;
  std::vector<Var> coverage_losses;  // (B) each, where asked for
};

Seq2Seq::Seq2Seq(const nn::Scope& scope, const Seq2SeqOptions& o)
    : options_(checked(o)),
      target_(scope / "target", o.target_vocabulary, o.embedding),
      source_(source_table(scope, o, target_)),
      encoder_(scope / "encoder", o),
      decoder_(scope / "decoder", o.embedding, o.hidden, decoder_stack(o), decoder_cell(o)),
      readout_(scope / "readout", o, context_size()),
      embedding_dropout_(dropout_rate(o, o.embedding_dropout), o.dropout_kind),
      annotation_dropout_(dropout_rate(o, o.annotation_dropout), o.dropout_kind) {
  if (o.start == Start::bridge || o.start == Start::mean) {
    const Index from = o.start == Start::mean ? encoder_.size() : encoder_hidden(o);
    bridge_.emplace(scope / "bridge", from, o.decoder_layers * o.hidden);
  }
  if (attends(o)) {
    const nn::Scope place = scope / "attention";
    attention_.emplace(nn::make_score(place, o.hidden, encoder_.size(), o.score), place, o.hidden,
                       o.attention);
  }
  const nn::Scope decoder = scope / "decoder";
  const Index gates = decoder_.gates();
  const auto add_input = [&](const char* name, Index size) {
    return decoder.add(name, {size, gates * o.hidden}, nn::init::glorot(gates));
  };
  if (o.attend == Attend::between) {
    second_.emplace(decoder / "second", encoder_.size(), o.hidden, decoder_cell(o));
  }
  if (o.attend == Attend::before || o.attend == Attend::last_state) {
    W_c_ = add_input("W_c", context_size());
  }
  if (o.input_feeding == InputFeeding::yes) W_feed_ = add_input("W_feed", o.readout);
  if (o.tied == Tied::none) {
    output_ = nn::Linear(scope / "output", o.readout, o.target_vocabulary).affine();
  } else {
    const Var b = (scope / "output").add("b", {o.target_vocabulary}, nn::init::zeros());
    output_ = {.W = target_.table(), .b = b, .transposed = true};
  }
}

Index Seq2Seq::context_size() const {
  if (options_.attend == Attend::never) return 0;
  return attends(options_) ? encoder_.size() : encoder_hidden(options_);
}

std::vector<nn::RecurrentState> Seq2Seq::first_states(const Encoded& encoded,
                                                      const Tensor& mask) const {
  const Index batch = mask.dim(1), hidden = options_.hidden;
  const Var none = zeros({batch, hidden}, mask.dtype());
  const bool has_c = options_.decoder_cell == nn::Cell::lstm;
  Var bridged;  // (B, layers · H)
  if (bridge_) {
    bridged = tanh((*bridge_)(options_.start == Start::mean ? mean_of(encoded.h, mask)
                                                            : encoded.last.back().h));
  }
  std::vector<nn::RecurrentState> states;
  for (Index l = 0; l < options_.decoder_layers; ++l) {
    nn::RecurrentState state{none, has_c ? none : Var()};
    if (bridge_) state.h = slice(bridged, 1, l * hidden, (l + 1) * hidden);
    if (options_.start == Start::last) {
      const auto& from =
          encoded.last[std::min(static_cast<std::size_t>(l), encoded.last.size() - 1)];
      state.h = from.h;
      if (has_c && from.c.defined()) state.c = from.c;
    }
    states.push_back(state);
  }
  return states;
}

Seq2Seq::State Seq2Seq::start(const Tensor& source, const Tensor& mask) const {
  const Encoded encoded = encoder_(embedding_dropout_(source_(source)), mask);
  const Index batch = source.dim(1);
  auto fixed = std::make_shared<Source>();
  if (attention_) fixed->memory = attention_->remember(annotation_dropout_(encoded.h), mask);
  if (options_.attend == Attend::last_state) {
    fixed->context = encoded.last.back().h;
    fixed->share = matmul(fixed->context, W_c_);
  }
  fixed->layer_masks = decoder_.draw_masks(batch, mask.dtype());
  fixed->readout_mask = readout_.draw_mask(batch, mask.dtype());
  std::vector<std::int32_t> columns(static_cast<std::size_t>(batch));
  std::iota(columns.begin(), columns.end(), 0);
  fixed->columns = Tensor::of(Shape{batch}, std::span<const std::int32_t>(columns));
  State state{.source = fixed, .layers = first_states(encoded, mask), .s = {}};
  state.s = state.layers.back().h;
  if (W_feed_.defined()) state.fed = zeros({batch, options_.readout}, mask.dtype());
  return state;
}

/// What the lowest layer reads: (B, gates · H)
Var Seq2Seq::input(const Var& yw, const Var& context, const State& state) const {
  Var x = yw;
  if (options_.attend == Attend::before) x = add_matmul(x, context, W_c_);
  if (options_.attend == Attend::last_state) x = x + state.source->share;
  if (W_feed_.defined()) x = add_matmul(x, state.fed, W_feed_);
  return x;
}

/// y (B, E), yw (B, gates · H): its share of the lowest layer.
Seq2Seq::Advance Seq2Seq::advance(const Var& y, const Var& yw, const State& state) const {
  const Source& source = *state.source;
  nn::Attended attended{.context = source.context, .weights = {}};
  const auto attend = [&](const Var& query) {
    attended = (*attention_)({.state = query, .step = state.step, .coverage = state.coverage},
                             source.memory);
  };
  if (options_.attend == Attend::before) attend(state.s);
  const auto transition = [&](const nn::RecurrentState& lowest) {
    if (!second_) return lowest;
    attend(lowest.h);
    return second_->step(second_->input(attended.context), lowest);
  };
  nn::StackedOutput top = decoder_.step(input(yw, attended.context, state), state.layers,
                                        source.layer_masks, transition);
  if (options_.attend == Attend::after) attend(top.h);
  const bool previous = options_.readout_state == ReadoutState::previous;
  Advance next{.s = previous ? state.s : top.h,
               .context = attended.context,
               .weights = attended.weights,
               .state = {.source = state.source,
                         .layers = std::move(top.last),
                         .s = top.h,
                         .step = state.step + 1}};
  if (W_feed_.defined()) {
    const Var t = readout_.first(y, next.s, next.context);
    next.state.fed = source.readout_mask.defined() ? t * source.readout_mask : readout_.dropped(t);
  }
  if (options_.score.coverage == nn::Coverage::summed || penalises_coverage(options_)) {
    next.state.coverage = nn::add_coverage(state.coverage, next.weights);
  }
  return next;
}

Seq2Seq::Step Seq2Seq::step(const Tensor& previous, const State& state) const {
  const Var y = embedding_dropout_(target_(previous));
  Advance next = advance(y, decoder_.input(y), state);
  const Var first = W_feed_.defined() ? next.state.fed
                                      : readout_.dropped(readout_.first(y, next.s, next.context));
  return {readout_.rest(first), next.weights, std::move(next.state)};
}

Var Seq2Seq::logits(const Var& readout) const {
  return matmul(readout, output_.W, {.b = output_.transposed}) + output_.b;
}

namespace {

Tensor rows_of(const Tensor& x, const Tensor& rows) { return x.defined() ? gather(x, rows) : x; }
Var rows_of(const Var& x, const Tensor& rows) { return rows_of(x.value(), rows); }

}  // namespace

/// A beam puts its hypotheses in another order at every step, and what they read is large: it moves
/// only when another number of them reads a sentence.
std::shared_ptr<const Seq2Seq::Source> Seq2Seq::select(const std::shared_ptr<const Source>& from,
                                                       const Tensor& rows) const {
  const Tensor columns = gather(from->columns, rows);
  if (columns.to_vector<std::int32_t>() == from->columns.to_vector<std::int32_t>()) return from;
  auto source = std::make_shared<Source>();
  if (attention_) source->memory = nn::select(from->memory, rows);
  source->context = rows_of(from->context, rows);
  source->share = rows_of(from->share, rows);
  for (const Tensor& mask : from->layer_masks) source->layer_masks.push_back(rows_of(mask, rows));
  source->readout_mask = rows_of(from->readout_mask, rows);
  source->columns = columns;
  return source;
}

Seq2Seq::State Seq2Seq::select(const State& state, const Tensor& rows) const {
  State selected{.source = select(state.source, rows),
                 .layers = {},
                 .s = rows_of(state.s, rows),
                 .fed = rows_of(state.fed, rows)};
  for (const auto& [h, c] : state.layers)
    selected.layers.push_back({rows_of(h, rows), rows_of(c, rows)});
  if (state.coverage.defined()) {
    selected.coverage = gather_columns(state.coverage.value(), rows);
  }
  selected.step = state.step;
  return selected;
}

/// Whatever does not wait for the step before is done for all steps at once: embeddings, the cell's
/// share of them, readouts. The loop is left with attention and the cells.
Seq2Seq::Unrolled Seq2Seq::unroll(const text::Batch& batch) const {
  State state = start(batch.source, batch.source_mask);
  const Var y = embedding_dropout_(target_(batch.previous));  // (T, B, E)
  const Var yw = decoder_.input(y);                           // (T, B, gates · H)
  Unrolled unrolled;
  std::vector<Var> states, contexts, fed;
  for (Index i = 0; i < y.dim(0); ++i) {
    Advance next = advance(W_feed_.defined() ? y[i] : y, yw[i], state);
    if (W_feed_.defined()) {
      fed.push_back(next.state.fed);
    } else {
      states.push_back(next.s);
      if (next.context.defined()) contexts.push_back(next.context);
    }
    if (next.weights.defined()) unrolled.weights.push_back(next.weights);
    if (penalises_coverage(options_)) {
      unrolled.coverage_losses.push_back(nn::coverage_loss(next.weights, state.coverage));
    }
    state = std::move(next.state);
  }
  const Var first = W_feed_.defined()
                        ? stack(fed)
                        : readout_.dropped(readout_.first(
                              y, stack(states), contexts.empty() ? Var() : stack(contexts)));
  unrolled.readouts = readout_.rest(first);
  return unrolled;
}

Seq2Seq::Forced Seq2Seq::force(const text::Batch& batch) const {
  const Unrolled unrolled = unroll(batch);
  return {logits(unrolled.readouts), attention_ ? stack(unrolled.weights) : Var()};
}

Var Seq2Seq::loss(const text::Batch& batch, const Guide& guide) const {
  if (guide.alignment.defined() && !attention_) fail("loss", "there is no attention to guide");
  const Unrolled unrolled = unroll(batch);
  const bool training = nn::Training::random() != nullptr;
  Var loss = affine_cross_entropy(unrolled.readouts, output_, batch.next, batch.target_mask,
                                  {.smoothing = training ? options_.label_smoothing : 0});
  if (penalises_coverage(options_)) {
    const Tensor share =
        batch.target_mask * (options_.coverage_loss / sum(batch.target_mask).item());
    loss = loss + sum(stack(unrolled.coverage_losses) * share);
  }
  if (guide.alignment.defined()) {
    loss = loss + guide.weight * guided_alignment_loss(stack(unrolled.weights), guide.alignment);
  }
  return loss;
}

}  // namespace attune::models
