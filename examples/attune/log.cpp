#include "log.hpp"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

namespace attune::report {
namespace {

[[noreturn]] void fail(const std::string& path, std::string_view what, int error) {
  throw Error(fmt::format("{}: {}: {}", path, what, std::strerror(error)));
}

nlohmann::json parse(std::string_view line) {
  return nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
}

std::map<std::string, double> numeric_fields(const nlohmann::json& object) {
  std::map<std::string, double> numbers;
  for (const auto& [name, value] : object.items()) {
    if (value.is_number()) numbers[name] = value.get<double>();
    if (value.is_null()) numbers[name] = std::numeric_limits<double>::quiet_NaN();
  }
  return numbers;
}

}  // namespace

LogWriter::LogWriter(const std::string& path, bool append)
    : path_(path), file_(nullptr, std::fclose) {
  file_.reset(std::fopen(path.c_str(), append ? "ab" : "wb"));
  if (!file_) fail(path, "cannot write the log", errno);
  // One line is one write: no buffer that holds a line back, or half of one.
  std::setvbuf(file_.get(), nullptr, _IONBF, 0);
}

void LogWriter::write(const LogFields& fields) {
  if (!file_) throw Error(path_ + ": the log was closed after a failed write");
  const std::string text = log_line(fields) + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size()) return;
  const int error = errno;
  file_.reset();  // nothing must follow half a line
  fail(path_, "cannot write the log", error);
}

Json::Json(double value) : text(std::isfinite(value) ? fmt::format("{}", value) : "null") {
  if (value == 0 && std::signbit(value)) text = "-0.0";  // "-0" would be read as an integer
}

Json::Json(const std::string& value)
    : text(printable(nlohmann::json(value).dump(-1, ' ', /*ensure_ascii=*/false,
                                                nlohmann::json::error_handler_t::replace))) {}

std::string log_line(const LogFields& fields) {
  std::string line = "{";
  for (const auto& [name, value] : fields)
    line += (line.size() > 1 ? ", " : "") + Json(name).text + ": " + value.text;
  return line + "}";
}

Log read_log(const std::string& path) {
  const std::string text = read_file(path);
  Log lines;
  for (std::size_t start = 0, number = 1; start < text.size(); ++number) {
    const std::size_t end = text.find('\n', start);
    const std::string line = text.substr(start, end - start);
    const nlohmann::json object = parse(line);
    if (object.is_object()) {
      lines.push_back(numeric_fields(object));
    } else if (end != std::string::npos) {
      throw Error(
          fmt::format("{}:{}: expected a JSON object, got {}", path, number, in_quotes(line)));
    }
    if (end == std::string::npos) break;
    start = end + 1;
  }
  return lines;
}

}  // namespace attune::report
