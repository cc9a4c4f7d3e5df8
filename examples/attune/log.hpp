// Logs of training, in JSON lines.
#pragma once

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace attune::report {

/// Fields in their order. Numbers are written in the shortest form that reads back as the same
/// number; NaN and infinities, which JSON does not have, as null.
using Json = nlohmann::ordered_json;

/// On one line, without its end. Bytes that are not UTF-8 become U+FFFD.
std::string json_line(const Json& value);

/// A log in JSON lines: one object per line, on disk as soon as `write` returns, so that a program
/// that is killed leaves at most its last line cut short. Errors of the file system are Error with
/// the path and the reason.
class LogWriter {
 public:
  /// Starts an empty file, or appends to one whose last line is whole.
  explicit LogWriter(const std::string& path, bool append);

  void write(const Json& fields);

 private:
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;  // empty after a failed write
};

using Log = std::vector<std::map<std::string, double>>;
/// The numeric fields of each line; null, the mark of a number that was not finite, is NaN. Strings
/// and everything else are left out. A last line cut short is ignored; a line anywhere else that is
/// not an object is Error "FILE:LINE: ...".
Log read_log(const std::string& path);

}  // namespace attune::report
