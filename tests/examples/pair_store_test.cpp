#include "attune/pair_store.hpp"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include <doctest/doctest.h>

#include "support/errors.hpp"
#include "support/scratch_directory.hpp"

namespace {

using namespace attune;
using namespace attune::text;

TEST_CASE("DiskArray: values, and no file is seen") {
  const ScratchDirectory directory;
  std::vector<std::uint64_t> all(100'000);
  std::iota(all.begin(), all.end(), std::uint64_t{1} << 40);
  const auto first = std::span<const std::uint64_t>(all).first(99'999);
  DiskArray<std::uint64_t> array(directory.path());
  for (std::size_t begin = 0; begin < first.size(); begin += 123)
    array.append(first.subspan(begin, std::min<std::size_t>(123, first.size() - begin)));
  array.append(all.back());
  for (int twice = 0; twice < 2; ++twice) {
    CHECK(array.size() == all.size());
    CHECK(std::ranges::equal(array.values(), all));
    CHECK(std::filesystem::is_empty(directory.path()));
  }
}

TEST_CASE("DiskArray: nothing at all, and a directory that is not there") {
  const ScratchDirectory directory;
  const std::string nowhere = (directory / "nowhere").string();
  DiskArray<int> array(nowhere);
  array.append(std::span<const int>());
  CHECK(array.size() == 0);
  CHECK(array.values().empty());
  CHECK_ERROR(nowhere + ": a temporary file cannot be written: No such file or directory",
              array.append(1));
}

TEST_CASE("PairStore: pairs and their lengths, also empty sides") {
  const std::vector<Pair> pairs = {
      {{5, 6}, {7}}, {{}, {8, 9, 10}}, {{11}, {}}, {{}, {}}, {{12}, {13}}};
  PairStore store(".");
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

}  // namespace
