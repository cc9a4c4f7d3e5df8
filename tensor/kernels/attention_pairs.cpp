#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/attention_pairs.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune::detail {
namespace {

/// The tokens i of (T, B) with row_of(i) >= 0.
template <class Row>
std::vector<Tokens> tokens_of(Index steps, Index sentences, const Row& row_of) {
  std::vector<Tokens> tokens(static_cast<std::size_t>(sentences));
  for (Tokens& of : tokens) of.positions.reserve(steps), of.rows.reserve(steps);
  for (Index i = 0; i < steps * sentences; ++i) {
    const Index row = row_of(i);
    if (row < 0) continue;
    tokens[i % sentences].positions.push_back(i / sentences);
    tokens[i % sentences].rows.push_back(row);
  }
  return tokens;
}

/// The tokens of x (T, B, ...) whose mask is not 0; all tokens if the mask is undefined.
std::vector<Tokens> padded_tokens(Index steps, Index sentences, const Mask& mask) {
  const std::vector<float> used = mask.defined() ? mask.to_vector<float>() : std::vector<float>();
  return tokens_of(steps, sentences,
                   [&](Index i) { return used.empty() || used[i] != 0 ? i : -1; });
}

/// The tokens of x (N, ...), by `rows` (T, B): each of the N rows once, and -1 on padding.
std::vector<Tokens> packed_tokens(const char* name, const Tensor& rows, Index n) {
  std::vector<bool> found(static_cast<std::size_t>(n));
  const std::int32_t* row = checked_ids("attention", name, rows, n, -1);
  for (Index i = 0; i < rows.size(); ++i) {
    if (row[i] < 0) continue;
    if (found[row[i]]) fail("attention", "{}s: row {} occurs twice", name, row[i]);
    found[row[i]] = true;
  }
  const auto missing = std::ranges::find(found, false);
  if (missing != found.end())
    fail("attention", "{}s: row {} is missing", name, missing - found.begin());
  return tokens_of(rows.dim(0), rows.dim(1), [&](Index i) { return row[i]; });
}

}  // namespace

Shape with_rank_4(Shape shape) {
  while (shape.rank() < 4) shape = shape.inserted(0, 1);
  return shape;
}

void require_fits_pairs(const char* operation, const char* name, const Tensor& x,
                        const Shape& pairs) {
  if (!x.defined()) return;
  const Shape shape = with_rank_4(x.shape());
  bool fits = shape.rank() == 4;
  for (int i = 0; fits && i < 4; ++i) fits = shape[i] == 1 || shape[i] == pairs[i];
  if (!fits)
    fail(operation, "{} {} does not broadcast to (B, K, T, S) = {}", name, x.shape(), pairs);
}

OfPairs::OfPairs(const Tensor& x) {
  if (!x.defined()) return;
  const Shape shape = with_rank_4(x.shape());
  values = x.reshape(shape);
  Index n = 1;
  for (int i = 3; i >= 0; n *= shape[i--]) strides[i] = shape[i] == 1 ? 0 : n;
}

Heads::Heads(const char* operation, const FusedAttentionOptions& o, Index size)
    : k(o.heads), g(o.kv_heads == 0 ? o.heads : o.kv_heads) {
  if (k < 1 || size % k != 0) fail(operation, "{} heads do not divide a size of {}", k, size);
  if (g < 1 || k % g != 0)
    fail(operation, "{} heads of the keys do not divide {} heads of the queries", g, k);
  a = size / k, a_v = o.value_size == 0 ? a : o.value_size;
  if (a_v < 0) fail(operation, "value_size = {} is negative", o.value_size);
}

Shape checked_pairs(const char* operation, const Tensor& q, const Tensor& kv,
                    const FusedAttentionOptions& o, const Tensor& bias) {
  ShapeCheck check(operation);
  if (o.query_rows.defined()) check("query_rows", o.query_rows, "T B");
  if (o.key_rows.defined()) check("key_rows", o.key_rows, "S B");
  check("q", q, o.query_rows.defined() ? "N D" : "T B D");
  const Heads heads(operation, o, check['D']);
  check("kv", kv, fmt::format("{} {}", o.key_rows.defined() ? "M" : "S B", heads.width()));
  if (o.mask.defined()) check("mask", o.mask, "S B");
  require_same_dtype(operation, q, kv);
  if (o.mask.defined() && o.key_rows.defined())
    fail(operation, "mask and key_rows exclude each other");
  if (!(o.dropout >= 0 && o.dropout < 1))
    fail(operation, "the dropout {} is not in [0, 1)", o.dropout);
  if (bias.defined()) require_same_dtype(operation, q, bias);
  const Shape pairs{check['B'], heads.k, check['T'], check['S']};
  require_fits_pairs(operation, "bias", bias, pairs);
  require_fits_pairs(operation, "attention_mask", o.attention_mask, pairs);
  return pairs;
}

AttentionProblem::AttentionProblem(const Tensor& q, const Tensor& kv,
                                   const FusedAttentionOptions& o, const Tensor& bias_in)
    : options(o) {
  const Shape pairs = checked_pairs("attention", q, kv, o, bias_in);
  b = pairs[0], t = pairs[2], s = pairs[3];
  heads = Heads("attention", o, q.dim(-1));
  bias = OfPairs(bias_in);
  mask = OfPairs(o.attention_mask.to(DType::f32));
  std::vector<Tokens> queries = o.query_rows.defined()
                                    ? packed_tokens("query_row", o.query_rows, q.dim(0))
                                    : padded_tokens(t, b, {}),
                      keys = o.key_rows.defined() ? packed_tokens("key_row", o.key_rows, kv.dim(0))
                                                  : padded_tokens(s, b, o.mask);
  for (std::size_t i = 0; i < queries.size(); ++i)
    seen.push_back({std::move(queries[i]), std::move(keys[i]), {}});
  if (mask.values.defined()) remove_unused_keys();
  find_ranges();
}

std::span<const Range> AttentionProblem::ranges(Index pair) const {
  const Seen& of = seen[static_cast<std::size_t>(pair / heads.k)];
  const auto n = of.queries.rows.size();
  return std::span(of.ranges).subspan(
      mask.strides[1] == 0 ? 0 : static_cast<std::size_t>(pair % heads.k) * n, n);
}

/// Removes the keys whose attention mask is 0 for all queries and heads.
void AttentionProblem::remove_unused_keys() {
  if (mask.strides[3] == 0 || mask.values.size() == 0) return;
  const Index of_sentence = mask.values.dim(1) * mask.values.dim(2) * s;
  std::vector<float> used;
  for (Index sentence = 0; sentence < b; ++sentence) {
    if (sentence == 0 || mask.strides[0] != 0) {
      const float* const m = mask.values.data<float>() + mask.offset(sentence, 0, 0);
      used.assign(m, m + s);
      for (const float* row = m; row < m + of_sentence; row += s)
        for (Index i = 0; i < s; ++i) used[i] = std::max(used[i], row[i]);
    }
    Tokens &keys = seen[static_cast<std::size_t>(sentence)].keys, kept;
    for (std::size_t i = 0; i < keys.rows.size(); ++i) {
      if (used[keys.positions[i]] == 0) continue;
      kept.positions.push_back(keys.positions[i]);
      kept.rows.push_back(keys.rows[i]);
    }
    keys = std::move(kept);
  }
}

/// The first and the last key + 1 of each row of the attention mask.
std::vector<Range> AttentionProblem::rows_of_mask() const {
  std::vector<Range> rows;
  if (!mask.values.defined()) return rows;
  const Index width = mask.values.dim(3);
  const float* const m = mask.values.data<float>();
  for (const float* row = m; row < m + mask.values.size(); row += width) {
    const float* const end = row + width;
    const float* const first = std::find_if(row, end, [](float v) { return v != 0; });
    const float* last = end;
    while (last > first && last[-1] == 0) --last;
    const bool all = std::find(first, last, 0.0f) == last;
    rows.push_back({first - row, width == 1 && first < last ? s : last - row, all ? nullptr : row});
  }
  return rows;
}

void AttentionProblem::find_ranges() {
  const std::vector<Range> rows = rows_of_mask();
  const Index masks = mask.strides[1] == 0 ? 1 : heads.k,
              width = rows.empty() ? 1 : mask.values.dim(3);
  for (std::size_t sentence = 0; sentence < seen.size(); ++sentence) {
    Seen& of = seen[sentence];
    const auto& positions = of.keys.positions;
    // The index of the first key at or after the position.
    const auto index_of = [&](Index position) -> Index {
      if (of.keys.count() == s) return position;
      return std::ranges::lower_bound(positions, position) - positions.begin();
    };
    of.ranges.reserve(static_cast<std::size_t>(masks * of.queries.count()));
    for (Index head = 0; head < masks; ++head) {
      for (const Index t_i : of.queries.positions) {
        const Index last = options.causal ? std::max<Index>(t_i + s - t + 1, 0) : s;
        Range range{0, index_of(std::min(last, s)), nullptr};
        if (!rows.empty()) {
          const Range& row = rows[static_cast<std::size_t>(
              mask.offset(static_cast<Index>(sentence), head, t_i) / width)];
          range = {index_of(row.from), std::min(range.until, index_of(row.until)), row.mask};
          if (range.from >= range.until) range = {};
        }
        of.ranges.push_back(range);
      }
    }
  }
}

Range span_of(std::span<const Range> ranges) {
  Range all{std::numeric_limits<Index>::max(), 0, nullptr};
  for (const Range& range : ranges) {
    if (range.count() == 0) continue;
    all = {std::min(all.from, range.from), std::max(all.until, range.until), nullptr};
  }
  return all.until == 0 ? Range{} : all;
}

}  // namespace attune::detail
