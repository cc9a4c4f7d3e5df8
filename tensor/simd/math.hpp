// Elementwise exp, tanh and the logistic function on arrays, vectorised, with the instruction set
// chosen at run time.
//
// Every function is within 2 ulp of the exact value for every input, subnormal inputs and results
// included, and gives the limits at infinities and NaN for NaN. An element's result depends neither
// on its position nor on the array's length, so an array may be cut anywhere; it may differ in the
// last bits between instruction sets. Round-to-nearest and gradual underflow (the defaults of the
// floating-point environment) are taken for granted.
#pragma once

#include <cstddef>

namespace attune::simd {

/// y[i] = f(x[i]) for i < n. x and y may be the same array, but may not overlap otherwise. No
/// alignment is needed.
void exp(const float* x, float* y, std::size_t n);
void exp(const double* x, double* y, std::size_t n);
void tanh(const float* x, float* y, std::size_t n);
void tanh(const double* x, double* y, std::size_t n);
/// 1 / (1 + e^-x)
void sigmoid(const float* x, float* y, std::size_t n);
void sigmoid(const double* x, double* y, std::size_t n);

/// Name of the instruction set in use, for example "AVX2".
const char* target();

}  // namespace attune::simd
