// Pairs of sentences on disk, when they are more than memory can hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <attune/models/text/batches.hpp>
#include <attune/tensor/shape.hpp>

namespace attune::text {

/// Bytes that are appended and then read. More than `in_memory` of them go to a file without a name
/// in `directory`, of which the system keeps in memory what it has room for; it ends with the
/// object, or with the process, however that ends.
class DiskBytes {
 public:
  static constexpr std::size_t default_in_memory = std::size_t{1} << 24;
  explicit DiskBytes(std::filesystem::path directory, std::size_t in_memory = default_in_memory);
  DiskBytes(const DiskBytes&) = delete;
  DiskBytes& operator=(const DiskBytes&) = delete;
  ~DiskBytes();

  std::size_t size() const { return written_ + buffer_.size(); }
  /// Throws an Error with the directory and the reason when the disk is full.
  void append(std::span<const std::byte> bytes);
  /// All that was appended; nothing may be appended any more. Throws as append() does.
  std::span<const std::byte> bytes();

 private:
  void flush();

  std::filesystem::path directory_;
  std::size_t in_memory_;
  std::vector<std::byte> buffer_;
  int file_ = -1;
  std::size_t written_ = 0;  // to the file
  void* mapping_ = nullptr;
  bool ended_ = false;
};

/// The same for values.
template <class T>
class DiskArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit DiskArray(std::filesystem::path directory,
                     std::size_t in_memory = DiskBytes::default_in_memory)
      : bytes_(std::move(directory), in_memory) {}

  std::size_t size() const { return bytes_.size() / sizeof(T); }
  void append(std::span<const T> values) { bytes_.append(std::as_bytes(values)); }
  void append(const T& value) { append(std::span(&value, 1)); }
  std::span<const T> values() {
    const std::span<const std::byte> bytes = bytes_.bytes();
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

 private:
  DiskBytes bytes_;
};

/// Pairs that are added one by one and then taken in any order. A large corpus is kept in temporary
/// files in a directory: 16 bytes for each pair and 4 for each word.
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
