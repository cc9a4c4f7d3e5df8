// The directory of a training run: checkpoints and the log, and how it may be interrupted.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace attune {

class RunDirectory {
 public:
  /// Makes it where it is not there, and removes what a killed run has left half-written. Throws an
  /// Error that begins with "--out".
  explicit RunDirectory(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path best() const { return path_ / "best.safetensors"; }
  std::filesystem::path last() const { return path_ / "last.safetensors"; }
  std::filesystem::path log() const { return path_ / "log.jsonl"; }

  /// Renames the files of an earlier run to *.previous.*, and says so.
  void keep_previous() const;
  /// Leaves out of the log what was written after that step: it will be logged again.
  void cut_log(long step) const;

 private:
  std::filesystem::path path_;
};

/// What to call runs in a table or chart: the directory of best.safetensors or log.jsonl, otherwise
/// the file without its extension; where that is the same for several, their paths.
std::vector<std::string> run_names(std::span<const std::filesystem::path> files);

/// Ctrl-C and SIGTERM are noted from now on; a second one ends the program at once.
void catch_signals();
bool interrupted();

}  // namespace attune
