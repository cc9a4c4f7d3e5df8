#include <doctest/doctest.h>

#include <attune/tensor/arrange.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/random.hpp>

#include "support/naive.hpp"

namespace attune {
namespace {

struct Sizes {
  Index m, k, n;
};

constexpr Transpose all_transposes[] = {{}, {.a = true}, {.b = true}, {.a = true, .b = true}};

}  // namespace

TEST_CASE(
    "matmul: a reused weight gives the same bits as a fresh copy, also after a modification") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const bool transposed : {false, true}) {
      Tensor w = randn(transposed ? Shape{45, 70} : Shape{70, 45}, dtype);
      for (int i = 0; i < 9; ++i) {
        if (i % 3 == 2) scale_in_place(w, -0.3);
        for (const Index m : {1, 5, 64}) {
          const Tensor a = randn({m, 70}, dtype, 2);
          const Transpose t{.b = transposed};
          CHECK(identical(matmul(a, w, t), matmul(a, w.clone(), t)));
        }
      }
    }
  }
}

TEST_CASE("matmul: long sums are as exact as sum, and a row has the same bits in a batch") {
  Random random(1);
  for (const Index k : {4096, 4097, 6144, 100003}) {
    const Tensor a = uniform({6, k}, random), b = uniform({k, 20}, random);
    const Tensor c = matmul(a, b), right = matmul(a.to(DType::f64), b.to(DType::f64));
    CHECK(difference(c.to(DType::f64), right) <= (k < 100003 ? 5e-6 : 5e-7));
    CHECK(identical(matmul(a[4].reshape({1, k}), b), c.slice(4, 5)));
    CHECK(identical(matmul(a.slice(0, 1), transpose(b, 0, 1), {.b = true}), c.slice(0, 1)));
    CHECK(identical(matmul(transpose(a, 0, 1), b, {.a = true}), c));
    CHECK(identical(matmul(a, slice(b, 1, 3, 4)), slice(c, 1, 3, 4)));
    const Tensor start = full({6, 20}, 3);
    CHECK(difference(add_matmul(start, a, b), c + start) <= 5e-6);
  }
}

TEST_CASE("matmul: the packed cache distinguishes parts of a weight and its transpose") {
  const Tensor w = randn({80, 40}, DType::f64), a = randn({8, 40}, DType::f64, 2);
  for (int i = 0; i < 3; ++i) {
    for (Index begin = 0; begin <= 40; begin += 4) {
      const Tensor part = w.slice(begin, begin + 40);
      CHECK(identical(matmul(a, part), matmul(a, part.clone())));
      CHECK(identical(matmul(a, part, {.b = true}), matmul(a, part.clone(), {.b = true})));
    }
  }
}

TEST_CASE("matmul: the packed cache of a weight is freed with the weight") {
  const std::size_t before = buffer_statistics().in_use;
  {
    const Tensor w = randn({80, 40}, DType::f64), a = randn({8, 80}, DType::f64, 2);
    for (int i = 0; i < 3; ++i) matmul(a, w);
    CHECK(buffer_statistics().in_use >= before + 2 * 80 * 40 * sizeof(double));
  }
  CHECK(buffer_statistics().in_use == before);
}

TEST_CASE("matmul: extents may be 0") {
  CHECK(matmul(zeros({0, 3}), zeros({3, 2})).shape() == Shape{0, 2});
  CHECK(matmul(zeros({2, 3}), zeros({3, 0})).shape() == Shape{2, 0});
  CHECK(identical(matmul(zeros({2, 0}), zeros({0, 3})), zeros({2, 3})));
  CHECK(identical(matmul(zeros({2, 4, 0}), zeros({0, 3})), zeros({2, 4, 3})));
}

TEST_CASE("matmul: views that begin in the middle of a buffer") {
  const Tensor a = randn({5, 3}, DType::f64), b = randn({2, 3, 4}, DType::f64, 2);
  CHECK(difference(matmul(a.slice(1, 3), b[1]),
                   naive::matmul(a.slice(1, 3).clone(), b[1].clone())) <= 1e-14);
}

TEST_CASE("matmul: errors name both shapes and the transposes") {
  const Tensor a = zeros({3, 2}), b = zeros({3, 4});
  CHECK_ERROR("matmul: shapes do not fit: (3, 2) x (3, 4)", matmul(a, b));
  CHECK_ERROR("matmul: shapes do not fit: (3, 4) x (3, 2)ᵀ", matmul(b, a, {.b = true}));
  CHECK_ERROR("matmul: shapes do not fit: (2, 3, 4)ᵀ x (3, 4)",
              matmul(zeros({2, 3, 4}), b, {.a = true}));
  CHECK_ERROR("matmul: shapes do not fit: (3, 2) x (2)", matmul(a, zeros({2})));
  CHECK_ERROR("matmul: shapes do not fit: () x (3, 4)", matmul(scalar(1), b));
  CHECK_ERROR("matmul: dtypes differ: f32 (3, 2) and f64 (2, 4)",
              matmul(a, zeros({2, 4}, DType::f64)));
  CHECK_ERROR("matmul: f32 or f64 was expected: i32 (3, 2)",
              matmul(zeros({3, 2}, DType::i32), zeros({2, 4}, DType::i32)));
}

TEST_CASE("add_product: adds aᵀ·b to a range of columns; mismatched shapes are an error") {
  const Tensor a = randn({4, 3}, DType::f64), b = randn({4, 2}, DType::f64, 2);
  const Tensor product = naive::matmul(naive::transpose(a), b);
  Tensor c = ones({3, 2}, DType::f64);
  add_product(a, b, c);
  CHECK(difference(c, product + 1.0) <= 1e-14);
  Tensor wide = ones({3, 5}, DType::f64);
  add_product(a, b, wide, 2);
  const naive::Array result(wide), expected(product);
  naive::for_each_index(wide.shape(), [&](const naive::At& at) {
    const bool inside = at[1] >= 2 && at[1] < 4;
    const double wanted = 1 + (inside ? expected[{at[0], at[1] - 2}] : 0);
    CHECK(result[at] == doctest::Approx(wanted).epsilon(1e-14));
  });
  Tensor single = zeros({3, 5});
  CHECK_ERROR("add_product: b (M, N) is (6, 2), but M = 4 in a",
              add_product(zeros({4, 3}), zeros({6, 2}), single));
  CHECK_ERROR("add_product: columns 4 to 6 of (3, 5) do not exist",
              add_product(zeros({4, 3}), zeros({4, 2}), single, 4));
  CHECK_THROWS_AS(add_product(zeros({4, 3}), zeros({4, 2}), single, -1), Error);
}

TEST_CASE("batched_matmul: one product per leading index, with all transposes") {
  for (const Transpose& t : all_transposes) {
    for (const Sizes& s : {Sizes{3, 4, 5}, Sizes{1, 7, 2}, Sizes{40, 33, 50}}) {
      const Tensor a = randn(t.a ? Shape{7, s.k, s.m} : Shape{7, s.m, s.k}, DType::f64);
      const Tensor b = randn(t.b ? Shape{7, s.n, s.k} : Shape{7, s.k, s.n}, DType::f64, 2);
      const Tensor c = batched_matmul(a, b, t);
      CHECK(difference(c, naive::batched_matmul(a, b, t.a, t.b)) <= 1e-13);
      const Tensor single = batched_matmul(a.to(DType::f32), b.to(DType::f32), t);
      CHECK(difference(single.to(DType::f64), c) <= 1e-5);
      for (Index i = 0; i < 7; ++i) CHECK(identical(c[i], matmul(a[i], b[i], t)));
    }
  }
}

TEST_CASE("batched_matmul: errors name both shapes and the transposes") {
  const Tensor a = zeros({2, 3, 4});
  CHECK_ERROR("batched_matmul: shapes (2) and (3) do not broadcast",
              batched_matmul(a, zeros({3, 4, 5})));
  CHECK_ERROR("batched_matmul: shapes do not fit: (2, 3, 4)ᵀ x (2, 4, 5)",
              batched_matmul(a, zeros({2, 4, 5}), {.a = true}));
  CHECK_ERROR("batched_matmul: shapes do not fit: (2, 3, 4) x (2, 3, 5)",
              batched_matmul(a, zeros({1, 3, 5})));
  CHECK_ERROR("matmul: shapes do not fit: (2, 3, 4) x (3, 5)", batched_matmul(a, zeros({3, 5})));
  CHECK_THROWS_AS(batched_matmul(zeros({4}), zeros({4})), Error);
  CHECK_THROWS_AS(batched_matmul(a, zeros({2, 4, 5}, DType::f64)), Error);
}

}  // namespace attune
