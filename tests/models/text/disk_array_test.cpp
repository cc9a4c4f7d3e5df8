#include <algorithm>
#include <filesystem>
#include <numeric>

#include <doctest/doctest.h>

#include <attune/models/text/pair_store.hpp>
#include <attune/tensor/check.hpp>

#include "support/scratch_directory.hpp"

namespace {

using namespace attune;
using text::DiskArray;
using text::DiskBytes;

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
  CHECK_THROWS_WITH_AS(
      absent.append(all),
      (nowhere + ": a temporary file cannot be written: No such file or directory").c_str(), Error);
  for (const std::size_t in_memory : {10, 1000}) {
    DiskBytes ended(directory.path(), in_memory);
    ended.append(all);
    CHECK(ended.bytes().size() == 100);
    CHECK_THROWS_WITH_AS(ended.append(all), "DiskBytes: append after bytes()", Error);
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

}  // namespace
