// Vectorised inner loops: recurrent cells, attention, Adam, and Philox. The
// instruction set is selected at run time. Each function processes one row of n elements; the
// caller loops over rows and threads. Unless documented otherwise, pointers are to n elements, and
// outputs must not overlap inputs. Pointers need no alignment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <attune/tensor/kernels/simd/functions.hpp>
#include <attune/tensor/shape.hpp>

namespace attune::simd {

/// One row of an LSTM cell. Blocks of n elements in the order i f g o:
///     [i f g o] = [σ σ tanh σ](xw + hw),   c = f ⊙ c_prev + i ⊙ g,   h = o ⊙ tanh(c)
template <class T>
struct LstmForwardRow {
  const T *xw, *hw;  // 4n
  const T* c_prev;
  T* gates;  // 4n, activated
  T *c, *h;
};

/// Gradient of LstmForwardRow: dh and dc are ∂L/∂h and ∂L/∂c; dc becomes ∂L/∂c_prev.
template <class T>
struct LstmBackwardRow {
  const T* gates;  // 4n
  const T *c_prev, *c, *dh;
  T* dc;
  T* dgates;  // 4n, before the activations
};

/// A row of a GRU cell is computed in two parts. First the gates, in the order r z n:
///     r, z = σ(xw + hw),   rh = r ⊙ h_prev
template <class T>
struct GruResetRow {
  const T *xw, *hw;  // 2n
  const T* h_prev;
  T* gates;  // 2n: r, z
  T* rh;     // null with the reset gate after the product
};
/// Second the new state, with the reset gate before the product (Cho et al., 2014) or after it
/// (cuDNN, PyTorch):
///     n = tanh(xw_n + hw_n) for hw = rh W   or   tanh(xw_n + r ⊙ (hw_n + b_hn)) for hw = h_prev W,
///     h = (1 - z) ⊙ n + z ⊙ h_prev
template <class T>
struct GruUpdateRow {
  const T *xw_n, *hw_n, *z, *h_prev;
  T *n, *h;
  const T *r = nullptr, *b_hn = nullptr;  // only with the reset gate after the product
  T* hidden = nullptr;                    // output hw_n + b_hn, with that reset gate
};

/// Their gradients, in the opposite order. `dn` is the gradient of the argument of tanh.
template <class T>
struct GruUpdateBackwardRow {
  const T *z, *n, *h_prev, *dh;
  T *dz, *dn;  // before the activations
  T* dh_prev;  // dh ⊙ z
};
/// Gradient of r ⊙ x, where x is h_prev or, with the reset gate after the product, hw_n + b_hn.
template <class T>
struct GruResetBackwardRow {
  const T *r, *x, *drx;
  T* dr;  // before the activation
  T* dx;  // += drx ⊙ r
};

/// One row of layer_norm_forward (tensor/kernels/normalize.hpp), of n elements.
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

/// Runs any of the Row structs of this header on a row of n elements.
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

/// The largest of x; -∞ if n = 0. If x contains NaN, the result may be NaN or a smaller element.
template <class T>
T largest(const T* x, Index n);
/// Terms of a softmax's sum that are added in T; these partial sums are added in double.
inline constexpr Index sum_block = 512;

/// Σ_i e^{x_i - shift}; trailing -∞ change no bit. Stores the terms in y, which may be x or null;
/// with y, terms below 2^-100 (f64: 2^-996) count as 0.
template <class T>
T sum_exp(const T* x, T shift, Index n, T* y = nullptr);

/// One row of a softmax over the positions whose mask is not 0:  y_i = e^{x_i} / Σ_j e^{x_j}. The
/// others are 0, even if x is NaN there. All are 0 if no position takes part or all are -∞. Masked
/// positions at the end do not change the bits of the others.
template <class T>
struct SoftmaxRow {
  const T* x;
  const T* mask;  // null: all positions take part
  T* y;
};

/// One row of the gradient of fused attention (tensor/kernels/fused_attention.hpp): p holds the scores s
/// and dp the gradients of the weights after dropout. With w = factor e^{s - shift} and the
/// dropout's factors m,
///     p = w ⊙ m,   dp = w ⊙ (dp ⊙ m - delta)
/// where e^{s - shift} below 2^-100 (f64: 2^-996) counts as 0.
template <class T>
struct AttentionGradientRow {
  T *p, *dp;
  const T* m;  // null: ones
  T shift, factor, delta;
};

/// One query of attention_step (tensor/kernels/fused_attention.hpp): its scores with n keys in K heads,
/// scores_ki = scale · q_k · keys_i. Heads of the query in groups of `group` use the same key.
template <class T>
struct StepScoresRow {
  const T* q;            // K · size
  const T* const* keys;  // n rows of K / group · size
  Index heads, group, size;
  T scale;
  T* scores;  // (K, n)
};
/// Its result, y_k = Σ_i factors_k weights_ki values_i, added in ascending i.
template <class T>
struct StepSumRow {
  const T *weights, *factors;  // (K, n), (K)
  const T* const* values;      // n rows of K / group · size
  Index heads, group, size;
  T* y;  // K · size
};

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
/// where `rate` and `root` include the bias corrections, and `decay` is the fraction of w that
/// decoupled weight decay subtracts in a step (Loshchilov and Hutter, 2019).
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

/// Name of the instruction set in use, for example "AVX2".
const char* target();

/// Blocks [first, first + count) of a stream, four words each (tensor/random.hpp).
void philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, std::size_t count,
            std::uint32_t* words);

/// min(low + range u, last), where u in [0, 1) is the leading 53 bits of two words (of 2n).
template <class T>
void uniform(const std::uint32_t* words, double low, double range, double last, T* y, Index n);
/// Standard normal numbers √(-2 ln(1 - u)) cos(2π v), where u and v are of two words each (of 4n).
template <class T>
void normal(const std::uint32_t* words, T* y, Index n);

}  // namespace attune::simd
