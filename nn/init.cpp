#include <cmath>
#include <vector>

#include <fmt/format.h>

#include <attune/nn/init.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn::init {
namespace {

template <class Next>
void generate(Tensor& x, Next next) {
  double* values = x.mutable_data<double>();
  for (Index i = 0; i < x.size(); ++i) values[i] = next();
}

/// Columns of one block of a matrix (rows, blocks · cols).
Index block_columns(const char* what, const Tensor& x, Index blocks) {
  if (x.rank() != 2 || blocks < 1 || x.dim(1) % blocks != 0) {
    const std::string blocks_in_it =
        blocks == 1 ? "" : fmt::format(" of {} blocks side by side", blocks);
    fail(what, fmt::format("a matrix{} was expected: {}", blocks_in_it, to_string(x.shape())));
  }
  return x.dim(1) / blocks;
}

double dot(const double* a, const double* b, Index n) {
  double total = 0;
  for (Index i = 0; i < n; ++i) total += a[i] * b[i];
  return total;
}

/// `count` orthonormal vectors of n >= count elements: Gram and Schmidt, each vector taken through
/// twice, which is enough for full precision (Giraud et al., 2005).
std::vector<double> orthonormal(Index count, Index n, Random& random) {
  std::vector<double> vectors(count * n);
  for (Index i = 0; i < count; ++i) {
    double* v = vectors.data() + i * n;
    for (Index k = 0; k < n; ++k) v[k] = random.normal();
    for (int pass = 0; pass < 2; ++pass) {
      for (Index j = 0; j < i; ++j) {
        const double* u = vectors.data() + j * n;
        const double along = dot(u, v, n);
        for (Index k = 0; k < n; ++k) v[k] -= along * u[k];
      }
      const double length = std::sqrt(dot(v, v, n));
      for (Index k = 0; k < n; ++k) v[k] /= length;
    }
  }
  return vectors;
}

}  // namespace

Init zeros() { return constant(0); }

Init constant(double value) {
  return [value](Tensor& x, Random&) { fill(x, value); };
}

Init uniform(double low, double high) {
  return [=](Tensor& x, Random& random) { generate(x, [&] { return random.uniform(low, high); }); };
}

Init normal(double standard_deviation) {
  return [=](Tensor& x, Random& random) {
    generate(x, [&] { return standard_deviation * random.normal(); });
  };
}

Init glorot(Index blocks) {
  return [blocks](Tensor& x, Random& random) {
    const Index fan_out = block_columns("glorot", x, blocks);
    const double limit = std::sqrt(6.0 / static_cast<double>(x.dim(0) + fan_out));
    uniform(-limit, limit)(x, random);
  };
}

Init orthogonal(Index blocks) {
  return [blocks](Tensor& x, Random& random) {
    const Index cols = block_columns("orthogonal", x, blocks), rows = x.dim(0);
    double* values = x.mutable_data<double>();
    for (Index block = 0; block < blocks; ++block) {
      const bool wide = cols > rows;
      const std::vector<double> q = orthonormal(std::min(rows, cols), std::max(rows, cols), random);
      for (Index r = 0; r < rows; ++r) {
        for (Index c = 0; c < cols; ++c) {
          values[r * x.dim(1) + block * cols + c] = q[wide ? r * cols + c : c * rows + r];
        }
      }
    }
  };
}

}  // namespace attune::nn::init
