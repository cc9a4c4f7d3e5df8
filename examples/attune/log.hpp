// Logs of training, in JSON lines.
#pragma once

#include <concepts>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attune::report {

struct Json;
using LogFields = std::vector<std::pair<std::string, Json>>;

/// The fields as a JSON object, in their order, without the end of the line.
std::string log_line(const LogFields& fields);

/// A value as JSON. Numbers are written in the shortest form that reads back as the same number; NaN
/// and infinities, which JSON does not have, as null.
struct Json {
  std::string text;

  Json(double value);
  Json(std::integral auto value) : text(std::to_string(value)) {}
  Json(const char* value) : Json(std::string(value)) {}
  Json(const std::string& value);
  Json(const LogFields& object) : text(log_line(object)) {}
  template <class T>
  Json(const std::vector<T>& list) : text("[") {
    for (const Json one : list) text += (text.size() > 1 ? ", " : "") + one.text;
    text += "]";
  }
};

/// A log in JSON lines: one object per line, on disk as soon as `write` returns, so that a program
/// that is killed leaves at most its last line cut short. Errors of the file system are Error with
/// the path and the reason.
class LogWriter {
 public:
  /// Starts an empty file, or appends to one whose last line is whole.
  explicit LogWriter(const std::string& path, bool append);

  void write(const LogFields& fields);

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
