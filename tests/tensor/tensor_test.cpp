#include <limits>
#include <sstream>
#include <type_traits>

#include <doctest/doctest.h>

#include <attune/tensor/tensor.hpp>

#include "support/naive.hpp"

namespace attune {

TEST_CASE("Tensor: of takes values in row-major order") {
  const Tensor x = Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(x.dtype() == DType::f32);
  CHECK(x.shape() == Shape{2, 3});
  CHECK(x[1].to_vector<float>() == std::vector<float>{4, 5, 6});
  CHECK(Tensor::of<double>({}, {2.5}).item() == 2.5);
  CHECK(Tensor::of<std::int32_t>({2}, {-7, 8}).dtype() == DType::i32);
}

TEST_CASE("Tensor: a wrong number of values is an error") {
  CHECK(error_of([] {
          reals({2, 3}, {1, 2, 3, 4, 5});
        }) == "tensor: 5 values were given for (2, 3)");
  CHECK(error_of([] { reals({0}, {1}); }) == "tensor: 1 values were given for (0)");
}

TEST_CASE("Tensor: copies and views share the elements") {
  Tensor x = reals({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor copy = x, row = x[1], rows = x.slice(1, 3), flat = x.reshape({6});
  for (const Tensor* view : {&copy, &row, &rows, &flat}) CHECK(view->shares_buffer_with(x));
  x.mutable_data<double>()[2] = 30;
  CHECK(copy.data<double>()[2] == 30);
  CHECK(row.data<double>()[0] == 30);
  CHECK(rows.data<double>()[0] == 30);
  CHECK(flat.data<double>()[2] == 30);
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

TEST_CASE("Tensor: a clone does not share the elements, and has only its view's") {
  Tensor x = reals({3, 2}, {1, 2, 3, 4, 5, 6});
  const Tensor clone = x.slice(1, 2).clone();
  CHECK_FALSE(clone.shares_buffer_with(x));
  x.mutable_data<double>()[2] = 30;
  CHECK(identical(clone, reals({1, 2}, {3, 4})));
}

TEST_CASE("Tensor: it is unique while nobody else holds its buffer") {
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

TEST_CASE("Tensor: reshape keeps the order of elements, and fills in -1") {
  const Tensor x = reals({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(identical(x.reshape({3, 2}), reals({3, 2}, {1, 2, 3, 4, 5, 6})));
  CHECK(x.reshape({-1}).shape() == Shape{6});
  CHECK(x.reshape({3, -1, 1}).shape() == Shape{3, 2, 1});
  CHECK(zeros({0, 3}).reshape({-1, 3}).shape() == Shape{0, 3});
  CHECK(zeros({1}).reshape(Shape{}).shape() == Shape{});
}

TEST_CASE("Tensor: a reshape that does not fit names both shapes") {
  const Tensor x = zeros({2, 3});
  CHECK(error_of([&] {
          x.reshape({4, 2});
        }) == "reshape: (2, 3) with 6 elements cannot become (4, 2)");
  CHECK(error_of([&] {
          x.reshape({4, -1});
        }) == "reshape: (2, 3) with 6 elements cannot become (4, -1)");
  CHECK(error_of([&] {
          x.reshape({-1, -1});
        }) == "reshape: (2, 3) with 6 elements cannot become (-1, -1)");
  CHECK_THROWS_AS(x.reshape({-2, -3}), Error);
  CHECK_THROWS_AS(zeros({0}).reshape({0, -1}), Error);  // -1 could be anything
  CHECK_THROWS_AS(Tensor().reshape({1}), Error);
}

TEST_CASE("Tensor: a reshape whose size overflows does not fit") {
  constexpr Index large = Index{1} << 32;
  CHECK_THROWS_AS(zeros({0}).reshape({large, large}), Error);
  CHECK_THROWS_AS(zeros({4}).reshape({large, large, 4}), Error);
}

TEST_CASE("Tensor: elements are accessed as what they are") {
  Tensor x = zeros({3, 2});
  CHECK(error_of([&] { x.data<double>(); }) == "tensor: f32 (3, 2) was accessed as f64");
  CHECK(error_of([&] { x.mutable_data<std::int32_t>(); }) ==
        "tensor: f32 (3, 2) was accessed as i32");
  CHECK_THROWS_AS(Tensor().data<float>(), Error);
}

TEST_CASE("Tensor: at is one element, by its place") {
  Tensor x = ints({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(x.at<std::int32_t>({1, 2}) == 6);
  CHECK(x[1].at<std::int32_t>({0}) == 4);
  CHECK(scalar(7).at<float>({}) == 7);
  x.mutable_at<std::int32_t>({0, 1}) = -2;
  CHECK(x.to_vector<std::int32_t>() == std::vector<std::int32_t>{1, -2, 3, 4, 5, 6});
  CHECK(error_of([&] {
          x.at<std::int32_t>({2, 0});
        }) == "at: there is no element (2, 0) in (2, 3)");
  CHECK(error_of([&] {
          x.at<std::int32_t>({0, -1});
        }) == "at: there is no element (0, -1) in (2, 3)");
  CHECK(error_of([&] { x.at<std::int32_t>({0}); }) == "at: there is no element (0) in (2, 3)");
  CHECK(error_of([&] { x.at<float>({0, 0}); }) == "tensor: i32 (2, 3) was accessed as f32");
}

TEST_CASE("Tensor: what is assigned to has a name, as a view would be exchanged and lost") {
  static_assert(std::is_assignable_v<Tensor&, Tensor>);
  static_assert(!std::is_assignable_v<Tensor, Tensor>);
}

TEST_CASE("arange counts from 0, << shows the elements") {
  CHECK(identical(arange(3), ints({3}, {0, 1, 2})));
  CHECK(identical(arange(3, DType::f64), reals({3}, {0, 1, 2})));
  CHECK(arange(0).shape() == Shape{0});
  CHECK(error_of([] { arange(-1); }) == "arange: n = -1 is negative");
  std::ostringstream out;
  out << ints({2}, {1, 2});
  CHECK(out.str() == "i32 (2) {1, 2}");
}

TEST_CASE("Tensor: item is for one element only") {
  CHECK(reals({1, 1}, {7}).item() == 7);
  CHECK(ints({}, {-3}).item() == -3);
  CHECK(error_of([] { zeros({2}).item(); }) == "item: one element was expected: (2)");
  CHECK_THROWS_AS(zeros({0}).item(), Error);
  CHECK_THROWS_AS(Tensor().item(), Error);
}

TEST_CASE("Tensor: to converts, and does nothing where there is nothing to convert") {
  const Tensor x = Tensor::of<double>({4}, {1.75, -1.75, 1e-50, 3});
  CHECK(x.to(DType::i32).to_vector<std::int32_t>() == std::vector<std::int32_t>{1, -1, 0, 3});
  CHECK(x.to(DType::f32).to_vector<float>() == std::vector<float>{1.75f, -1.75f, 0, 3});
  CHECK(x.to(DType::f64).shares_buffer_with(x));
  CHECK(ints({2}, {1, 2}).to(DType::f64).dtype() == DType::f64);
  CHECK(x.slice(1, 3).to(DType::f32).shape() == Shape{2});
}

TEST_CASE("Tensor: rows outside a tensor do not exist") {
  const Tensor x = zeros({3, 2});
  CHECK(error_of([&] { x[3]; }) == "tensor: row 3 of (3, 2) does not exist");
  CHECK(error_of([&] { x[-1]; }) == "tensor: row -1 of (3, 2) does not exist");
  CHECK(error_of([&] { scalar(1)[0]; }) == "tensor: row 0 of () does not exist");
  CHECK(error_of([&] { x.slice(1, 4); }) == "slice: rows 1 to 4 of (3, 2) do not exist");
  CHECK_THROWS_AS(x.slice(2, 1), Error);
  CHECK_THROWS_AS(x.slice(-1, 1), Error);
  CHECK(x.slice(3, 3).shape() == Shape{0, 2});
}

TEST_CASE("Tensor: a size that overflows is an error, not a small tensor") {
  constexpr Index large = Index{1} << 31;
  CHECK(error_of([] {
          Tensor::uninitialized({large, large, 4});
        }) == "tensor: the size of (2147483648, 2147483648, 4) overflows");
  CHECK_THROWS_AS(Tensor::uninitialized({large, large}, DType::f64), Error);
  CHECK_THROWS_AS(Tensor::uninitialized({std::numeric_limits<Index>::max()}), Error);
}

TEST_CASE("Tensor: one without elements is a tensor") {
  const Tensor x = zeros({0, 3});
  CHECK(x.defined());
  CHECK(x.size() == 0);
  CHECK(x.to_vector<float>().empty());
  CHECK(identical(x.clone(), x));
}

TEST_CASE("Tensor: six axes are possible") {
  const Tensor x = zeros({1, 2, 1, 3, 1, 2});
  CHECK(x.size() == 12);
  CHECK(x[0].rank() == 5);
}

TEST_CASE("Tensor: zeros, ones, full and scalar hold what they say, in f32 unless asked") {
  CHECK(identical(zeros({2}), Tensor::of<float>({2}, {0, 0})));
  CHECK(identical(ones({2}, DType::f64), reals({2}, {1, 1})));
  CHECK(identical(full({2}, 2.5), Tensor::of<float>({2}, {2.5, 2.5})));
  CHECK(identical(full({2}, 3, DType::i32), ints({2}, {3, 3})));
  CHECK(identical(scalar(4, DType::f64), reals({}, {4})));
}

TEST_CASE("Tensor: fill and copy write into views") {
  const Tensor x = zeros({3, 2}, DType::f64);
  Tensor first = x[0], last = x[2];
  fill(first, 7);
  copy(reals({2}, {8, 9}), last);
  CHECK(identical(x, reals({3, 2}, {7, 7, 0, 0, 8, 9})));
  CHECK(error_of([&] { copy(zeros({3}, DType::f64), last); }) ==
        "copy: shapes differ: (3) and (2)");
  CHECK(error_of([&] { copy(zeros({2}), last); }) == "copy: dtypes differ: f32 (2) and f64 (2)");
}

TEST_CASE("Tensor: an undefined one says so") {
  const Tensor none;
  CHECK_FALSE(none.defined());
  CHECK(to_string(none) == "undefined tensor");
  CHECK(error_of([&] { none.to_vector<float>(); }) == "to_vector: the tensor is not defined");
  CHECK(error_of([&] { none.clone(); }) == "copy: the tensor is not defined");
  CHECK(error_of([&] { require_same_dtype("add", none, zeros({2})); }) ==
        "add: dtypes differ: undefined and f32 (2)");
}

TEST_CASE("Tensor: in messages a small one shows its elements, a long one its shape") {
  CHECK(to_string(Tensor::of<float>({2, 2}, {1, 2.5, -3, 4})) == "f32 (2, 2) {{1, 2.5}, {-3, 4}}");
  CHECK(to_string(ints({}, {3})) == "i32 () 3");
  CHECK(to_string(zeros({2, 0})) == "f32 (2, 0) {{}, {}}");
  CHECK(to_string(zeros({1000}, DType::f64)) == "f64 (1000)");
}

TEST_CASE("visit_floating: it calls with the element type and refuses whole numbers") {
  CHECK(visit_floating("f", zeros({1}), [](auto zero) { return sizeof zero; }) == 4);
  CHECK(visit_floating("f", zeros({1}, DType::f64), [](auto zero) { return sizeof zero; }) == 8);
  CHECK(error_of([] {
          visit_floating("f", ints({2}, {1, 2}), [](auto) {});
        }) == "f: f32 or f64 was expected: i32 (2)");
  CHECK(error_of([] { visit_floating("f", Tensor(), [](auto) {}); }) ==
        "f: the tensor is not defined");
}

}  // namespace attune
