#include "log.hpp"

#include <cerrno>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

namespace attune::report {
namespace {

[[noreturn]] void fail_to_write(const std::string& path, int error) {
  fail(path, fmt::format("cannot write the log: {}", std::strerror(error)));
}

std::map<std::string, double> numeric_fields(const Json& object) {
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : object.items()) {
    if (value.is_number()) numbers[name] = value.get<double>();
    if (value.is_null()) numbers[name] = std::numeric_limits<double>::quiet_NaN();
  }
  return numbers;
}

}  // namespace

std::string json_line(const Json& value) {
  return printable(
      value.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace));
}

LogWriter::LogWriter(const std::string& path, bool append)
    : path_(path), file_(std::fopen(path.c_str(), append ? "ab" : "wb"), std::fclose) {
  if (!file_) fail_to_write(path, errno);
  // Unbuffered: each line is a single write.
  std::setvbuf(file_.get(), nullptr, _IONBF, 0);
}

void LogWriter::write(const Json& fields) {
  if (!file_) fail(path_, "the log was closed after a failed write");
  const std::string text = json_line(fields) + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size()) return;
  const int error = errno;
  file_.reset();  // never append to an incomplete line
  fail_to_write(path_, error);
}

Log read_log(const std::string& path) {
  const std::string text = read_file(path);
  Log lines;
  for (std::size_t start = 0, number = 1; start < text.size(); ++number) {
    const std::size_t end = text.find('\n', start);
    const std::string line = text.substr(start, end - start);
    const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (object.is_object()) {
      lines.push_back(numeric_fields(object));
    } else if (end != std::string::npos) {
      fail(fmt::format("{}:{}", path, number), "expected a JSON object, got " + in_quotes(line));
    }
    if (end == std::string::npos) break;
    start = end + 1;
  }
  return lines;
}

}  // namespace attune::report
