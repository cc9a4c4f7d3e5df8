// Files that are written whole or not at all, and files that are read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <attune/tensor/shape.hpp>

namespace attune {

/// Replaces a file by `parts`, one after another: they are written to a temporary file in the same
/// directory, flushed to the disk, and renamed over the old one. When anything fails, an Error with
/// the path and the reason is thrown, the old file is as it was and no temporary file is left; but
/// when only the directory cannot be flushed, the new file is there, and a power cut may undo it.
void write_file(const std::filesystem::path& path, std::span<const std::string_view> parts);
void write_file(const std::filesystem::path& path, std::string_view contents);

/// Makes a directory, and those above it that are not there, such that they outlast a power cut.
/// Throws an Error with the path and the reason.
void make_directories(const std::filesystem::path& path);

/// The whole contents, of a pipe too. Throws an Error with the path and the reason, which may be
/// that there are more than `most` bytes: a device may have no end.
std::string read_file(const std::filesystem::path& path, std::size_t most = std::size_t{1} << 29);

namespace detail {

/// An open file, which closes itself.
class Descriptor {
 public:
  /// `number`: what open returned, negative when that failed.
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor();

  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }
  /// Closes, and tells whether that went well: some file systems report a full disk only now.
  bool close();

 private:
  int number_;
};

}  // namespace detail

/// A file whose bytes are read in any order. Errors have the path and the reason.
class InputFile {
 public:
  /// Throws for anything but a regular file: a pipe would be waited for, and a device has no size.
  explicit InputFile(std::filesystem::path path);

  /// In bytes, when it was opened.
  std::size_t size() const { return size_; }
  /// Reads as many bytes as `to` has, from byte `at` on.
  void read(std::size_t at, std::span<std::byte> to) const;

 private:
  std::filesystem::path path_;
  detail::Descriptor file_;
  std::size_t size_ = 0;
};

}  // namespace attune
