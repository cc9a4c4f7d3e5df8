// The output directory of a training: lock, checkpoints and log.
#pragma once

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <attune/tensor/platform.hpp>

#include "output.hpp"

namespace attune {

/// Throws an Error about a file in a run's directory.
[[noreturn]] void fail_foreign(const std::filesystem::path& path);

/// Exclusive lock of a directory: a lock on DIR/attune.lock, a file that names the process and its
/// host. The system releases it when the process ends. Prints a warning if the file system has no
/// locks.
class DirectoryLock {
 public:
  /// Removes temporary files of killed processes. Throws an Error "--out: DIR is in use by process
  /// 1234 on host NAME".
  explicit DirectoryLock(const std::filesystem::path& directory);

 private:
  platform::FileLock lock_;
};

inline constexpr const char *best_file = "best.safetensors", *last_file = "last.safetensors";

/// The output directory. Only the first worker locks and changes it.
class RunDirectory {
 public:
  /// Locks the directory if it exists, so that no other run changes its files. Throws if another
  /// run has locked it, or if it cannot be created.
  explicit RunDirectory(std::filesystem::path path);

  /// Creates and locks the directory.
  void make();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path best() const { return path_ / best_file; }
  std::filesystem::path last() const { return path_ / last_file; }
  std::filesystem::path log() const { return path_ / "log.jsonl"; }

  /// Renames the files of an earlier run to *.previous.*, and prints their names.
  void keep_previous() const;
  /// Removes the log's lines after `step`, which a resumed run writes again. Appends `line`, unless
  /// it is empty or the log has a line of `step`. Throws if `line` is not of `step`, and as
  /// report::check_log does.
  void cut_log(long step, const std::string& line, const std::string& training) const;

 private:
  std::filesystem::path path_;
  std::optional<DirectoryLock> lock_;
};

namespace report {

/// Writes one JSON object per line, without buffering: a killed program leaves at most one
/// incomplete last line. Throws an Error with the path and the reason if writing fails.
class LogWriter {
 public:
  /// Creates an empty file, or appends to one whose last line is complete.
  explicit LogWriter(const std::string& path, bool append);

  void write(const Json& fields);

 private:
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;  // empty after a failed write
};

/// Throws if a line belongs to another training. Lines of old versions name none.
void check_log(const std::filesystem::path& path, const std::string& training);

using Log = std::vector<std::map<std::string, double>>;
/// Reads the numeric fields of each line; null (a non-finite number) becomes NaN. Skips other
/// fields and an incomplete last line. Throws an Error "FILE:LINE: ..." for any other line that is
/// not a JSON object.
Log read_log(const std::string& path);

}  // namespace report

/// Names of runs for a table or chart: the directory of best.safetensors, or the name of another
/// file without its extension. Files with equal names get their paths.
std::vector<std::string> run_names(std::span<const std::filesystem::path> files);

/// Runs `read`. Exceptions become an Error "WHAT: ...".
template <class F>
auto reading(const std::filesystem::path& what, F read) {
  try {
    return read();
  } catch (const std::exception& error) {
    throw Error(what.string() + ": " + message_of(error));
  }
}

}  // namespace attune
