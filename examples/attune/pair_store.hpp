// Pairs of sentences on disk, when they are more than memory can hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <type_traits>
#include <utility>

#include <attune/models/text/batches.hpp>
#include <attune/tensor/shape.hpp>

namespace attune::text {

/// Bytes that are appended and then read, in a file without a name in `directory`. The system keeps
/// in memory what it has room for. The file ends with the object, or with the process, however that
/// ends.
class DiskBytes {
 public:
  explicit DiskBytes(std::filesystem::path directory) : directory_(std::move(directory)) {}
  DiskBytes(const DiskBytes&) = delete;
  DiskBytes& operator=(const DiskBytes&) = delete;
  ~DiskBytes();

  std::size_t size() const { return size_; }
  /// Throws an Error with the directory and the reason when the disk is full.
  void append(std::span<const std::byte> bytes);
  /// All that was appended; nothing may be appended any more. Throws as append() does.
  std::span<const std::byte> bytes();

 private:
  std::filesystem::path directory_;
  std::FILE* file_ = nullptr;
  std::size_t size_ = 0;
  void* mapping_ = nullptr;
};

/// The same for values.
template <class T>
class DiskArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit DiskArray(const std::filesystem::path& directory) : bytes_(directory) {}

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

/// Lists of values: they are added one by one, then read in any order.
template <class T>
class DiskLists {
 public:
  explicit DiskLists(const std::filesystem::path& directory)
      : values_(directory), ends_(directory) {}

  void add(std::span<const T> list) {
    values_.append(list);
    ends_.append(values_.size());
  }
  std::span<const T> operator[](std::size_t i) {
    const std::uint64_t begin = i == 0 ? 0 : ends_.values()[i - 1];
    return values_.values().subspan(begin, ends_.values()[i] - begin);
  }

 private:
  DiskArray<T> values_;
  DiskArray<std::uint64_t> ends_;  // where each list's values end
};

/// Pairs that are added one by one, then read in any order. Temporary files in a directory keep
/// them: 16 bytes for each pair and 4 for each word.
class PairStore {
 public:
  explicit PairStore(const std::filesystem::path& directory)
      : words_(directory), lengths_(directory) {}

  void add(const Pair& pair);
  std::size_t size() const { return lengths_.size(); }

  /// These may be called when all pairs are added.
  std::span<const PairLengths> lengths() { return lengths_.values(); }
  Pair operator[](std::size_t i);

 private:
  DiskLists<std::int32_t> words_;  // each pair's source and target
  DiskArray<PairLengths> lengths_;
};

}  // namespace attune::text
