#include <doctest/doctest.h>

#include <attune/models/text/pair_store.hpp>

namespace {

using namespace attune::text;

TEST_CASE("PairStore: pairs and their lengths, also empty sides") {
  const std::vector<Pair> pairs = {
      {{5, 6}, {7}}, {{}, {8, 9, 10}}, {{11}, {}}, {{}, {}}, {{12}, {13}}};
  for (const std::size_t in_memory : {0, 7, 1 << 20}) {
    PairStore store(".", in_memory);
    for (const Pair& pair : pairs) store.add(pair);
    REQUIRE(store.size() == pairs.size());
    REQUIRE(store.lengths().size() == pairs.size());
    for (std::size_t i = pairs.size(); i-- > 0;) {
      CHECK(store[i].source == pairs[i].source);
      CHECK(store[i].target == pairs[i].target);
      CHECK(store.lengths()[i].source == pairs[i].source.size());
      CHECK(store.lengths()[i].target == pairs[i].target.size());
    }
  }
}

}  // namespace
