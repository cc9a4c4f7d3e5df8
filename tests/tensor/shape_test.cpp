#include <doctest/doctest.h>

#include <attune/tensor/shape.hpp>

#include "support/naive.hpp"

namespace attune {

TEST_CASE("Shape: negative axes count from the end") {
  const Shape shape{3, 2, 5};
  CHECK(shape.rank() == 3);
  CHECK(shape[0] == 3);
  CHECK(shape[-1] == 5);
  CHECK(shape[-3] == 3);
  CHECK(shape.axis(-2) == 1);
  CHECK(shape.axis(2) == 2);
}

TEST_CASE("Shape: an axis that is not there is an error") {
  const Shape shape{3, 2, 5};
  CHECK_ERROR("shape: there is no axis 3 in (3, 2, 5)", shape[3]);
  CHECK_ERROR("shape: there is no axis -4 in (3, 2, 5)", shape[-4]);
  CHECK_ERROR("shape: there is no axis 0 in ()", Shape()[0]);
  CHECK_THROWS_AS(shape.with(3, 1), Error);
  CHECK_THROWS_AS(shape.without(-4), Error);
}

TEST_CASE("Shape: with, without and inserted change one axis") {
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
}

TEST_CASE("Shape: where an axis cannot be inserted there is an error") {
  CHECK_ERROR("shape: cannot insert an axis at 3 into (3, 2)", Shape{3, 2}.inserted(3, 1));
  CHECK_THROWS_AS((Shape{3, 2}.inserted(-4, 1)), Error);
  CHECK_THROWS_AS((Shape{1, 2, 3, 4, 5, 6}.inserted(0, 1)), Error);
}

TEST_CASE("Shape: the size is the product of the extents, 1 for a scalar") {
  CHECK(Shape{3, 2, 5}.size() == 30);
  CHECK(Shape{}.size() == 1);
  CHECK(Shape{3, 0, 5}.size() == 0);
  CHECK(Shape{3, 2, 5}.product(1, 3) == 10);
  CHECK(Shape{3, 2, 5}.product(1, 1) == 1);
}

TEST_CASE("Shape: equal shapes have the same rank and extents") {
  CHECK(Shape{3, 2} == Shape{3, 2});
  CHECK(Shape{3, 2} != Shape{2, 3});
  CHECK(Shape{3, 2} != Shape{3, 2, 1});
  CHECK(Shape{} != Shape{1});
  CHECK(Shape{1, 2, 3}.without(0) == Shape{2, 3});
}

TEST_CASE("Shape: more than six axes and negative extents are errors") {
  CHECK_ERROR("shape: (1, 2, 3, 4, 5, 6, 7) has more than 6 axes", Shape{1, 2, 3, 4, 5, 6, 7});
  CHECK_ERROR("shape: (3, -2) has a negative extent", Shape{3, -2});
  CHECK_THROWS_AS((Shape{3, 2}.with(0, -1)), Error);
  CHECK_THROWS_AS((Shape{3, 2}.inserted(0, -1)), Error);
}

TEST_CASE("Shape: in messages it stands in parentheses") {
  CHECK(to_string(Shape{3, 4}) == "(3, 4)");
  CHECK(to_string(Shape{7}) == "(7)");
  CHECK(to_string(Shape{}) == "()");
}

TEST_CASE("broadcast: axes are aligned at the end and extents of 1 stretch") {
  CHECK(broadcast("add", {3, 2, 5}, {5}) == Shape{3, 2, 5});
  CHECK(broadcast("add", {2, 1}, {3, 1, 5}) == Shape{3, 2, 5});
  CHECK(broadcast("add", {}, {3, 2}) == Shape{3, 2});
  CHECK(broadcast("add", {3, 1}, {1, 4}) == Shape{3, 4});
  CHECK(broadcast("add", {1}, {0}) == Shape{0});
  CHECK(broadcast("add", {2, 0}, {2, 1}) == Shape{2, 0});
}

TEST_CASE("broadcast: shapes that do not fit are an error with both of them") {
  CHECK_ERROR("add: shapes (3, 2) and (3) do not broadcast", broadcast("add", {3, 2}, {3}));
  CHECK_ERROR("divide: shapes (2) and (5, 3) do not broadcast", broadcast("divide", {2}, {5, 3}));
  CHECK_THROWS_AS(broadcast("add", {0}, {2}), Error);
}

}  // namespace attune
