// Packed matrices that are kept with the buffer they were packed from. Not installed.
#pragma once

#include <attune/tensor/gemm.hpp>

namespace attune::detail {

/// How many products the caller is about to make of the matrix.
enum class Uses { one, many };

/// B in packed form, where the elements of B are in the buffer of `owner`. The packed form is kept
/// with that buffer for later products (a weight at every step of a decoder). It is freed with the
/// buffer, and replaced when B is asked for after a modification (Buffer::modified_at). With
/// Uses::one the result is undefined until B is asked for a second time, as packing does not pay
/// for a single product, and always if B is small. It is also undefined where the buffer has too
/// many forms (parts and transposes) already. Any thread may call this.
template <class T>
PackedMatrix<T> kept_packed(const Tensor& owner, const MatrixView<const T>& b, Uses uses);

}  // namespace attune::detail
