// Packed matrices that are cached with the buffer of a weight. Not installed.
#pragma once

#include <attune/tensor/kernels/gemm.hpp>

namespace attune::detail {

/// How many products the caller is about to compute with the matrix.
enum class Uses { one, many };

/// The packed form of B, whose elements are in the buffer of `owner`. It is cached with that buffer
/// for later products (a weight at every step of a decoder), until the buffer is freed or modified
/// (Buffer::modified_at). The result is undefined if B is small; with Uses::one, at the first call,
/// as packing does not pay for a single product; and if the buffer already caches the maximum
/// number of forms (parts and transposes). Thread-safe.
template <class T>
PackedMatrix<T> cached_packed(const Tensor& owner, const MatrixView<const T>& b, Uses uses);

}  // namespace attune::detail
