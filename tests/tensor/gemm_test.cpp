// Products of matrices in memory, with every instruction set of this CPU. The expected values
// follow the header: each element is one chain of multiply-adds in ascending k, bit for bit.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <attune/tensor/kernels/blas.hpp>
#include <attune/tensor/kernels/gemm.hpp>
#include <attune/tensor/matmul.hpp>

#include "support/naive.hpp"
#include "support/targets.hpp"
#include "support/threads_scope.hpp"

namespace attune {
namespace {

struct Sizes {
  Index m, k, n;
};

/// A matrix of normal numbers in memory, or its transpose. The memory before, after and between its
/// rows is NaN, so that a product which reads it becomes NaN.
template <class T>
struct Stored {
  static constexpr Index offset = 1, margin = 3;

  Stored(Index rows, Index cols, unsigned seed, bool transpose = false)
      : rows(rows), cols(cols), transposed(transpose) {
    const Index lines = transposed ? cols : rows, length = transposed ? rows : cols;
    stride = length + margin;
    memory.assign(static_cast<std::size_t>(lines * stride + margin),
                  std::numeric_limits<T>::quiet_NaN());
    std::mt19937 generator(seed);
    std::normal_distribution<T> normal;
    for (Index i = 0; i < lines; ++i) {
      for (Index j = 0; j < length; ++j) data()[i * stride + j] = normal(generator);
    }
  }

  T* data() { return memory.data() + offset; }
  MatrixView<T> view() { return {data(), rows, cols, stride, transposed}; }
  MatrixView<const T> read() const {
    return {memory.data() + offset, rows, cols, stride, transposed};
  }
  T operator()(Index i, Index j) const {
    return memory[static_cast<std::size_t>(offset +
                                           (transposed ? j * stride + i : i * stride + j))];
  }

  Index rows, cols, stride;
  bool transposed;
  std::vector<T> memory;
};

template <class T>
bool identical(const Stored<T>& x, const Stored<T>& y) {
  return std::memcmp(x.memory.data(), y.memory.data(), x.memory.size() * sizeof(T)) == 0;
}

/// Reference: adds a·b to c, element by element. `fused` is true if the instruction set has fused
/// multiply-adds.
template <class T>
Stored<T> chains(const Stored<T>& a, const Stored<T>& b, Stored<T> c, Into into, bool fused) {
  for (Index i = 0; i < c.rows; ++i) {
    for (Index j = 0; j < c.cols; ++j) {
      T sum = into == Into::add ? c(i, j) : T(0);
      for (Index k = 0; k < a.cols; ++k) {
        sum = fused ? std::fma(a(i, k), b(k, j), sum) : a(i, k) * b(k, j) + sum;
      }
      c.data()[i * c.stride + j] = sum;
    }
  }
  return c;
}

/// Compares the product of whole matrices, the one with B packed, and those of single rows of A.
template <class T>
void check_product(const Sizes& s, bool transpose_a, bool transpose_b, Into into) {
  CAPTURE(s.m);
  CAPTURE(s.k);
  CAPTURE(s.n);
  CAPTURE(transpose_a);
  CAPTURE(transpose_b);
  CAPTURE(static_cast<int>(into));
  const Stored<T> a(s.m, s.k, 1, transpose_a), b(s.k, s.n, 2, transpose_b), before(s.m, s.n, 3);
  Stored<T> whole = before, packed = before, rows = before;
  gemm<T>(a.read(), b.read(), whole.view(), into);
  gemm<T>(a.read(), PackedMatrix<T>(b.read()), packed.view(), into);
  for (Index i = 0; i < s.m; ++i) {
    gemm<T>({a.read().data + i * (transpose_a ? 1 : a.stride), 1, s.k, a.stride, transpose_a},
            b.read(), {rows.data() + i * rows.stride, 1, s.n, rows.stride}, into);
  }
  CHECK((identical(whole, chains(a, b, before, into, true)) ||
         identical(whole, chains(a, b, before, into, false))));
  CHECK(identical(packed, whole));
  CHECK(identical(rows, whole));
}

void check_product(const Sizes& s) {
  for (int transposes = 0; transposes < 4; ++transposes) {
    for (Into into : {Into::overwrite, Into::add}) {
      check_product<float>(s, transposes & 1, transposes & 2, into);
      check_product<double>(s, transposes & 1, transposes & 2, into);
    }
  }
}

}  // namespace

TEST_CASE("gemm: an element is one chain of multiply-adds, in a batch and alone, at odd sizes") {
  test::for_each_target([] {
    std::mt19937 generator(1);
    std::uniform_int_distribution<Index> size(1, 70);
    for (int i = 0; i < 12; ++i) {
      const Index m = size(generator), k = size(generator), n = size(generator);
      check_product({m, k, n});
    }
    for (const Sizes& s : {Sizes{1, 1, 1}, Sizes{1, 9, 1}, Sizes{40, 3, 1}, Sizes{1, 7, 66},
                           Sizes{64, 64, 64}, Sizes{8, 5, 33}, Sizes{9, 5, 33}}) {
      check_product(s);
    }
  });
}

TEST_CASE("gemm: an element is one chain across borders of tiles and blocks of k") {
  // With 1021, rows of A, or columns of a transposed A, are 1024 elements apart: whole pages.
  test::for_each_target([] {
    for (const Sizes& s : {Sizes{1, 515, 300}, Sizes{20, 257, 290}, Sizes{1021, 3, 35},
                           Sizes{9, 1021, 130}, Sizes{9, 1030, 270}, Sizes{15, 500, 540}}) {
      check_product(s);
    }
  });
}

TEST_CASE("gemm: a contiguous column gives the same chains") {
  for (int transposes = 0; transposes < 4; ++transposes) {
    const Stored<float> a(37, 19, 1, transposes & 1), b(19, 1, 2, transposes & 2);
    Stored<float> c(37, 1, 3);
    std::vector<float> column(37);
    for (Index i = 0; i < 37; ++i) column[static_cast<std::size_t>(i)] = c(i, 0);
    gemm<float>(a.read(), b.read(), c.view(), Into::add);
    gemm<float>(a.read(), b.read(), {column.data(), 37, 1, 1}, Into::add);
    for (Index i = 0; i < 37; ++i) CHECK(column[static_cast<std::size_t>(i)] == c(i, 0));
  }
}

/// The largest difference between our product and that of BLAS, relative to BLAS's largest element.
template <class T>
double difference_from(const detail::Blas& blas, const Sizes& s, int transposes, Into into) {
  const Stored<T> a(s.m, s.k, 1, transposes & 1), b(s.k, s.n, 2, transposes & 2);
  Stored<T> ours(s.m, s.n, 3), theirs = ours;
  gemm<T>(a.read(), b.read(), ours.view(), into);
  blas.gemm<T>(a.read(), b.read(), theirs.view(), into);
  double difference = 0, largest = 0;
  for (Index i = 0; i < s.m; ++i) {
    for (Index j = 0; j < s.n; ++j) {
      difference = std::max<double>(difference, std::abs(ours(i, j) - theirs(i, j)));
      largest = std::max<double>(largest, std::abs(theirs(i, j)));
    }
  }
  return difference / largest;
}

TEST_CASE("gemm: agrees with OpenBLAS, if it is installed") {
  std::optional<detail::Blas> blas;
  try {
    blas.emplace("openblas");
  } catch (const Error&) {
    return;
  }
  for (const Sizes& s :
       {Sizes{1, 90, 40}, Sizes{70, 1300, 33}, Sizes{260, 1100, 2000}, Sizes{2000, 1100, 260}}) {
    for (int transposes = 0; transposes < 4; ++transposes) {
      const Into into = transposes % 2 ? Into::overwrite : Into::add;
      CHECK(difference_from<float>(*blas, s, transposes, into) <= 1e-5);
      CHECK(difference_from<double>(*blas, s, transposes, into) <= 1e-12);
    }
  }
}

TEST_CASE("gemm: one and two threads give the same bits") {
  const test::ThreadsScope scope(1);
  for (const Sizes& s : {Sizes{1, 600, 700}, Sizes{64, 192, 600}, Sizes{600, 300, 90}}) {
    for (bool transposed : {false, true}) {
      const Stored<float> a(s.m, s.k, 1, transposed), b(s.k, s.n, 2, transposed);
      Stored<float> one(s.m, s.n, 3), two = one, packed = one;
      set_threads(1);
      gemm<float>(a.read(), b.read(), one.view(), Into::add);
      set_threads(2);
      gemm<float>(a.read(), b.read(), two.view(), Into::add);
      gemm<float>(a.read(), PackedMatrix<float>(b.read()), packed.view(), Into::add);
      CHECK(identical(one, two));
      CHECK(identical(one, packed));
    }
  }
}

TEST_CASE("gemm: overwriting does not read C, even if it holds NaN") {
  for (Index m : {1, 30}) {
    const Stored<float> a(m, 4, 1), b(4, 5, 2);
    Stored<float> c(m, 5, 3), clean = c;
    for (float& x : c.memory) x = std::numeric_limits<float>::quiet_NaN();
    gemm<float>(a.read(), b.read(), c.view());
    gemm<float>(a.read(), b.read(), clean.view());
    CHECK(identical(c, clean));
  }
}

TEST_CASE("gemm: NaN and infinity in A or B reach exactly the elements of C that depend on them") {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (Index m : {3, 30}) {
    Stored<float> a(m, 4, 1), b(4, 37, 2), c(m, 37, 3);
    for (Index i = 0; i < m; ++i) a.data()[i * a.stride + 1] = 0;  // 0 · NaN is NaN
    b.data()[b.stride + 35] = nan;
    a.data()[2 * a.stride + 3] = infinity;
    gemm<float>(a.read(), b.read(), c.view());
    for (Index i = 0; i < m; ++i) {
      for (Index j = 0; j < 37; ++j) {
        CHECK(std::isnan(c(i, j)) == (j == 35));
        if (j != 35) CHECK(std::isinf(c(i, j)) == (i == 2));
      }
    }
  }
}

TEST_CASE("gemm: empty matrices; with K = 0, adding does not change C") {
  const Stored<double> none(2, 0, 1), nothing(0, 3, 2);
  const PackedMatrix<double> packed(nothing.read());
  Stored<double> c(2, 3, 3);
  const Stored<double> before = c;
  gemm<double>({nullptr, 0, 4, 4}, {nullptr, 4, 3, 3}, {nullptr, 0, 3, 3});
  gemm<double>({nullptr, 2, 4, 4}, {nullptr, 4, 0, 0}, {nullptr, 2, 0, 0});
  gemm<double>(none.read(), nothing.read(), c.view(), Into::add);
  gemm<double>(none.read(), packed, c.view(), Into::add);
  CHECK(identical(c, before));
  gemm<double>(none.read(), nothing.read(), c.view());
  CHECK(identical(c, chains(none, nothing, before, Into::overwrite, true)));
  c = before;
  gemm<double>(none.read(), packed, c.view());
  CHECK(identical(c, chains(none, nothing, before, Into::overwrite, true)));
}

TEST_CASE("gemm: mismatched shapes are an error") {
  double x[12] = {};
  const PackedMatrix<double> packed({x, 2, 3, 3});
  CHECK_ERROR("gemm: shapes do not fit: (2, 3) x (2, 3) -> (2, 3)",
              gemm<double>({x, 2, 3, 3}, {x, 2, 3, 3}, {x, 2, 3, 3}));
  CHECK_ERROR("gemm: shapes do not fit: (2, 3) x (2, 3) -> (2, 3)",
              gemm<double>({x, 2, 3, 3}, packed, {x, 2, 3, 3}));
  CHECK_THROWS_AS((gemm<double>({x, 2, 3, 3}, {x, 3, 2, 2}, {x, 2, 2, 2, true})), Error);
}

}  // namespace attune
