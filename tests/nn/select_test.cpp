#include <doctest/doctest.h>

#include <attune/nn/recurrent.hpp>
#include <attune/tensor/elementwise.hpp>

#include "support/naive.hpp"

namespace attune {

TEST_CASE("select: rows of all parts of a state, with repetition; what is undefined stays so") {
  const Tensor h = reals({3, 2}, {1, 2, 3, 4, 5, 6}), rows = ints({2}, {2, 2});
  const std::vector<nn::RecurrentState> layers{{h, {}}, {h * 10.0, h}};
  const std::vector<nn::RecurrentState> selected = nn::select(layers, rows);
  REQUIRE(selected.size() == 2);
  CHECK(identical(selected[0].h.value(), reals({2, 2}, {5, 6, 5, 6})));
  CHECK_FALSE(selected[0].c.defined());
  CHECK(identical(selected[1].h.value(), reals({2, 2}, {50, 60, 50, 60})));
  CHECK(identical(selected[1].c.value(), reals({2, 2}, {5, 6, 5, 6})));
}

TEST_CASE("select_columns: the same of axis 1; nothing is recorded") {
  const Var x = variable(reals({2, 3}, {1, 2, 3, 4, 5, 6}));
  const Var y = nn::select_columns(x, ints({2}, {2, 0}));
  CHECK(identical(y.value(), reals({2, 2}, {3, 1, 6, 4})));
  CHECK_FALSE(y.requires_gradient());
  CHECK_FALSE(nn::select_columns({}, ints({1}, {0})).defined());
}

}  // namespace attune
