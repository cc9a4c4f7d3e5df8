// What a training leaves: its directory, with a lock, checkpoints and the log.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <attune/tensor/safetensors.hpp>

#include "output.hpp"

namespace attune {

/// The only lock of a directory while it lives: a flock on DIR/attune.lock, which names the process
/// and its host. It ends with the process, however that ends. Where the file system has no locks, a
/// line says so.
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

/// Of several workers, only the first one locks and changes it.
class RunDirectory {
 public:
  /// Locks it where it is there already, so that no other run changes what is read from it. Throws
  /// where another run has it, and where it cannot be made.
  explicit RunDirectory(std::filesystem::path path, bool resume = false);

  /// Whether it is to be resumed: that was asked for, and there was a checkpoint.
  bool resumes() const { return resumes_; }

  /// Makes it where it is not there, and removes what killed programs have left half-written.
  void make();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path best() const { return path_ / "best.safetensors"; }
  std::filesystem::path last() const { return path_ / "last.safetensors"; }
  std::filesystem::path log() const { return path_ / "log.jsonl"; }

  /// Renames the files of an earlier run to *.previous.*, and says so.
  void keep_previous() const;
  /// Leaves out of the log what was written after that step: it will be logged again. Where there
  /// is no line of the step itself, adds `line` if it is not empty.
  void cut_log(long step, const std::string& line) const;

 private:
  std::filesystem::path path_;
  std::optional<DirectoryLock> lock_;
  bool resumes_ = false;
};

/// What to call runs in a table or chart: the directory of best.safetensors, otherwise the file
/// without its extension; where that is the same for several, their paths.
std::vector<std::string> run_names(std::span<const std::filesystem::path> files);

/// Runs `read`; what it throws becomes an Error that begins with `what` is read.
template <class F>
auto reading(const std::filesystem::path& what, F read) {
  try {
    return read();
  } catch (const std::exception& error) {
    throw Error(what.string() + ": " + message_of(error));
  }
}

}  // namespace attune
