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

std::vector<std::byte> some_bytes(std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i * i >> 3);
  return bytes;
}

TEST_CASE("DiskBytes: what was appended, in memory and on disk, and no file is seen") {
  const ScratchDirectory directory;
  const std::vector<std::byte> all = some_bytes(10'000);
  for (const std::size_t in_memory : {0, 1, 999, 9'999, 10'000, 1 << 20}) {
    DiskBytes bytes(directory.path(), in_memory);
    for (std::size_t begin = 0; begin < all.size(); begin += 125) {
      bytes.append(std::span(all).subspan(begin, 125));
    }
    CHECK(bytes.size() == all.size());
    for (int twice = 0; twice < 2; ++twice) {
      CHECK(std::ranges::equal(bytes.bytes(), all));
    }
    CHECK(bytes.size() == all.size());
    CHECK(std::filesystem::is_empty(directory.path()));
  }
}

TEST_CASE("DiskBytes: nothing at all") {
  DiskBytes bytes("/nowhere", 0);
  bytes.append({});
  CHECK(bytes.bytes().empty());
  CHECK(bytes.bytes().empty());
}

TEST_CASE("DiskBytes: a directory that is not there, and bytes after the end, are errors") {
  const ScratchDirectory directory;
  const std::vector<std::byte> all = some_bytes(100);
  const std::string nowhere = (directory / "nowhere").string();
  DiskBytes absent(nowhere, 10);
  CHECK_ERROR(nowhere + ": a temporary file cannot be written: No such file or directory",
              absent.append(all));
  for (const std::size_t in_memory : {10, 1000}) {
    DiskBytes ended(directory.path(), in_memory);
    ended.append(all);
    CHECK(ended.bytes().size() == 100);
    CHECK_ERROR("DiskBytes: append after bytes()", ended.append(all));
  }
}

TEST_CASE("DiskArray: values") {
  std::vector<std::uint64_t> all(1000);
  std::iota(all.begin(), all.end(), std::uint64_t{1} << 40);
  for (const std::size_t in_memory : {0, 100, 1 << 20}) {
    DiskArray<std::uint64_t> array(".", in_memory);
    array.append(std::span<const std::uint64_t>(all).first(999));
    array.append(all.back());
    CHECK(array.size() == 1000);
    CHECK(std::ranges::equal(array.values(), all));
  }
}

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
