#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <attune/models/metrics/error_rate.hpp>

namespace {

using attune::metrics::position_accuracy;
using Tokens = std::vector<std::string>;

TEST_CASE("position_accuracy: the share of positions that agree") {
  CHECK(position_accuracy(Tokens{"a", "b", "c"}, Tokens{"a", "b", "c"}) == 1);
  CHECK(position_accuracy(Tokens{"a", "x", "c"}, Tokens{"a", "b", "c"}) == 2.0 / 3);
  CHECK(position_accuracy(Tokens{"b", "c", "a"}, Tokens{"a", "b", "c"}) == 0);
}

TEST_CASE("position_accuracy: what is missing or too much counts as wrong") {
  CHECK(position_accuracy(Tokens{"a", "b"}, Tokens{"a", "b", "c", "d"}) == 0.5);
  CHECK(position_accuracy(Tokens{"a", "b", "c", "d", "e"}, Tokens{"a"}) == 0.2);
  CHECK(position_accuracy(Tokens{}, Tokens{"a"}) == 0);
  CHECK(position_accuracy(Tokens{"a"}, Tokens{}) == 0);
}

TEST_CASE("position_accuracy: two empty sequences agree") {
  CHECK(position_accuracy(Tokens{}, Tokens{}) == 1);
}

}  // namespace
