// Training logs in the JSON Lines format.
#pragma once

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace attune::report {

/// Keeps the order of fields. Numbers are written in the shortest form that reads back as the same
/// number; non-finite numbers, which JSON lacks, as null.
using Json = nlohmann::ordered_json;

/// JSON on one line, without '\n'. Invalid UTF-8 becomes U+FFFD.
std::string json_line(const Json& value);

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

using Log = std::vector<std::map<std::string, double>>;
/// Reads the numeric fields of each line; null (a non-finite number) becomes NaN. Skips other
/// fields and an incomplete last line. Throws an Error "FILE:LINE: ..." for any other line that is
/// not a JSON object.
Log read_log(const std::string& path);

}  // namespace attune::report
