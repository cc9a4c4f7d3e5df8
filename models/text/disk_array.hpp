// Arrays that may be larger than memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

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

}  // namespace attune::text
