#include <bit>
#include <cstdint>

#include <attune/nn/bf16.hpp>
#include <attune/tensor/threads.hpp>

namespace attune::nn::detail {
namespace {

constexpr Index tile = Index{1} << 16;  // elements of one thread at a time

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

float rounded(float x) {
  const std::uint32_t b = bits(x);
  // Rounding what is not a number could make it infinite.
  const std::uint32_t nearest = x != x ? b | 0x400000 : b + 0x7fff + ((b >> 16) & 1);
  return std::bit_cast<float>(nearest & 0xffff0000);
}

}  // namespace

void round_to_bf16(Tensor& x) {
  float* elements = x.mutable_data<float>();
  parallel_ranges(x.size(), tile, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) elements[i] = rounded(elements[i]);
  });
}

Tensor pack_bf16(const Tensor& x) {
  Tensor packed = Tensor::uninitialized({packed_size(x.size())}, DType::i32);
  const float* from = x.data<float>();
  std::int32_t* to = packed.mutable_data<std::int32_t>();
  const Index n = x.size();
  parallel_ranges(packed.size(), tile, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const std::uint32_t low = bits(from[2 * i]) >> 16;
      const std::uint32_t high = 2 * i + 1 < n ? bits(from[2 * i + 1]) & 0xffff0000 : 0;
      to[i] = std::bit_cast<std::int32_t>(low | high);
    }
  });
  return packed;
}

Tensor unpack_bf16(const Tensor& packed, Shape shape) {
  Tensor x = Tensor::uninitialized(std::move(shape), DType::f32);
  const std::int32_t* from = packed.data<std::int32_t>();
  float* to = x.mutable_data<float>();
  const Index n = x.size();
  parallel_ranges(packed.size(), tile, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const auto both = std::bit_cast<std::uint32_t>(from[i]);
      to[2 * i] = std::bit_cast<float>(both << 16);
      if (2 * i + 1 < n) to[2 * i + 1] = std::bit_cast<float>(both & 0xffff0000);
    }
  });
  return x;
}

}  // namespace attune::nn::detail
