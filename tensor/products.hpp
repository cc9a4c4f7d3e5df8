// What makes the matrix products.
#pragma once

#include <string>

#include <attune/tensor/gemm.hpp>

namespace attune {

/// Matrix products are made by attune's own kernels, and large ones by BLAS where it is faster:
/// gradients of weights, and those whose caller allows it (Rows::together).
/// attune's kernels make all of them where attune was built without BLAS, where BLAS's kernels use
/// narrower registers than attune's (OPENBLAS_CORETYPE can do that), and where ATTUNE_TARGET asks
/// for results that another CPU can repeat (simd_target.hpp). The environment may choose:
/// ATTUNE_PRODUCTS=attune, or ATTUNE_PRODUCTS=openblas for BLAS whatever its kernels. Any other
/// value is an Error, here and in large products.
///
/// The result is "OpenBLAS (Cooperlake) and attune (avx3)", or "attune (avx3)". Where this text is
/// the same, a program gives the same bits for any number of threads; where it differs, so does the
/// rounding of sums.
///
/// From its first product on, OpenBLAS uses one thread for each call in the whole process
/// (openblas_set_num_threads): attune's threads call it side by side.
std::string products();

/// Whether each row of a product must be the same, to the bit, whatever the other rows are: in
/// decoding, a sentence's words must not depend on the other sentences of the batch. With
/// `together` the fastest product is used: in training, the result depends on the whole batch
/// anyway.
enum class Rows { apart, together };

namespace detail {

/// Whether BLAS makes a·b: a matter of the sizes, and of what the caller asks for.
template <class T>
bool made_by_blas(const MatrixView<const T>& a, const MatrixView<const T>& b, Rows rows);

}  // namespace detail
}  // namespace attune
