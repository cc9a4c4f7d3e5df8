// f32 rounded to bfloat16 (8 bits of significand), for messages of half the size. Not installed.
#pragma once

#include <attune/tensor/tensor.hpp>

namespace attune::nn::detail {

/// Each element (f32) to the nearest bfloat16, ties to even; it stays an f32.
void round_to_bf16(Tensor& x);

/// Two such elements in each i32.
Tensor pack_bf16(const Tensor& x);
Tensor unpack_bf16(const Tensor& packed, Shape shape);
inline Index packed_size(Index elements) { return (elements + 1) / 2; }

}  // namespace attune::nn::detail
