// Files that are written whole or not at all, and files that are read.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <attune/tensor/shape.hpp>

namespace attune {

/// Replaces a file by `parts`, one after another: a temporary file in its directory takes them,
/// is flushed to the disk and renamed over the old one; a pipe or device is written to directly. On
/// failure an Error has the path and the reason, the old file is as it was and no temporary file is
/// left; but if only the directory cannot be flushed, a power cut may undo the new file.
void write_file(const std::filesystem::path& path, std::span<const std::string_view> parts);
inline void write_file(const std::filesystem::path& path, std::string_view contents) {
  write_file(path, std::span(&contents, 1));
}

/// Makes a directory, and those above it that are not there, such that they outlast a power cut.
/// Throws an Error with the path and the reason.
void make_directories(const std::filesystem::path& path);

/// The whole contents, of a pipe too. Throws an Error with the path and the reason, which may be
/// that there are more than `most` bytes: a device may have no end.
std::string read_file(const std::filesystem::path& path, std::size_t most = std::size_t{1} << 29);

/// A file whose bytes are read in any order. Errors have the path and the reason.
struct InputFile {
  /// Throws for anything but a regular file: a pipe would be waited for, and a device has no size.
  explicit InputFile(const std::filesystem::path& path);

  std::size_t size = 0;  // in bytes, when it was opened
  /// Reads as many bytes as `to` has, from byte `at` on.
  std::function<void(std::size_t at, std::span<std::byte> to)> read;
};

}  // namespace attune
