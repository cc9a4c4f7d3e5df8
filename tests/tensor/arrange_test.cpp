#include <algorithm>

#include <doctest/doctest.h>

#include <attune/tensor/arrange.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/errors.hpp>
#include <attune/tensor/index.hpp>
#include <attune/tensor/reduce.hpp>

#include "support/naive.hpp"

namespace attune {
TEST_CASE("mask_of: 1 on the steps of each sequence, 0 after them") {
  const std::vector<Index> lengths{2, 4, 1};
  const Tensor mask = mask_of(lengths, DType::f64);
  CHECK(mask.shape() == Shape{4, 3});
  CHECK(mask.to_vector<double>() == std::vector<double>{1, 1, 1, 1, 1, 0, 0, 1, 0, 0, 1, 0});
  CHECK_THROWS_WITH_AS(mask_of({}), "mask_of: there are no lengths", Error);
  const std::vector<Index> empty{3, 0};
  CHECK_THROWS_WITH_AS(mask_of(empty),
                       "mask_of: the length of sequence 1 is 0, but must be at least 1", Error);
}

TEST_CASE("lengths_of: inverts mask_of, in any dtype; padding must be at the end") {
  const std::vector<Index> lengths{2, 4, 1};
  for (const DType dtype : {DType::f32, DType::f64, DType::i32})
    CHECK(lengths_of(mask_of(lengths).to(dtype)) == lengths);
  CHECK_THROWS_WITH_AS(lengths_of(reals({3, 2}, {1, 0, 1, 1, 0, 1})),
                       "lengths_of: column 1 of the mask (3, 2) has a 1 after a 0, but padding "
                       "after the steps was expected",
                       Error);
}

TEST_CASE("pad: i32 too, with any value") {
  CHECK(identical(pad(ints({2}, {5, 6}), 0, 1, 2, -1), ints({5}, {-1, 5, 6, -1, -1})));
  CHECK_ERROR("pad: there is no axis 1 in (2)", pad(zeros({2}), 1, 0, 0));
  CHECK_ERROR("pad: before = -1 and after = 0 must not be negative", pad(zeros({2}), 0, -1, 0));
}

TEST_CASE("cumsum: small terms are not lost next to a large one") {
  Tensor x = full({1 << 16}, 1e-4);
  x.mutable_at<float>({0}) = 1e4;
  const double expected = 1e4 + 65535 * static_cast<double>(1e-4f);
  CHECK(cumsum(x, 0).at<float>({65535}) == static_cast<float>(expected));
  CHECK(cumsum(zeros({0, 2}), 0).shape() == Shape{0, 2});
  CHECK(identical(cumsum(ints({3}, {1, 2, -4}), 0), ints({3}, {1, 3, -1})));
}

TEST_CASE("slice: copies a range of any axis; a range outside of the axis is an error") {
  const Tensor x = randn({3, 4, 5}, DType::f64);
  for (int axis : {0, 1, 2}) {
    CHECK(identical(slice(x, axis, 1, 3), naive::slice(x, axis, 1, 3)));
    CHECK(identical(slice(x, axis - 3, 1, 3), naive::slice(x, axis, 1, 3)));
    CHECK_FALSE(slice(x, axis, 1, 3).shares_buffer_with(x));
    CHECK(slice(x, axis, 2, 2).size() == 0);
  }
  CHECK(identical(slice(ints({2, 3}, {1, 2, 3, 4, 5, 6}), 1, 1, 3), ints({2, 2}, {2, 3, 5, 6})));
  CHECK_ERROR("slice: indices 2 to 5 of axis 1 of (3, 4) do not exist",
              slice(zeros({3, 4}), 1, 2, 5));
  CHECK_ERROR("slice: indices -5 to 3 of axis 1 of (3, 4) do not exist",
              slice(zeros({3, 4}), 1, -5, 3));
  CHECK_THROWS_AS(slice(zeros({3, 4}), 1, 3, 2), Error);
  CHECK_THROWS_AS(slice(zeros({3, 4}), 1, -1, 2), Error);
  CHECK_THROWS_AS(slice(zeros({3, 4}), 2, 0, 1), Error);
}

TEST_CASE("add_to_slice: adds to the slice only; a slice outside of the tensor is an error") {
  for (int axis : {0, 1, 2, -1}) {
    Tensor to = randn({3, 4, 5}, DType::f64);
    const naive::Array before(to);
    const int along = axis < 0 ? 2 : axis;
    const Tensor x = randn(to.shape().with(axis, 2), DType::f64, 2);
    add_to_slice(to, x, axis, 1);
    const naive::Array added(x);
    naive::Array expected(to.shape());
    naive::for_each_index(to.shape(), [&](const naive::At& at) {
      naive::At source = at;
      const Index place = source[static_cast<std::size_t>(along)] -= 1;
      expected[at] = before[at] + (place >= 0 && place < 2 ? added[source] : 0);
    });
    CHECK(identical(to, expected.tensor()));
  }
  Tensor to = zeros({3, 4});
  CHECK_ERROR("add_to_slice: (2, 3) is not a slice along axis 0 of (3, 4)",
              add_to_slice(to, zeros({2, 3}), 0, 0));
  CHECK_ERROR("add_to_slice: indices 2 to 4 of axis 0 of (3, 4) do not exist",
              add_to_slice(to, zeros({2, 4}), 0, 2));
  CHECK_THROWS_AS(add_to_slice(to, zeros({2, 4}, DType::f64), 0, 0), Error);
}

TEST_CASE("concat: joins parts along any axis; other extents must agree") {
  const Tensor a = reals({2, 1, 2}, {1, 2, 3, 4}),
               b = reals({2, 2, 2}, {5, 6, 7, 8, 9, 10, 11, 12});
  CHECK(identical(concat({a, b}, 1), reals({2, 3, 2}, {1, 2, 5, 6, 7, 8, 3, 4, 9, 10, 11, 12})));
  CHECK(identical(concat({b, b}, 0).slice(2, 4), b));
  CHECK(identical(concat({a, a, a}, -1), reals({2, 1, 6}, {1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4})));
  CHECK(identical(concat({zeros({2, 0}), ones({2, 1})}, 1), ones({2, 1})));
  CHECK(identical(concat({ints({1}, {1}), ints({2}, {2, 3})}, 0), ints({3}, {1, 2, 3})));
  CHECK(identical(slice(concat({a, b}, 1), 1, 1, 3), b));
  CHECK_ERROR("concat: (2, 3) and (3, 3) differ outside axis 1",
              concat({zeros({2, 3}), zeros({3, 3})}, 1));
  CHECK_ERROR("concat: (2, 3) and (2) differ outside axis 0",
              concat({zeros({2, 3}), zeros({2})}, 0));
  CHECK_ERROR("concat: dtypes differ: f32 (2) and f64 (2)",
              concat({zeros({2}), zeros({2}, DType::f64)}, 0));
  CHECK_ERROR("concat: there are no parts", concat(std::vector<Tensor>(), 0));
  CHECK_THROWS_AS(concat({scalar(1)}, 0), Error);
}

TEST_CASE("stack: tensors become indices of a new axis") {
  const Tensor a = reals({2}, {1, 2}), b = reals({2}, {3, 4});
  CHECK(identical(stack({a, b, a}), reals({3, 2}, {1, 2, 3, 4, 1, 2})));
  CHECK(identical(stack({scalar(5), scalar(6)}), Tensor::of<float>({2}, {5, 6})));
  CHECK_ERROR("stack: shapes (2, 1) and (1, 2) differ", stack({zeros({2, 1}), zeros({1, 2})}));
  CHECK_ERROR("stack: there are no parts", stack(std::vector<Tensor>()));
}

TEST_CASE(
    "gather: selects rows by id, for ids of any shape and tables of any dtype; checks the range") {
  const Tensor table = reals({3, 2}, {1, 2, 3, 4, 5, 6});
  CHECK(identical(gather(table, ints({2, 2}, {2, 0, 2, 1})),
                  reals({2, 2, 2}, {5, 6, 1, 2, 5, 6, 3, 4})));
  CHECK(identical(gather(table, ints({}, {1})), reals({2}, {3, 4})));
  CHECK(identical(gather(ints({3}, {7, 8, 9}), ints({2}, {2, 2})), ints({2}, {9, 9})));
  CHECK(gather(table, ints({0}, {})).shape() == Shape{0, 2});
  CHECK_ERROR("gather: id 3 at 2 is not in 0 to 2", gather(table, ints({2, 2}, {0, 1, 3, 0})));
  CHECK_ERROR("gather: id -1 at 0 is not in 0 to 2", gather(table, ints({1}, {-1})));
  CHECK_THROWS_AS(gather(table, zeros({2})), Error);
  CHECK_THROWS_AS(gather(scalar(1), ints({1}, {0})), Error);
}

TEST_CASE("scatter_add: repeated ids accumulate; mismatched shapes are an error and add nothing") {
  Tensor to = ones({3, 2}, DType::f64);
  scatter_add_in_place(to, ints({2, 2}, {2, 0, 2, 2}),
                       reals({2, 2, 2}, {1, 2, 3, 4, 10, 20, 100, 200}));
  const Tensor sums = reals({3, 2}, {4, 5, 1, 1, 112, 223});
  CHECK(identical(to, sums));
  CHECK_ERROR("scatter_add: id 5 at 1 is not in 0 to 2",
              scatter_add_in_place(to, ints({2}, {0, 5}), ones({2, 2}, DType::f64)));
  CHECK_ERROR("scatter_add: shapes do not fit: ids (2), rows (2, 3), target (3, 2)",
              scatter_add_in_place(to, ints({2}, {0, 1}), ones({2, 3}, DType::f64)));
  CHECK_ERROR("scatter_add: shapes do not fit: ids (3), rows (2, 3), target (3, 2)",
              scatter_add_in_place(to, ints({3}, {0, 1, 1}), ones({2, 3}, DType::f64)));
  CHECK(identical(to, sums));
}

TEST_CASE("scatter_add: long sums and sums beyond the largest f32 are as exact as sum") {
  const Index n = 1000000;
  Tensor to = ones({3, 2});
  scatter_add_in_place(to, zeros({n}, DType::i32), full({n, 2}, 1e-6));
  CHECK(to.at<float>({0, 1}) == doctest::Approx(1 + n * double{1e-6f}).epsilon(1e-7));
  CHECK(to.at<float>({2, 0}) == 1);
  const Tensor x = randn({2, n}, DType::f32),
               ids = where(arange(n) < 10, 1, zeros({n}, DType::i32));
  const Tensor sums = scatter_add(zeros({2, 2}), ids, x, 1);
  CHECK(difference(slice(sums, 1, 0, 1), sum(slice(x, 1, 10, n), 1, KeepAxes::yes)) <= 1e-6);
  const Tensor big = Tensor::of<float>({4}, {3e38f, 3e38f, -3e38f, -3e38f});
  CHECK(identical(scatter_add(zeros({2}), ints({4}, {1, 1, 1, 1}), big), zeros({2})));
}

TEST_CASE("gather: selects along the second axis, for every row of the first") {
  CHECK(identical(gather(ints({2, 2}, {1, 2, 3, 4}), ints({1}, {1}), 1), ints({2, 1}, {2, 4})));
  CHECK_ERROR("gather: id 3 at 0 is not in 0 to 2", gather(zeros({4, 3}), ints({1}, {3}), 1));
  CHECK_ERROR("gather: there is no axis 1 in (3)", gather(zeros({3}), ints({1}, {0}), 1));
}

TEST_CASE("permute: every permutation of the axes, in every dtype") {
  std::vector<int> order{0, 1, 2, 3};
  const Tensor x = randn({2, 3, 4, 5}, DType::f64);
  do {
    const Tensor expected = naive::permute(x, order);
    CHECK(identical(permute(x, order), expected));
    CHECK(identical(permute(x.to(DType::f32), order), expected.to(DType::f32)));
    CHECK(identical(permute((x * 100.0).to(DType::i32), order), (expected * 100.0).to(DType::i32)));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("permute: more rows than one tile, views, extents of 0 and 1") {
  const Tensor x = randn({70, 3, 900}, DType::f64, 2);
  CHECK(identical(transpose(x, 0, 2), naive::permute(x, {2, 1, 0})));
  CHECK(identical(transpose(x, 0, 1), naive::permute(x, {1, 0, 2})));
  CHECK(identical(transpose(x[3], 0, 1), naive::transpose(x[3])));
  CHECK(transpose(zeros({3, 0, 2}), 0, 1).shape() == Shape{0, 3, 2});
  CHECK(identical(transpose(x[0].reshape({1, 2700}), 0, -1), x[0].reshape({2700, 1})));
  CHECK(transpose(x, 1, 1).shares_buffer_with(x));
  CHECK(permute(scalar(3), {}).item() == 3);
}

}  // namespace attune
