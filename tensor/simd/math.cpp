#include <algorithm>

#include <attune/tensor/simd/dispatch.hpp>
#include <attune/tensor/simd/math.hpp>

// foreach_target.h compiles this file once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "attune/tensor/simd/math.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <attune/tensor/simd/math-inl.hpp>

HWY_BEFORE_NAMESPACE();
namespace attune::simd::HWY_NAMESPACE {
namespace {

struct ExpOp {
  template <class D>
  static HWY_INLINE hn::Vec<D> Apply(D d, hn::Vec<D> x) {
    return Exp(d, x);
  }
};

struct TanhOp {
  template <class D>
  static HWY_INLINE hn::Vec<D> Apply(D d, hn::Vec<D> x) {
    return Tanh(d, x);
  }
};

struct SigmoidOp {
  template <class D>
  static HWY_INLINE hn::Vec<D> Apply(D d, hn::Vec<D> x) {
    return Sigmoid(d, x);
  }
};

// n is a multiple of the vector length.
template <class Op, typename T>
HWY_NOINLINE void MapVectors(const T* x, T* y, std::size_t n) {
  const hn::ScalableTag<T> d;
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    hn::StoreU(Op::Apply(d, hn::LoadU(d, x + i)), d, y + i);
  }
}

// The last, incomplete vector takes the very instructions of the complete ones, in a padded copy,
// for an element's result not to depend on its position.
template <class Op, typename T>
HWY_INLINE void Map(const T* x, T* y, std::size_t n) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d);
  const std::size_t whole = n - n % lanes;
  if (whole != 0) MapVectors<Op>(x, y, whole);
  if (whole != n) {
    HWY_ALIGN T buffer[hn::MaxLanes(d)] = {};
    std::copy(x + whole, x + n, buffer);
    MapVectors<Op>(buffer, buffer, lanes);
    std::copy_n(buffer, n - whole, y + whole);
  }
}

void ExpFloat(const float* x, float* y, std::size_t n) { Map<ExpOp>(x, y, n); }
void ExpDouble(const double* x, double* y, std::size_t n) { Map<ExpOp>(x, y, n); }
void TanhFloat(const float* x, float* y, std::size_t n) { Map<TanhOp>(x, y, n); }
void TanhDouble(const double* x, double* y, std::size_t n) { Map<TanhOp>(x, y, n); }
void SigmoidFloat(const float* x, float* y, std::size_t n) { Map<SigmoidOp>(x, y, n); }
void SigmoidDouble(const double* x, double* y, std::size_t n) { Map<SigmoidOp>(x, y, n); }

const char* TargetName() { return hwy::TargetName(HWY_TARGET); }

}  // namespace
}  // namespace attune::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attune::simd {

HWY_EXPORT(ExpFloat);
HWY_EXPORT(ExpDouble);
HWY_EXPORT(TanhFloat);
HWY_EXPORT(TanhDouble);
HWY_EXPORT(SigmoidFloat);
HWY_EXPORT(SigmoidDouble);
HWY_EXPORT(TargetName);

void exp(const float* x, float* y, std::size_t n) { ATTUNE_DISPATCH(ExpFloat)(x, y, n); }
void exp(const double* x, double* y, std::size_t n) { ATTUNE_DISPATCH(ExpDouble)(x, y, n); }
void tanh(const float* x, float* y, std::size_t n) { ATTUNE_DISPATCH(TanhFloat)(x, y, n); }
void tanh(const double* x, double* y, std::size_t n) { ATTUNE_DISPATCH(TanhDouble)(x, y, n); }
void sigmoid(const float* x, float* y, std::size_t n) { ATTUNE_DISPATCH(SigmoidFloat)(x, y, n); }
void sigmoid(const double* x, double* y, std::size_t n) { ATTUNE_DISPATCH(SigmoidDouble)(x, y, n); }

const char* target() { return ATTUNE_DISPATCH(TargetName)(); }

}  // namespace attune::simd
#endif  // HWY_ONCE
