// A temporary directory for a test.
#pragma once

#include <filesystem>
#include <random>
#include <string>

namespace attune {

/// Created empty, and removed with its contents on scope exit.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    do
      path_ = std::filesystem::temp_directory_path() /
              ("attune_test_" + std::to_string(std::random_device()()));
    while (!std::filesystem::create_directory(path_));
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory() { std::filesystem::remove_all(path_); }

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

  /// Number of files and directories in it.
  std::size_t count() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_),
                                                  std::filesystem::directory_iterator{}));
  }

 private:
  std::filesystem::path path_;
};

}  // namespace attune
