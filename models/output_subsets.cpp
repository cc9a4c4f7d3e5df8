#include <algorithm>
#include <limits>

#include <attune/models/output_subsets.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/index.hpp>
#include <attune/tensor/kernels/simd/kernels.hpp>
#include <attune/tensor/loops.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune::models {

void OutputSubsets::set_rows(std::vector<std::size_t> sentences) {
  sentences_ = std::move(sentences);
  std::erase_if(columns_, [](const auto& one) { return one.second.W.unique(); });
}

Index OutputSubsets::size(Index row) const { return std::ssize(ids_[sentences_[row]]); }

std::int32_t OutputSubsets::id(Index row, Index column) const {
  return ids_[sentences_[row]][column];
}

Tensor OutputSubsets::logits(const AffineLogits& all) {
  const Tensor &x = all.x.value(), &W = all.affine.W.value(), &bias = all.affine.b.value();
  ShapeCheck check("OutputSubsets");
  check("rows", {1, std::ssize(sentences_)}, "T B")("outputs", x, "T B R");
  const Index v = W.defined() ? W.dim(all.affine.transposed ? 0 : 1) : x.dim(-1);
  Index width = 0;
  for (const std::size_t sentence : sentences_) {
    const std::vector<std::int32_t>& ids = ids_[sentence];
    width = std::max<Index>(width, std::ssize(ids));
    if (!ids.empty() && (ids.front() < 0 || ids.back() >= v))
      fail("OutputSubsets", "the tokens {} to {} are not in 0 to {}", ids.front(), ids.back(),
           v - 1);
  }
  Tensor y = full({check['B'], width}, -std::numeric_limits<double>::infinity(), x.dtype());
  std::vector<Tensor> copies;  // (ids, R) of each row, if W is not transposed
  for (const std::size_t sentence : sentences_)
    if (W.defined() && !all.affine.transposed) copies.push_back(columns(W, sentence));
  const attune::detail::OrNull weights{W}, biases{bias};
  const auto compute = [&]<class T>(Index row, const T* outputs, const T* w, const T* b, T* to) {
    const std::vector<std::int32_t>& ids = ids_[sentences_[row]];
    const Index n = std::ssize(ids), r = check['R'];
    const T* const own = outputs + row * r;
    to += row * width;
    if (!w) return void(std::ranges::transform(ids, to, [&](std::int32_t id) { return own[id]; }));
    std::vector<const T*> rows(ids.size());  // of Wᵀ
    const T* const copied = copies.empty() ? nullptr : copies[row].template data<T>();
    for (Index i = 0; i < n; ++i) rows[i] = copied ? copied + i * r : w + ids[i] * r;
    simd::run(simd::StepScoresRow<T>{own, rows.data(), 1, 1, r, T(1), to}, n);
    for (Index i = 0; b && i < n; ++i) to[i] += b[ids[i]];
  };
  parallel_rows("logits", std::tie(x, weights, biases, y), check['B'],
                rows_of_tile(width * check['R']), compute);
  return y;
}

const Tensor& OutputSubsets::columns(const Tensor& W, std::size_t sentence) {
  auto& [kept, columns] = columns_[bytes_of(W).data()];
  kept = W;
  Tensor& own = columns[sentence];
  const std::vector<std::int32_t>& ids = ids_[sentence];
  if (!own.defined())
    own = transpose(gather(W, Tensor::of<std::int32_t>({std::ssize(ids)}, ids), 1), 0, 1);
  return own;
}

}  // namespace attune::models
