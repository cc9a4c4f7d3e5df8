#include <attune/autograd/attention.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/models/bahdanau.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune::models {

BahdanauDecoder::BahdanauDecoder(const nn::Scope& scope, const BahdanauOptions& o,
                                 EncodedSizes source, std::optional<nn::Attention> attention)
    : AttendingDecoder(scope, o, source, source.last, 2 * o.readout, maxout, std::move(attention)),
      C_(context_weights(scope, source.h)) {}

BahdanauDecoder::State BahdanauDecoder::start(const Encoded& source) const {
  return AttendingDecoder::start(source, last_state(source, "Bahdanau").h);  // tanh(W_s ←h_1)
}

BahdanauDecoder::Step BahdanauDecoder::step(const Var& share, const State& before) const {
  const auto [c, alpha] = attention_({before.s.h, before.past}, before.memory);  // eq. 5 and 6
  const nn::RecurrentState s = cell_.step(add_matmul(share, c, C_), before.s);
  return {{s.h, c}, alpha, {before.memory, attention_.next(before.past, alpha), s}};
}

NematusDecoder::NematusDecoder(const nn::Scope& scope, const NematusOptions& o, EncodedSizes source,
                               std::optional<nn::Attention> attention)
    : AttendingDecoder(scope, o, source, source.h, o.readout, tanh, std::move(attention)),
      second_(scope / "decoder" / "second", source.h, o.hidden, {.cell = o.cell}) {}

NematusDecoder::State NematusDecoder::start(const Encoded& source) const {
  const Tensor shares = source.mask / sum(source.mask, {0});  // 1 / T_x
  return AttendingDecoder::start(source, weighted_sum(shares, source.h));
}

NematusDecoder::Step NematusDecoder::step(const Var& share, const State& before) const {
  const nn::RecurrentState between = cell_.step(share, before.s);
  const auto [c, alpha] = attention_({.state = between.h, .past = before.past}, before.memory);
  const nn::RecurrentState s = second_.step(second_.input(c), between);
  return {{s.h, c}, alpha, {before.memory, attention_.next(before.past, alpha), s}};
}

}  // namespace attune::models
