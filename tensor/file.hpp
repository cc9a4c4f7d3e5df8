// Files that are either whole or not there.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace attune {

/// Replaces a file by `parts`, one after another: they are written to a temporary file in the same
/// directory, flushed to the disk, and renamed over the old one. When anything fails, an Error with
/// the path and the reason is thrown, the old file is as it was and no temporary file is left.
void write_file(const std::filesystem::path& path, std::span<const std::string_view> parts);
void write_file(const std::filesystem::path& path, std::string_view contents);

/// The whole contents. Throws an Error with the path and the reason.
std::string read_file(const std::filesystem::path& path);

}  // namespace attune
