// A corpus as numbers that may be larger than memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include <attune/models/text/batches.hpp>
#include <attune/models/text/disk_array.hpp>

namespace attune::text {

/// Pairs that are added one by one and then taken in any order. A large corpus is kept in temporary
/// files in a directory (text/disk_array.hpp): 16 bytes for each pair and 4 for each word.
class PairStore {
 public:
  explicit PairStore(const std::filesystem::path& directory,
                     std::size_t in_memory = DiskBytes::default_in_memory)
      : words_(directory, in_memory), ends_(directory, in_memory), lengths_(directory, in_memory) {}

  void add(const Pair& pair);
  std::size_t size() const { return lengths_.size(); }

  /// These may be called when all pairs are added.
  std::span<const PairLengths> lengths() { return lengths_.values(); }
  Pair operator[](std::size_t i);

 private:
  DiskArray<std::int32_t> words_;  // of all sources and targets
  DiskArray<std::uint64_t> ends_;  // where each pair's end
  DiskArray<PairLengths> lengths_;
};

}  // namespace attune::text
