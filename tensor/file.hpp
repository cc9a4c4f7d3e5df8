// Atomic replacement of files, and reading files.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include <attune/tensor/shape.hpp>

namespace attune {

/// The path in UTF-8. path::string() is in another encoding on Windows, unless the program's
/// manifest selects UTF-8.
std::string utf8_path(const std::filesystem::path& path);

/// Replaces a file by the concatenation of `parts`, atomically: writes a temporary file in the same
/// directory, flushes it to the disk and renames it over the old one. Gives no user more permissions
/// than the old file. Writes through symbolic links, and directly to a pipe or device. Throws an
/// Error with the path and the reason; then the old file is unchanged and the temporary file is
/// removed. If only the flush of the directory fails, it throws too, but the new file is in place,
/// and a power failure may undo it.
void write_file(const std::filesystem::path& path, std::span<const std::string_view> parts);
inline void write_file(const std::filesystem::path& path, std::string_view contents) {
  write_file(path, std::span<const std::string_view>(&contents, 1));
}

/// Removes the temporary files of write_file that killed processes left in the directory.
/// Precondition: this process has not started to write there.
void remove_unfinished(const std::filesystem::path& directory);

/// Creates a directory and its missing parents, and syncs them to the disk. No error if it exists.
/// Throws an Error with the path and the reason.
void make_directories(const std::filesystem::path& path);

/// The whole contents of a file or pipe. Throws an Error with the path and the reason, also if
/// there are more than `most` bytes: a device may be endless.
std::string read_file(const std::filesystem::path& path, std::size_t most = std::size_t{1} << 29);

/// A file for random access. Errors have the path and the reason.
struct InputFile {
  /// Throws unless the path is a regular file: opening a pipe may block, and a device has no size.
  explicit InputFile(const std::filesystem::path& path);

  std::size_t size = 0;  // in bytes, at the time of opening
  /// Reads to.size() bytes from offset `at`.
  std::function<void(std::size_t at, std::span<std::byte> to)> read;
};

}  // namespace attune
