// A directory in memory, for files that are replaced as a whole.
#pragma once

#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

namespace attune::fuzz {

/// A path in a directory that ends with the process.
inline std::filesystem::path scratch_file(const char* name) {
  static const struct Directory {
    std::filesystem::path path = fmt::format("/dev/shm/attune-fuzz-{}", ::getpid());
    Directory() { std::filesystem::create_directory(path); }
    ~Directory() { std::filesystem::remove_all(path); }
  } directory;
  return directory.path / name;
}

}  // namespace attune::fuzz
