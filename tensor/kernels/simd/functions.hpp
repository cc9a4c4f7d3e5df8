// The elementwise functions of tensor/functions.inc, compiled for every instruction set.
#pragma once

#include <concepts>

#include <attune/tensor/shape.hpp>

namespace attune::simd {

/// Constants named after the functions.
enum class Function {
#define ATTUNE_FUNCTION(name, kept, value, gradient) name,
#include <attune/tensor/functions.inc>
};

/// y_i = f(x_i); y may be x. The error is at most 3 ulp (exp, log, log1p, tanh, sigmoid, softplus,
/// atan, erf: 2) for every x, subnormal values included; limits at infinities; NaN for NaN. The
/// result of an element depends neither on its position nor on n, and is the same for all
/// instruction sets with fused multiply-add. Requires round-to-nearest and gradual underflow (the
/// defaults).
template <class T>
void apply(Function f, const T* x, T* y, Index n);
/// dx = dy f'(x), where `kept` is x or f(x), see functions.inc; 0 where dy is 0. In f32 at most 4
/// ulp from the exact slope at `kept`.
template <class T>
void apply_gradient(Function f, const T* dy, const T* kept, T* dx, Index n);

/// y_i = x_i^b as std::pow defines it, at most 2 ulp in f32, 4 in f64; dx = dy ∂y/∂x, 0 where dy is 0.
template <class T>
void power(const T* x, T b, T* y, Index n);
template <class T>
void power(const T* x, const T* b, T* y, Index n);
template <class T>
void power_gradient(const T* dy, const T* x, T b, T* dx, Index n);

template <std::floating_point T>
T power(T x, T b) {
  power(&x, b, &x, 1);
  return x;
}

// exp(x, y, n) and so on, and exp(x) of one number.
#define ATTUNE_FUNCTION(name, kept, value, gradient) \
  template <class T>                                 \
  void name(const T* x, T* y, Index n) {             \
    apply(Function::name, x, y, n);                  \
  }                                                  \
  template <std::floating_point T>                   \
  T name(T x) {                                      \
    apply(Function::name, &x, &x, 1);                \
    return x;                                        \
  }
#include <attune/tensor/functions.inc>

}  // namespace attune::simd
