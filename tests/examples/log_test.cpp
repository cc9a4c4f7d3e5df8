#include "attune/log.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include <doctest/doctest.h>

#include "support/errors.hpp"
#include "tools.hpp"

namespace attune::report {
namespace {

using namespace attune::test;

constexpr double nan = std::numeric_limits<double>::quiet_NaN(),
                 infinity = std::numeric_limits<double>::infinity();

struct LogFile {
  Directory directory;
  std::string path = directory / "log.jsonl";
  void fill(const std::string& text) const { write(path, text); }
  std::string text() const { return read(path); }
};

TEST_CASE("log: a line has the fields in their order, numbers in their shortest form, at once") {
  const LogFile file;
  LogWriter log(file.path, false);
  CHECK(read_log(file.path).empty());
  log.write({{"z", 0.1}, {"a", std::int64_t{-3}}, {"m", 1e-7}, {"text", "say \"hi\"\n"}});
  CHECK(file.text() == "{\"z\": 0.1, \"a\": -3, \"m\": 1e-07, \"text\": \"say \\\"hi\\\"\\n\"}\n");
  log.write({{"bad \xFF name", "bad \xC3 text"}, {"step", 2}});
  const auto read = read_log(file.path);
  REQUIRE(read.size() == 2);
  CHECK(read[0] == std::map<std::string, double>{{"z", 0.1}, {"a", -3}, {"m", 1e-7}});
  CHECK(read[1] == std::map<std::string, double>{{"step", 2}});
}

TEST_CASE("log: every double reads back as the same bits, one that is not finite as NaN") {
  using Limits = std::numeric_limits<double>;
  const LogFile file;
  LogWriter log(file.path, false);
  const std::vector<double> values = {1.0 / 3,   Limits::max(), Limits::min(), Limits::denorm_min(),
                                      -0.0,      1e22,          123456789.0,   Limits::epsilon(),
                                      1e15 + .5, 0x1p63,        -0x1p64,       5e-324};
  for (const double value : values) log.write({{"v", value}});
  const auto read = read_log(file.path);
  REQUIRE(read.size() == values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(values[i]);
    CHECK(std::memcmp(&read[i].at("v"), &values[i], sizeof(double)) == 0);
  }
  LogWriter(file.path, false).write({{"a", nan}, {"b", infinity}, {"c", -infinity}});
  CHECK(file.text() == "{\"a\": null, \"b\": null, \"c\": null}\n");
  const auto fields = read_log(file.path).at(0);
  REQUIRE(fields.size() == 3);
  for (const auto& [name, value] : fields) CHECK(std::isnan(value));
}

TEST_CASE("log: only numbers are read from a line that others wrote") {
  const LogFile file;
  file.fill("{\"a\": true, \"b\": [1], \"c\": {\"d\": 1}, \"e\": \"1\", \"f\": 2}\r\n{}\n");
  CHECK(read_log(file.path) == std::vector<std::map<std::string, double>>{{{"f", 2}}, {}});
}

TEST_CASE("log: a last line cut short at any byte is ignored") {
  const LogFile file;
  const std::string first = "{\"step\": 1}\n", second = "{\"step\": 2, \"note\": \"é}\"}";
  for (std::size_t length = 0; length < second.size(); ++length) {
    CAPTURE(length);
    file.fill(first + second.substr(0, length));
    CHECK(read_log(file.path).size() == 1);
  }
  file.fill(first + second);  // whole but for the line break
  CHECK(read_log(file.path).size() == 2);
}

TEST_CASE("log: appending goes on behind the last whole line, a new log is empty first") {
  const LogFile file;
  LogWriter(file.path, true).write({{"step", 2}});
  CHECK(file.text() == "{\"step\": 2}\n");
  for (const auto& [before, kept] :
       {std::pair{"{\"step\": 1}\n", "{\"step\": 1}\n"},
        {"{\"step\": 1}\n{\"step\": 2, \"lo", "{\"step\": 1}\n"},
        {"{\"st", ""},
        {"{\"step\": 1}\n{\"x\": 2}", "{\"step\": 1}\n{\"x\": 2}\n"}}) {
    file.fill(before);
    LogWriter(file.path, true).write({{"step", 3}});
    CHECK(file.text() == std::string(kept) + "{\"step\": 3}\n");
  }
  LogWriter(file.path, false).write({{"step", 3}});
  CHECK(file.text() == "{\"step\": 3}\n");
}

TEST_CASE("log: a bad line that is not cut short is named by file and line") {
  const LogFile file;
  for (const char* bad : {"{\"step\": 2, \"lo", "", "[1, 2]", "{\"step\": 1e999}", "{} {}"}) {
    file.fill("{\"step\": 1}\n" + std::string(bad) + "\n{\"step\": 3}\n");
    const std::string message = error_of([&] { read_log(file.path); });
    CAPTURE(message);
    CHECK(message.starts_with(file.path + ":2: expected a JSON object, got '"));
    CHECK(lines_of(message).size() == 1);
  }
  file.fill("{\"step\": 1}\nnonsense\n");
  CHECK_ERROR(file.path + ":2: expected a JSON object, got 'nonsense'", read_log(file.path));
}

TEST_CASE("log: a path that cannot be opened is named with the reason") {
  const std::string path = "/no/such/directory/train.jsonl";
  const std::string directory = std::filesystem::temp_directory_path();
  for (const bool append : {true, false})
    CHECK_ERROR(path + ": cannot write the log: No such file or directory",
                LogWriter(path, append));
  CHECK_ERROR(path + ": cannot be read: No such file or directory", read_log(path));
  CHECK_ERROR(directory + ": cannot write the log: Is a directory", LogWriter(directory, false));
  CHECK_ERROR(directory + ": cannot be read: Is a directory", read_log(directory));
}

TEST_CASE("log: a full disk is an error, and so is every line after it") {
  if (!std::filesystem::exists("/dev/full")) return;
  LogWriter log("/dev/full", false);
  CHECK_ERROR("/dev/full: cannot write the log: No space left on device", log.write({{"step", 1}}));
  CHECK_ERROR("/dev/full: the log was closed after a failed write", log.write({{"step", 2}}));
}

}  // namespace
}  // namespace attune::report
