// A sentence gives the same results bit for bit alone and in a batch, whatever the other sentences
// and the padding contain.

#include <functional>

#include <doctest/doctest.h>

#include <attune/tensor/arrange.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/kernels/ctc.hpp>
#include <attune/tensor/kernels/fused_attention.hpp>
#include <attune/tensor/kernels/normalize.hpp>
#include <attune/tensor/kernels/recurrent.hpp>
#include <attune/tensor/kernels/scores.hpp>
#include <attune/tensor/matmul.hpp>

#include "support/naive.hpp"

namespace attune {
namespace {

constexpr Index d = 12;
constexpr Index lengths[] = {1, 5, 16, 33, 40, 70, 131};

/// Sentences of random vectors.
Tensor sentence(Index i, DType dtype) {
  return randn({lengths[i], d}, DType::f32, 10 + static_cast<std::uint64_t>(i)).to(dtype);
}

/// Some sentences as a batch (T, B, D) with its mask. T is `steps`, or the longest length.
struct Padded {
  Tensor x;
  Mask mask;
};
Padded padded(const std::vector<Index>& sentences, DType dtype, Index steps = 0) {
  for (const Index i : sentences) steps = std::max(steps, lengths[i]);
  std::vector<Tensor> columns, masks;
  for (const Index i : sentences) {
    columns.push_back(pad(sentence(i, dtype), 0, 0, steps - lengths[i]));
    masks.push_back(pad(ones({lengths[i]}, dtype), 0, 0, steps - lengths[i]));
  }
  return {transpose(stack(columns), 0, 1), Mask::unchecked(transpose(stack(masks), 0, 1))};
}

Tensor weight(const Shape& shape, DType dtype) { return randn(shape, DType::f32, 3).to(dtype); }
Tensor scores_of(const Padded& in) { return sum(in.x, {2}); }
Tensor queries_of(const Padded& in) { return in.x[0]; }
Tensor masked(const Padded& in) { return in.x * in.mask.reshape(in.mask.shape().inserted(2, 1)); }
/// (T, B) -> (B, T) -> (T, B)
Tensor across(const Padded& in, const std::function<Tensor(const Tensor&, const Mask&)>& f) {
  const Mask mask = Mask::unchecked(transpose(in.mask, 0, 1));
  return transpose(f(transpose(scores_of(in), 0, 1), mask), 0, 1);
}
Tensor hidden(const Padded& in) {
  return where(in.mask, scores_of(in), -std::numeric_limits<double>::infinity());
}

FusedAttentionOptions attention_options(const Padded& in, bool causal) {
  return {.heads = 3, .causal = causal, .mask = in.mask};
}
Tensor attend(const Padded& in, bool causal) {
  return attention_forward(in.x, concat({in.x, in.x * 0.5}, 2), attention_options(in, causal)).y;
}
/// dq, and the rows of dkv of keys that are not masked.
Tensor attend_backward(const Padded& in, bool causal) {
  const Tensor kv = concat({in.x, in.x * 0.5}, 2);
  const FusedAttentionOptions o = attention_options(in, causal);
  const auto [dq, dkv] =
      attention_backward(in.x, kv, o, attention_forward(in.x, kv, o), masked(in));
  return concat({dq, dkv}, 2);
}
/// The context, and the weights of 3 heads, in one row.
AttentionStep step_of(const Padded& in) {
  const Tensor kv = concat({in.x, in.x * 0.5}, 2);
  const Tensor own = arange(in.mask.size(), in.x.dtype()).reshape(in.mask.shape());
  const Tensor rows = where(in.mask, own, -1.0).to(DType::i32);
  return attention_step(queries_of(in), kv.reshape({-1, kv.dim(2)}), rows, {.heads = 3});
}

RecurrenceOf<Tensor> recurrence(const Padded& in, Cell cell, Direction direction) {
  return {.cell = cell, .mask = in.mask, .direction = direction};
}
Tensor recurrent(const Padded& in, Cell cell, Direction direction, bool gradient) {
  const Tensor w_x = weight({d, gates_of(cell) * 8}, in.x.dtype()),
               w_h = weight({8, gates_of(cell) * 8}, in.x.dtype()), xw = matmul(in.x, w_x);
  const auto o = recurrence(in, cell, direction);
  const RecurrentActivations states = recurrent_forward(xw, w_h, o);
  if (!gradient) return states.h;
  return recurrent_backward(xw, w_h, o, states,
                            states.h * in.mask.reshape(in.mask.shape().inserted(2, 1)))
      .dxw;
}

Tensor ctc_gradient(const Padded& in) {
  const Index batch = in.x.dim(1);
  const Tensor labels = full({1, batch}, 3, DType::i32);
  return ctc({in.x, in.mask, labels, Mask(ones({1, batch}, in.x.dtype())), 0}, true).dlogits;
}

/// Maps a batch to (T, B, ...), of which the sentence's steps are compared, or to (1, B, ...).
struct Operation {
  const char* name;
  std::function<Tensor(const Padded&)> f;
};

std::vector<Operation> operations() {
  std::vector<Operation> all = {
      {"softmax of columns", [](auto& in) { return softmax(scores_of(in), 0, in.mask); }},
      {"softmax of rows",
       [](auto& in) { return across(in, [](auto& x, auto& m) { return softmax(x, -1, m); }); }},
      {"softmax backward, columns",
       [](auto& in) {
         return softmax_backward(softmax(scores_of(in), 0, in.mask), scores_of(in), 0);
       }},
      {"softmax backward, rows",
       [](auto& in) {
         return across(in,
                       [](auto& x, auto& m) { return softmax_backward(softmax(x, -1, m), x, -1); });
       }},
      {"sparsemax", [](auto& in) { return sparsemax(scores_of(in), 0, in.mask); }},
      {"sparsemax of rows",
       [](auto& in) { return across(in, [](auto& x, auto& m) { return sparsemax(x, -1, m); }); }},
      {"log_sum_exp of columns",
       [](auto& in) { return log_sum_exp(hidden(in), 0, KeepAxes::yes); }},
      {"log_sum_exp of rows",
       [](auto& in) {
         return log_sum_exp(transpose(hidden(in), 0, 1), 1).reshape({1, -1});
       }},
      {"sum of columns", [](auto& in) { return sum(masked(in), {0}, KeepAxes::yes); }},
      {"sum of rows",
       [](auto& in) {
         return sum(transpose(scores_of(in) * in.mask, 0, 1), {1}).reshape({1, -1});
       }},
      {"norm of rows",
       [](auto& in) {
         return norm(transpose(scores_of(in) * in.mask, 0, 1), 1).reshape({1, -1});
       }},
      {"additive scores",
       [](auto& in) {
         return additive_scores_forward(queries_of(in), in.x, weight({d}, in.x.dtype()));
       }},
      {"dot scores",
       [](auto& in) {
         return permute(dot_scores_forward(queries_of(in), in.x, 3), {1, 2, 0});
       }},
      {"weighted sum",
       [](auto& in) {
         const Tensor c = weighted_sum_forward(softmax(scores_of(in), 0, in.mask), in.x);
         return c.reshape(c.shape().inserted(0, 1));
       }},
      {"a product of weights and values",
       [](auto& in) {
         const Tensor alpha = transpose(softmax(scores_of(in), 0, in.mask), 0, 1);
         return transpose(
             batched_matmul(alpha.reshape({in.x.dim(1), 1, -1}), transpose(in.x, 0, 1)), 0, 1);
       }},
      {"attention of one step",
       [](auto& in) {
         return step_of(in).y.reshape({1, in.x.dim(1), d});
       }},
      {"weights of one step",
       [](auto& in) {
         return permute(step_of(in).weights, {1, 2, 0});
       }},
      {"matmul",
       [](auto& in) {
         return matmul(in.x, weight({d, 40}, in.x.dtype()));
       }},
      {"unfold and matmul",
       [](auto& in) {
         const Tensor windows = unfold(masked(in), {.width = 3, .before = 1, .after = 1});
         return matmul(windows, weight({3 * d, 8}, in.x.dtype()));
       }},
      {"ctc", ctc_gradient},
  };
  for (const bool causal : {false, true}) {
    all.push_back(
        {causal ? "causal attention" : "attention", [=](auto& in) { return attend(in, causal); }});
    all.push_back({causal ? "causal attention, backward" : "attention, backward",
                   [=](auto& in) { return attend_backward(in, causal); }});
  }
  for (const Cell cell : {Cell::lstm, Cell::gru, Cell::gru_reset_before}) {
    for (const Direction direction : {Direction::forward, Direction::backward}) {
      for (const bool gradient : {false, true}) {
        all.push_back({operation_of(cell),
                       [=](auto& in) { return recurrent(in, cell, direction, gradient); }});
      }
    }
  }
  return all;
}

/// The part of a result that belongs to sentence b with `steps` steps: (steps, ...).
Tensor own(const Tensor& y, Index b, Index steps) {
  return slice(y, 1, b, b + 1).slice(0, std::min(steps, y.dim(0)));
}

}  // namespace

TEST_CASE("Padded batches: a sentence gives the same bits as alone") {
  const struct {
    std::vector<Index> sentences;
    Index steps;
  } batches[] = {{{4}, 41},          {{3}, 200},
                 {{6, 0}, 0},        {{1, 2, 3, 4, 5}, 0},
                 {{2, 2, 5, 0}, 96}, {{0, 1, 2, 3, 4, 5, 6, 5, 4, 3, 2, 1, 0}, 0}};
  for (const Operation& operation : operations()) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      for (const auto& [sentences, steps] : batches) {
        const Tensor y = operation.f(padded(sentences, dtype, steps));
        for (std::size_t b = 0; b < sentences.size(); ++b) {
          const Index i = sentences[b];
          const Tensor alone = operation.f(padded({i}, dtype));
          INFO(std::string(operation.name), ", ", std::string(name_of(dtype)), ", ", lengths[i],
               " of ", y.dim(0));
          CHECK(identical(own(y, static_cast<Index>(b), lengths[i]), own(alone, 0, lengths[i])));
        }
      }
    }
  }
}

}  // namespace attune
