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
  CHECK(error_of([] {
          ShapeCheck("additive_scores")("q", {32, 128}, "B A")("k", {7, 64, 128}, "S B A");
        }) == "additive_scores: k (S, B, A) is (7, 64, 128), but B = 32 in q");
}

TEST_CASE("ShapeCheck: a letter is bound within one shape too") {
  ShapeCheck("square")("w", {3, 3}, "H H");
  CHECK(error_of([] {
          ShapeCheck("square")("w", {3, 4}, "H H");
        }) == "square: w (H, H) is (3, 4), but H = 3 in w");
}

TEST_CASE("ShapeCheck: a wrong number of axes is an error") {
  CHECK(error_of([] {
          ShapeCheck("lstm")("h0", {3, 2, 5}, "B H");
        }) == "lstm: h0 (B, H) is (3, 2, 5), but 2 axes were expected");
  CHECK(error_of([] { ShapeCheck("lstm")("h0", {}, "B"); }) ==
        "lstm: h0 (B) is (), but 1 axes were expected");
  ShapeCheck("scalar")("loss", {}, "");
}

TEST_CASE("ShapeCheck: a factor multiplies its letter, before and after it is known") {
  ShapeCheck check("lstm");
  check("xw", {5, 3, 8}, "T B 4H");
  CHECK(check['H'] == 2);
  check("w_h", {2, 8}, "H 4H");
  CHECK(error_of([&] {
          check("w_h", {2, 6}, "H 4H");
        }) == "lstm: w_h (H, 4H) is (2, 6), but H = 2 in xw");
  CHECK(error_of([] { ShapeCheck("lstm")("xw", {9}, "4H"); }) ==
        "lstm: xw (4H) is (9), but a multiple of 4 was expected");
}

TEST_CASE("ShapeCheck: a number stands for itself") {
  ShapeCheck("pairs")("x", {3, 2}, "N 2");
  CHECK(error_of([] {
          ShapeCheck("pairs")("x", {3, 5}, "N 2");
        }) == "pairs: x (N, 2) is (3, 5), but 2 was expected");
}

TEST_CASE("ShapeCheck: dots stand for any leading axes") {
  ShapeCheck check("linear");
  check("w", {5, 4}, "K N");
  check("x", {3, 2, 5}, "... K");
  check("x", {5}, "... K");
  CHECK(error_of([&] {
          check("x", {3, 2, 7}, "... K");
        }) == "linear: x (..., K) is (3, 2, 7), but K = 5 in w");
  CHECK(error_of([&] { check("x", {4}, "... K N"); }) ==
        "linear: x (..., K, N) is (4), but at least 2 axes were expected");
}

TEST_CASE("ShapeCheck: a letter that was never seen is an error") {
  CHECK(error_of([] { ShapeCheck("lstm")['Q']; }) ==
        "lstm: no shape with the letter Q was checked");
}

TEST_CASE("Error: it is one line, the operation first") {
  CHECK(error_of([] { fail("gather", "id 7 at 2 is not in 0 to 5"); }) ==
        "gather: id 7 at 2 is not in 0 to 5");
  CHECK_THROWS_AS(fail("a", "b"), std::runtime_error);
}

}  // namespace attune
