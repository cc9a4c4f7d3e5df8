#include <doctest/doctest.h>

#include <attune/tensor/check.hpp>

#include "support/naive.hpp"

namespace attune {

TEST_CASE("ShapeCheck: shapes that agree pass, and letters have their extents") {
  ShapeCheck check("additive_scores");
  check("q", {32, 128}, "B A")("k", {7, 32, 128}, "S B A")("v", {128}, "A");
  CHECK(check['B'] == 32);
  CHECK(check['S'] == 7);
  CHECK(check['A'] == 128);
}

TEST_CASE("ShapeCheck: an extent that differs is shown with where its letter was found") {
  CHECK_ERROR("additive_scores: k (S, B, A) is (7, 64, 128), but B = 32 in q",
              ShapeCheck("additive_scores")("q", {32, 128}, "B A")("k", {7, 64, 128}, "S B A"));
}

TEST_CASE("ShapeCheck: a letter is bound within one shape too") {
  ShapeCheck("square")("w", {3, 3}, "H H");
  CHECK_ERROR("square: w (H, H) is (3, 4), but H = 3 in w",
              ShapeCheck("square")("w", {3, 4}, "H H"));
}

TEST_CASE("ShapeCheck: a wrong number of axes is an error") {
  CHECK_ERROR("lstm: h0 (B, H) is (3, 2, 5), but 2 axes were expected",
              ShapeCheck("lstm")("h0", {3, 2, 5}, "B H"));
  CHECK_ERROR("lstm: h0 (B) is (), but 1 axes were expected", ShapeCheck("lstm")("h0", {}, "B"));
  ShapeCheck("scalar")("loss", {}, "");
}

TEST_CASE("ShapeCheck: a factor multiplies its letter, before and after it is known") {
  ShapeCheck check("lstm");
  check("xw", {5, 3, 8}, "T B 4H");
  CHECK(check['H'] == 2);
  check("w_h", {2, 8}, "H 4H");
  CHECK_ERROR("lstm: w_h (H, 4H) is (2, 6), but H = 2 in xw", check("w_h", {2, 6}, "H 4H"));
  CHECK_ERROR("lstm: xw (4H) is (9), but a multiple of 4 was expected",
              ShapeCheck("lstm")("xw", {9}, "4H"));
}

TEST_CASE("ShapeCheck: a number stands for itself") {
  ShapeCheck("pairs")("x", {3, 2}, "N 2");
  CHECK_ERROR("pairs: x (N, 2) is (3, 5), but 2 was expected",
              ShapeCheck("pairs")("x", {3, 5}, "N 2"));
}

TEST_CASE("ShapeCheck: dots stand for any leading axes") {
  ShapeCheck check("linear");
  check("w", {5, 4}, "K N");
  check("x", {3, 2, 5}, "... K");
  check("x", {5}, "... K");
  CHECK_ERROR("linear: x (..., K) is (3, 2, 7), but K = 5 in w", check("x", {3, 2, 7}, "... K"));
  CHECK_ERROR("linear: x (..., K, N) is (4), but at least 2 axes were expected",
              check("x", {4}, "... K N"));
}

TEST_CASE("ShapeCheck: a letter that was never seen is an error") {
  CHECK_ERROR("lstm: no shape with the letter Q was checked", ShapeCheck("lstm")['Q']);
}

TEST_CASE("Error: it is one line, the operation first") {
  CHECK_ERROR("gather: id 7 at 2 is not in 0 to 5", fail("gather", "id 7 at 2 is not in 0 to 5"));
  CHECK_THROWS_AS(fail("a", "b"), std::runtime_error);
}

}  // namespace attune
