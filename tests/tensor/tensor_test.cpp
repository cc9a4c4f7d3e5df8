#include <algorithm>
#include <iomanip>
#include <limits>
#include <sstream>
#include <type_traits>

#include <doctest/doctest.h>

#include <attune/tensor/arrange.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/index.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/print.hpp>
#include <attune/tensor/tensor.hpp>

#include "support/naive.hpp"

namespace attune {

TEST_CASE("Shape: negative axes count from the end; a missing axis is an error") {
  const Shape shape{3, 2, 5};
  CHECK(shape.rank() == 3);
  CHECK(shape[0] == 3);
  CHECK(shape[-1] == 5);
  CHECK(shape[-3] == 3);
  CHECK(shape.axis(-2) == 1);
  CHECK(shape.axis(2) == 2);
  CHECK_ERROR("shape: there is no axis 3 in (3, 2, 5)", shape[3]);
  CHECK_ERROR("shape: there is no axis -4 in (3, 2, 5)", shape[-4]);
  CHECK_ERROR("shape: there is no axis 0 in ()", Shape()[0]);
  CHECK_THROWS_AS(shape.with(3, 1), Error);
  CHECK_THROWS_AS(shape.without(-4), Error);
}

TEST_CASE("Shape: with, without and inserted change one axis; a missing axis is an error") {
  const Shape shape{3, 2, 5};
  CHECK(shape.with(1, 7) == Shape{3, 7, 5});
  CHECK(shape.with(-1, 7) == Shape{3, 2, 7});
  CHECK(shape.without(0) == Shape{2, 5});
  CHECK(shape.without(-1) == Shape{3, 2});
  CHECK(Shape{4}.without(0) == Shape{});
  CHECK(shape.inserted(0, 7) == Shape{7, 3, 2, 5});
  CHECK(shape.inserted(2, 7) == Shape{3, 2, 7, 5});
  CHECK(shape.inserted(3, 7) == Shape{3, 2, 5, 7});
  CHECK(shape.inserted(-1, 7) == Shape{3, 2, 5, 7});
  CHECK(shape.inserted(-2, 7) == Shape{3, 2, 7, 5});
  CHECK(shape == Shape{3, 2, 5});
  CHECK_ERROR("shape: cannot insert an axis at 3 into (3, 2)", Shape{3, 2}.inserted(3, 1));
  CHECK_ERROR("shape: cannot insert an axis at -4 into (3, 2)", Shape{3, 2}.inserted(-4, 1));
  CHECK_THROWS_AS((Shape{3, 2}.inserted(-4, 1)), Error);
  CHECK_THROWS_AS((Shape{1, 2, 3, 4, 5, 6}.inserted(0, 1)), Error);
}

TEST_CASE("Shape: size (1 for a scalar), equality and text") {
  CHECK(Shape{3, 2, 5}.size() == 30);
  CHECK(Shape{}.size() == 1);
  CHECK(Shape{3, 0, 5}.size() == 0);
  CHECK(Shape{3, 2, 5}.product(1, 3) == 10);
  CHECK(Shape{3, 2, 5}.product(1, 1) == 1);
  CHECK(Shape{3, 2} == Shape{3, 2});
  CHECK(Shape{3, 2} != Shape{2, 3});
  CHECK(Shape{3, 2} != Shape{3, 2, 1});
  CHECK(Shape{} != Shape{1});
  CHECK(Shape{1, 2, 3}.without(0) == Shape{2, 3});
  CHECK(to_string(Shape{3, 4}) == "(3, 4)");
  CHECK(to_string(Shape{7}) == "(7)");
  CHECK(to_string(Shape{}) == "()");
}

TEST_CASE("Shape: more than six axes and negative extents are errors") {
  CHECK_ERROR("shape: (1, 2, 3, 4, 5, 6, 7) has more than 6 axes", Shape{1, 2, 3, 4, 5, 6, 7});
  CHECK_ERROR("shape: (3, -2) has a negative extent", Shape{3, -2});
  CHECK_THROWS_AS((Shape{3, 2}.with(0, -1)), Error);
  CHECK_THROWS_AS((Shape{3, 2}.inserted(0, -1)), Error);
}

TEST_CASE("broadcast: aligns axes at the end, repeats extents of 1; other extents are an error") {
  CHECK(broadcast("add", {3, 2, 5}, {5}) == Shape{3, 2, 5});
  CHECK(broadcast("add", {2, 1}, {3, 1, 5}) == Shape{3, 2, 5});
  CHECK(broadcast("add", {}, {3, 2}) == Shape{3, 2});
  CHECK(broadcast("add", {3, 1}, {1, 4}) == Shape{3, 4});
  CHECK(broadcast("add", {1}, {0}) == Shape{0});
  CHECK(broadcast("add", {2, 0}, {2, 1}) == Shape{2, 0});
  CHECK_ERROR("add: shapes (3, 2) and (3) do not broadcast", broadcast("add", {3, 2}, {3}));
  CHECK_ERROR("divide: shapes (2) and (5, 3) do not broadcast", broadcast("divide", {2}, {5, 3}));
  CHECK_THROWS_AS(broadcast("add", {0}, {2}), Error);
}

TEST_CASE("Tensor: of takes values in row-major order; their number must be the size") {
  const Tensor x = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(x.dtype() == DType::f32);
  CHECK(x.shape() == Shape{2, 3});
  CHECK(x[1].to_vector<float>() == std::vector<float>{4, 5, 6});
  CHECK(Tensor::of<double>({}, {2.5}).item() == 2.5);
  CHECK(Tensor::of<std::int32_t>({2}, {-7, 8}).dtype() == DType::i32);
  CHECK_ERROR("tensor: 5 values were given for (2, 3)", reals({2, 3}, {1, 2, 3, 4, 5}));
  CHECK_ERROR("tensor: 1 values were given for (0)", reals({0}, {1}));
}

TEST_CASE("Tensor: copies and views share the elements; a clone does not") {
  Tensor x = reals({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor clone = x.slice(1, 2).clone();
  CHECK_FALSE(clone.shares_buffer_with(x));
  const Tensor copy = x, row = x[1], rows = x.slice(1, 3), flat = x.reshape({6});
  for (const Tensor* view : {&copy, &row, &rows, &flat}) CHECK(view->shares_buffer_with(x));
  x.mutable_data<double>()[2] = 30;
  CHECK(copy.data<double>()[2] == 30);
  CHECK(row.data<double>()[0] == 30);
  CHECK(rows.data<double>()[0] == 30);
  CHECK(flat.data<double>()[2] == 30);
  CHECK(identical(clone, reals({1, 2}, {3, 4})));
}

TEST_CASE("Tensor: writing through a view of a view reaches the right element") {
  const Tensor x = zeros({4, 3, 2}, DType::f64);
  Tensor view = x.slice(1, 4)[1].slice(2, 3);
  CHECK(view.shape() == Shape{1, 2});
  view.mutable_data<double>()[1] = 5;
  naive::Array expected(Shape{4, 3, 2});
  expected[{2, 2, 1}] = 5;
  CHECK(identical(x, expected.tensor()));
}

TEST_CASE("Tensor: unique while no other Tensor shares its buffer") {
  Tensor x = zeros({3});
  CHECK(x.unique());
  {
    const Tensor row = x[0];
    CHECK_FALSE(x.unique());
    CHECK_FALSE(row.unique());
  }
  CHECK(x.unique());
  CHECK_FALSE(Tensor().unique());
  CHECK_FALSE(Tensor().shares_buffer_with(Tensor()));
}

TEST_CASE("Tensor: reshape keeps the order of elements and computes -1; other sizes are an error") {
  const Tensor x = reals({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(identical(x.reshape({3, 2}), reals({3, 2}, {1, 2, 3, 4, 5, 6})));
  CHECK(x.reshape({-1}).shape() == Shape{6});
  CHECK(x.reshape({3, -1, 1}).shape() == Shape{3, 2, 1});
  CHECK(zeros({0, 3}).reshape({-1, 3}).shape() == Shape{0, 3});
  CHECK(zeros({1}).reshape(Shape{}).shape() == Shape{});
  CHECK_ERROR("reshape: (2, 3) with 6 elements cannot become (4, 2)", x.reshape({4, 2}));
  CHECK_ERROR("reshape: (2, 3) with 6 elements cannot become (4, -1)", x.reshape({4, -1}));
  CHECK_ERROR("reshape: (2, 3) with 6 elements cannot become (-1, -1)", x.reshape({-1, -1}));
  CHECK_THROWS_AS(x.reshape({-2, -3}), Error);
  CHECK_THROWS_AS(zeros({0}).reshape({0, -1}), Error);  // any value of -1 would fit
  CHECK_THROWS_AS(Tensor().reshape({1}), Error);
  constexpr Index large = Index{1} << 32;
  CHECK_THROWS_AS(zeros({0}).reshape({large, large}), Error);
  CHECK_THROWS_AS(zeros({4}).reshape({large, large, 4}), Error);
}

TEST_CASE("Tensor: access with another element type is an error") {
  Tensor x = zeros({3, 2});
  CHECK_ERROR("tensor: f32 (3, 2) was accessed as f64", x.data<double>());
  const Tensor undefined;
  CHECK_ERROR("tensor: an undefined tensor was accessed", undefined.data<float>());
  CHECK_ERROR("tensor: f32 (3, 2) was accessed as i32", x.mutable_data<std::int32_t>());
}

TEST_CASE("Tensor: at accesses one element by its index") {
  Tensor x = ints({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(x.at<std::int32_t>({1, 2}) == 6);
  CHECK(x[1].at<std::int32_t>({0}) == 4);
  CHECK(scalar(7).at<float>({}) == 7);
  x.mutable_at<std::int32_t>({0, 1}) = -2;
  CHECK(x.to_vector<std::int32_t>() == std::vector<std::int32_t>{1, -2, 3, 4, 5, 6});
  CHECK_ERROR("at: there is no element (2, 0) in (2, 3)", x.at<std::int32_t>({2, 0}));
  CHECK(x.at<std::int32_t>({0, -1}) == 3);
  CHECK_ERROR("at: there is no element (0, -4) in (2, 3)", x.at<std::int32_t>({0, -4}));
  CHECK_ERROR("at: there is no element (0) in (2, 3)", x.at<std::int32_t>({0}));
  CHECK_ERROR("tensor: i32 (2, 3) was accessed as f32", x.at<float>({0, 0}));
}

TEST_CASE("Tensor: assignment to a temporary view does not compile") {
  static_assert(std::is_assignable_v<Tensor&, Tensor>);
  static_assert(!std::is_assignable_v<Tensor, Tensor>);
}

TEST_CASE("Tensor: item requires exactly one element") {
  CHECK(reals({1, 1}, {7}).item() == 7);
  CHECK(ints({}, {-3}).item() == -3);
  CHECK_ERROR("item: one element was expected: (2)", zeros({2}).item());
  CHECK_THROWS_AS(zeros({0}).item(), Error);
  CHECK_THROWS_AS(Tensor().item(), Error);
}

TEST_CASE("Tensor: to converts the dtype; with the same dtype it copies nothing") {
  const Tensor x = Tensor::of<double>({4}, {1.75, -1.75, 1e-50, 3});
  CHECK(x.to(DType::i32).to_vector<std::int32_t>() == std::vector<std::int32_t>{1, -1, 0, 3});
  CHECK(x.to(DType::f32).to_vector<float>() == std::vector<float>{1.75f, -1.75f, 0, 3});
  CHECK(x.to(DType::f64).shares_buffer_with(x));
  CHECK(ints({2}, {1, 2}).to(DType::f64).dtype() == DType::f64);
  CHECK(x.slice(1, 3).to(DType::f32).shape() == Shape{2});
}

TEST_CASE("Tensor: indices and slices out of range are errors") {
  const Tensor x = zeros({3, 2});
  CHECK_ERROR("tensor: row 3 of (3, 2) does not exist", x[3]);
  CHECK(x[-1].shares_buffer_with(x));
  CHECK_ERROR("tensor: row -4 of (3, 2) does not exist", x[-4]);
  CHECK_ERROR("tensor: row 0 of () does not exist", scalar(1)[0]);
  CHECK_ERROR("slice: rows 1 to 4 of (3, 2) do not exist", x.slice(1, 4));
  CHECK_THROWS_AS(x.slice(2, 1), Error);
  CHECK_THROWS_AS(x.slice(-1, 1), Error);
  CHECK(x.slice(3, 3).shape() == Shape{0, 2});
}

TEST_CASE("Tensor: a size that overflows is an error, not a small tensor") {
  constexpr Index large = Index{1} << 31;
  CHECK_ERROR("shape: the size of (2147483648, 2147483648, 4) overflows",
              Tensor::uninitialized({large, large, 4}));
  CHECK_THROWS_AS(Tensor::uninitialized({large, large}, DType::f64), Error);
  CHECK_THROWS_AS(Tensor::uninitialized({std::numeric_limits<Index>::max()}), Error);
}

TEST_CASE("Tensor: products and sums of extents that overflow are errors, also without elements") {
  constexpr Index large = Index{1} << 62, most = std::numeric_limits<Index>::max();
  const std::string size =
      "shape: the size of (0, 4611686018427387904, 4611686018427387904) overflows";
  CHECK_ERROR(size, zeros({0, large, large}));
  CHECK_ERROR("pad: 9223372036854775807 + 2 + 1 overflows", pad(zeros({2}), 0, most, 1));
  CHECK_THROWS_AS(pad(zeros({2}), 0, large, 1), Error);
  const Tensor x = zeros({4, 2, 3});
  CHECK_THROWS_AS(unfold(x, {.width = 1, .before = most}), Error);
  CHECK_ERROR("unfold: 4611686018427387904 x 3 overflows", unfold(x, {.width = large}));
  Tensor y = zeros({4});
  CHECK_THROWS_AS(add_to_slice(y, zeros({2}), 0, most), Error);
}

TEST_CASE("Tensor: numbers that do not fit in i32 are errors") {
  for (const double bad : {std::nan(""), 1e20, 0x1p31, -0x1p31 - 1}) {
    CHECK_THROWS_AS(reals({2}, {0, bad}).to(DType::i32), Error);
    CHECK_THROWS_AS(reals({2}, {0, bad}).to_vector<std::int32_t>(), Error);
    CHECK_THROWS_AS(full({2}, bad, DType::i32), Error);
  }
  CHECK_ERROR("to: 1e+20 does not fit in i32", reals({1}, {1e20}).to(DType::i32));
  const std::vector<std::int32_t> ends = {std::numeric_limits<std::int32_t>::min(),
                                          std::numeric_limits<std::int32_t>::max()};
  CHECK(reals({2}, {-0x1p31, 0x1p31 - 1}).to_vector<std::int32_t>() == ends);
  // The error comes before an allocation of 4 TiB and of 8 GiB.
  CHECK_ERROR("arange: 1099511627775 does not fit in i32", arange(Index{1} << 40));
  CHECK_ERROR("arange: 2147483648 does not fit in i32", arange((Index{1} << 31) + 1));
}

TEST_CASE("Tensor: in-place operations accept identical operands and refuse partial overlap") {
  const Tensor x = randn({6, 3});
  Tensor top = x.slice(0, 4), bottom = x.slice(2, 6), all = x;
  CHECK_ERROR("copy: f32 (4, 3) and f32 (4, 3) overlap in memory", copy(top, bottom));
  CHECK_THROWS_AS(add_in_place(bottom, top), Error);
  Tensor row = x[1];
  CHECK_THROWS_AS(add_in_place(all, row), Error);
  CHECK_THROWS_AS(add_to_slice(all, top, 0, 1), Error);
  CHECK_ERROR("scatter_add: f32 (4, 3) and f32 (6, 3) overlap in memory",
              scatter_add_in_place(all, ints({4}, {1, 2, 3, 4}), top));
  CHECK_ERROR("scatter_add: rows and target are the same tensor",
              scatter_add_in_place(all, ints({6}, {1, 0, 2, 3, 4, 5}), x));
  const Tensor before = x.clone();
  copy(x, all);
  CHECK(identical(all, before));
  add_in_place(all, x);
  CHECK(identical(all, before * 2));
  Tensor square = randn({3, 3});
  CHECK_ERROR("add_product: c is also a factor", add_product(square, randn({3, 3}), square));
  CHECK_THROWS_AS(add_product(x, x, top), Error);
}

TEST_CASE("Tensor: empty tensors, and six axes") {
  const Tensor x = zeros({0, 3});
  CHECK(x.defined());
  CHECK(x.size() == 0);
  CHECK(x.to_vector<float>().empty());
  CHECK(identical(x.clone(), x));
  const Tensor six = zeros({1, 2, 1, 3, 1, 2});
  CHECK(six.size() == 12);
  CHECK(six[0].rank() == 5);
}

TEST_CASE("Tensor: zeros, ones, full, scalar and arange; f32 is the default of most") {
  CHECK(identical(zeros({2}), Tensor::of<float>({2}, {0, 0})));
  CHECK(identical(ones({2}, DType::f64), reals({2}, {1, 1})));
  CHECK(identical(full({2}, 2.5), Tensor::of<float>({2}, {2.5, 2.5})));
  CHECK(identical(full({2}, 3, DType::i32), ints({2}, {3, 3})));
  CHECK(identical(scalar(4, DType::f64), reals({}, {4})));
  CHECK(identical(arange(3), ints({3}, {0, 1, 2})));
  CHECK(identical(arange(3, DType::f64), reals({3}, {0, 1, 2})));
  CHECK(arange(0).shape() == Shape{0});
  CHECK(arange((1 << 24) + 5, DType::f32)[(1 << 24) + 4].item() == (1 << 24) + 4);
  CHECK_ERROR("arange: n = -1 is negative", arange(-1));
  std::ostringstream out;
  out << ints({2}, {1, 2});
  CHECK(out.str() == "i32 (2) [1, 2]");
}

TEST_CASE("Tensor: fill and copy write into views") {
  const Tensor x = zeros({3, 2}, DType::f64);
  Tensor first = x[0], last = x[2];
  fill(first, 7);
  copy(reals({2}, {8, 9}), last);
  CHECK(identical(x, reals({3, 2}, {7, 7, 0, 0, 8, 9})));
  CHECK_ERROR("copy: shapes differ: (3) and (2)", copy(zeros({3}, DType::f64), last));
  CHECK_ERROR("copy: dtypes differ: f32 (2) and f64 (2)", copy(zeros({2}), last));
}

TEST_CASE("Tensor: errors and text of an undefined tensor") {
  const Tensor none;
  CHECK_FALSE(none.defined());
  CHECK(to_string(none) == "undefined tensor");
  CHECK_ERROR("to_vector: the tensor is not defined", none.to_vector<float>());
  CHECK_ERROR("copy: the tensor is not defined", none.clone());
  CHECK_ERROR("add: dtypes differ: undefined and f32 (2)",
              require_same_dtype("add", none, zeros({2})));
}

TEST_CASE("Tensor: prints aligned rows; only the corners of a large tensor") {
  CHECK(to_string(Tensor::of<float>({2, 2}, {1, 2.5, -3, 4})) ==
        "f32 (2, 2)\n[[  1, 2.5],\n [ -3,   4]]");
  CHECK(to_string(ints({}, {3})) == "i32 () 3");
  CHECK(to_string(ints({2, 1, 2}, {1, 2, 3, 4})) == "i32 (2, 1, 2)\n[[[1, 2]],\n\n [[3, 4]]]");
  CHECK(to_string(ints({2}, {1234567890, -7}), 3) == "i32 (2) [1234567890,         -7]");
  CHECK(to_string(zeros({2, 0})) == "f32 (2, 0)\n[[],\n []]");
  CHECK(to_string(reals({2}, {nan, 1.0 / 3}), 3) == "f64 (2) [  nan, 0.333]");
  CHECK(to_string(reals({2}, {-nan, nan})) == "f64 (2) [nan, nan]");
  CHECK(std::ranges::count(to_string(zeros({2000, 0})), '\n') == 7);
  CHECK(to_string(arange(2000)) == "i32 (2000) [   0,    1,    2, ..., 1997, 1998, 1999]");
  const std::string corners = to_string(zeros({9, 2000}));
  CHECK(corners.starts_with("f32 (9, 2000)\n[[0, 0, 0, ..., 0, 0, 0],\n [0"));
  CHECK(std::ranges::count(corners, '\n') == 7);  // three rows, a line of dots, three rows
  std::ostringstream out;
  out << std::setprecision(2) << reals({1}, {0.125}) << " " << Shape{2, 3};
  out << std::setprecision(-1) << reals({1}, {0.12345678});
  CHECK(out.str() == "f64 (1) [0.12] (2, 3)f64 (1) [0.123457]");
}

TEST_CASE("visit_floating: calls with the element type; i32 is an error") {
  CHECK(visit_floating("f", zeros({1}), [](auto zero) { return sizeof zero; }) == 4);
  CHECK(visit_floating("f", zeros({1}, DType::f64), [](auto zero) { return sizeof zero; }) == 8);
  CHECK_ERROR("f: f32 or f64 was expected: i32 (2)",
              visit_floating("f", ints({2}, {1, 2}), [](auto) {}));
  CHECK_ERROR("f: the tensor is not defined", visit_floating("f", Tensor(), [](auto) {}));
}

TEST_CASE("Mask: 1 and 0 in any dtype; other values are an error at construction") {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32}) {
    const Tensor values = ints({2, 2}, {1, 0, 1, 1}).to(dtype);
    const Mask mask = values;
    CHECK(identical(mask, values));
    CHECK(mask.shares_buffer_with(values));
    CHECK(identical(mask.to(DType::f32), values.to(DType::f32)));
    CHECK_ERROR("mask: (2, 2) must be 1 (takes part) or 0, but element (1, 0) is 2",
                Mask(ints({2, 2}, {1, 0, 2, -3}).to(dtype)));
  }
  CHECK_ERROR("mask: (3) must be 1 (takes part) or 0, but element (1) is -inf",
              Mask(reals({3}, {0, -std::numeric_limits<double>::infinity(), 1})));
  CHECK_ERROR("mask: (2) must be 1 (takes part) or 0, but element (0) is nan",
              Mask(reals({2}, {std::numeric_limits<double>::quiet_NaN(), 1})));
  CHECK_ERROR("mask: () must be 1 (takes part) or 0, but element () is 0.5", Mask(scalar(0.5)));
  CHECK(!Mask(Tensor()).defined());
  CHECK(Mask(zeros({0, 3})).shape() == Shape{0, 3});
}

}  // namespace attune
