// The logits of the target tokens that a sentence can generate.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include <attune/autograd/loss.hpp>
#include <attune/tensor/tensor.hpp>

namespace attune::models {

/// The tokens that each sentence of a batch can generate (see Shortlist). Logits of other tokens are
/// not computed.
class OutputSubsets {
 public:
  /// The ids of each sentence, ascending.
  explicit OutputSubsets(std::vector<std::vector<std::int32_t>> ids) : ids_(std::move(ids)) {}

  /// The sentences of the rows of the next step.
  void set_rows(std::vector<std::size_t> sentences);
  /// The number of a row's logits; beyond, they are -∞.
  Index size(Index row) const;
  /// The id of a row's logit.
  std::int32_t id(Index row, Index column) const;
  /// The logits (1, B, V) at the ids of each row: (B, most ids).
  Tensor logits(const AffineLogits& all);

 private:
  /// The columns of W (R, V) of a sentence, transposed: (ids, R).
  const Tensor& columns(const Tensor& W, std::size_t sentence);

  std::vector<std::vector<std::int32_t>> ids_;
  std::vector<std::size_t> sentences_;
  /// Those of a W, by sentence. Keeps W, so that no other gets its address: if it was computed for
  /// one step, until the next.
  struct Columns {
    Tensor W;
    std::map<std::size_t, Tensor> of;
  };
  std::map<const void*, Columns> columns_;
};

}  // namespace attune::models
