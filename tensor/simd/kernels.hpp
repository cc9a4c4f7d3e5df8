// exp, tanh, σ, the fused inner loops of the recurrent cells, of attention and of Adam, and Philox,
// vectorised, with the instruction set chosen at run time. Each handles one row of n elements;
// which rows, in which order and in which thread is the caller's business. All pointers are to n
// elements unless said otherwise, need no alignment, and outputs may not overlap inputs unless said
// so.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <attune/tensor/shape.hpp>

namespace attune::simd {

/// y_i = e^{x_i}, tanh x_i and 1 / (1 + e^{-x_i}), where y may be x: within 2 ulp of the exact
/// value for every x, subnormal ones and results included; the limits at infinities, and NaN for
/// NaN. An element's result depends neither on its position nor on n. Round-to-nearest and gradual
/// underflow (the defaults of the floating-point environment) are taken for granted.
template <class T>
void exp(const T* x, T* y, Index n);
template <class T>
void tanh(const T* x, T* y, Index n);
template <class T>
void sigmoid(const T* x, T* y, Index n);

/// One row of an LSTM cell. Blocks of n elements in the order i f g o:
///     [i f g o] = [σ σ tanh σ](xw + hw),   c = f ⊙ c_prev + i ⊙ g,   h = o ⊙ tanh(c)
template <class T>
struct LstmForwardRow {
  const T *xw, *hw;  // 4n
  const T* c_prev;
  T* gates;  // 4n, activated
  T *c, *h;
};

/// Its backward pass: dh and dc are ∂L/∂h and ∂L/∂c; dc becomes ∂L/∂c_prev.
template <class T>
struct LstmBackwardRow {
  const T* gates;  // 4n
  const T *c_prev, *c, *dh;
  T* dc;
  T* dgates;  // 4n, before the activations
};

/// The two halves of a row of a GRU cell. The gates, in the order r z n:
///     r, z = σ(xw + hw),   rh = r ⊙ h_prev
template <class T>
struct GruResetRow {
  const T *xw, *hw;  // 2n
  const T* h_prev;
  T* gates;  // 2n: r, z
  T* rh;     // null with the reset gate after the product
};
/// The new state, with the reset gate before the product (Cho et al., 2014) or after it (cuDNN,
/// PyTorch):
///     n = tanh(xw_n + hw_n) for hw = rh W   or   tanh(xw_n + r ⊙ (hw_n + b_hn)) for hw = h_prev W,
///     h = (1 - z) ⊙ n + z ⊙ h_prev
template <class T>
struct GruUpdateRow {
  const T *xw_n, *hw_n, *z, *h_prev;
  T *n, *h;
  const T *r = nullptr, *b_hn = nullptr;  // after the product only
  T* hidden = nullptr;                    // hw_n + b_hn, likewise
};

/// Their backward passes, in the opposite order. `dn` is ∂L/∂ the argument of tanh.
template <class T>
struct GruUpdateBackwardRow {
  const T *z, *n, *h_prev, *dh;
  T *dz, *dn;  // before the activations
  T* dh_prev;  // dh ⊙ z
};
/// Of r ⊙ x, where x is h_prev or, after the product, hw_n + b_hn.
template <class T>
struct GruResetBackwardRow {
  const T *r, *x, *drx;
  T* dr;  // before the activation
  T* dx;  // += drx ⊙ r
};

/// One row of layer_norm_forward (tensor/normalize.hpp), of n elements.
template <class T>
struct LayerNormRow {
  const T *x, *gain, *bias;
  T epsilon;
  T* y;
  T* moments;  // 4
};

/// One row of layer_norm_backward, which adds to dgain and dbias.
template <class T>
struct LayerNormBackwardRow {
  const T *x, *gain, *moments, *dy;
  T *dx, *dgain, *dbias;
};

/// Any of these and those below, for a row of n elements.
template <class Row>
void run(const Row& row, Index n);

/// v · tanh(q + k)
template <class T>
T additive_score(const T* q, const T* k, const T* v, Index n);

/// With t = tanh(q + k):  g = de v ⊙ (1 - t²),  dq += g,  dk += g,  dv += de t
template <class T>
struct AdditiveScoreBackwardRow {
  const T *q, *k, *v;
  T de;
  T *dq, *dk, *dv;
};

/// x · y
template <class T>
T dot(const T* x, const T* y, Index n);
/// Σ x², in double
template <class T>
double sum_of_squares(const T* x, Index n);
/// y += a x
template <class T>
void add_scaled(T a, const T* x, T* y, Index n);
/// x *= a
template <class T>
void scale(T a, T* x, Index n);

/// The largest of x, -∞ of none. Where some are NaN, it may be NaN or not the largest.
template <class T>
T largest(const T* x, Index n);
/// Elements of a softmax that are added up in T, before their sum joins that in double.
inline constexpr Index sum_block = 512;

/// Σ_i e^{x_i - shift}, to the bit the same with more -∞ at the end; stores the terms in y, which
/// may be x, unless it is null.
template <class T>
T sum_exp(const T* x, T shift, Index n, T* y = nullptr);

/// One row of a softmax over the places whose mask is not 0:  y_i = e^{x_i} / Σ_j e^{x_j}, and 0 at
/// the others, whatever x is there, NaN included. All are 0 where no place takes part, or only -∞
/// does. Masked places at the end do not change the bits of the others.
template <class T>
struct SoftmaxRow {
  const T* x;
  const T* mask;  // null: all take part
  T* y;
};

/// One row of the gradient of fused attention (tensor/fused_attention.hpp): p holds the scores s and
/// dp the gradients of the weights after dropout. With w = factor e^{s - shift} and the dropout's
/// factors m,
///     p = w ⊙ m,   dp = w ⊙ (dp ⊙ m - delta)
template <class T>
struct AttentionGradientRow {
  T *p, *dp;
  const T* m;  // null: ones
  T shift, factor, delta;
};

/// The tanh form of x Φ(x) (tensor/elementwise.hpp), and dx = dy ∂y/∂x of it.
template <class T>
void gelu(const T* x, T* y, Index n);
template <class T>
void gelu_backward(const T* x, const T* dy, T* dx, Index n);

/// One row of the gradient of a softmax cross-entropy:  dx = scale e^{x - shift} - even
template <class T>
struct SoftmaxGradientRow {
  const T* x;
  T shift, scale, even;
  T* dx;
};

/// Adam (Kingma and Ba, 2015, algorithm 1):
///     m = β₁ m + (1 - β₁) g,  v = β₂ v + (1 - β₂) g²,
///     w -= decay · w + rate · m / (√v · root + ε)
/// where `rate` and `root` hold the bias corrections, and `decay` is the share of w that decoupled
/// weight decay takes (Loshchilov and Hutter, 2019).
template <class T>
struct AdamRow {
  T *w, *m, *v;
  const T* gradient;
  T beta1, beta2, rate, root, epsilon;
  T decay = 0;
};

/// Block n of a stream: ten rounds of Philox4x32 (Salmon et al., 2011), with the paper's constants.
inline std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint64_t stream,
                                           std::uint64_t n) {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  std::array<std::uint32_t, 4> x{low(n), high(n), low(stream), high(stream)};
  std::uint32_t key0 = low(seed), key1 = high(seed);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * x[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57} * x[2];
    x = {high(p1) ^ x[1] ^ key0, low(p1), high(p0) ^ x[3] ^ key1, low(p0)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return x;
}

/// Blocks [first, first + count) of a stream, four words each (tensor/random.hpp).
void philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t count,
            std::uint32_t* words);

}  // namespace attune::simd
