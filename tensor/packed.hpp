// Packed matrices that are kept with the buffer they were packed from. Not installed.
#pragma once

#include <attune/tensor/gemm.hpp>

namespace attune::detail {

/// How many products the caller is about to make of the matrix.
enum class Uses { one, many };

/// B packed, where B stands in the buffer of `owner`. It is kept with that buffer, for later
/// products (a weight at every step of a decoder), until the buffer is freed, or modified (as its
/// clock says) and asked for again. With Uses::one it is undefined until B is seen for the second
/// time: packing what is used once does not pay. A buffer has a few forms at most: of parts, and
/// transposes. Any thread may call.
template <class T>
PackedMatrix<T> kept_packed(const Tensor& owner, const MatrixView<const T>& b, Uses uses);

}  // namespace attune::detail
