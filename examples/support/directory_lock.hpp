// Two programs must not write into one directory.
#pragma once

#include <filesystem>

namespace attune {

/// Keeps other locks of the directory from being taken, by this or another process, for as long as
/// it lives: a flock on DIR/attune.lock, in which the process and its host are named. It ends with
/// the process, however that ends. Where the file system has no locks, a line says so.
class DirectoryLock {
 public:
  /// Throws an Error "--out: DIR is in use by process 1234 on host NAME".
  explicit DirectoryLock(const std::filesystem::path& directory);
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;
  /// Removes the file.
  ~DirectoryLock();

 private:
  std::filesystem::path path_;
  int file_ = -1;
};

}  // namespace attune
