#include "support/log.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>
#include <unistd.h>

#include <attune/tensor/check.hpp>

#include "support/report_tools.hpp"

namespace {

using namespace attune::report;
using namespace attune::test;

/// The path of a file that is gone at the end of the test.
struct TemporaryFile {
  std::string path = (std::filesystem::temp_directory_path() /
                      ("attune_report_test_" + std::to_string(::getpid()) + ".jsonl"))
                         .string();
  TemporaryFile() { std::filesystem::remove(path); }
  ~TemporaryFile() { std::filesystem::remove(path); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void fill(const std::string& text) const { std::ofstream(path, std::ios::binary) << text; }
  std::string text() const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
};

TEST_CASE("log: what is written is read back") {
  const TemporaryFile file;
  {
    LogWriter log(file.path, false);
    log.write({{"step", 1}, {"loss", 0.5}, {"note", "start"}});
    log.write({{"step", 2}, {"loss", 0.25}});
  }
  const auto read = read_log(file.path);
  REQUIRE(read.size() == 2);
  CHECK(read[0] == std::map<std::string, double>{{"step", 1}, {"loss", 0.5}});
  CHECK(read[1] == std::map<std::string, double>{{"step", 2}, {"loss", 0.25}});
}

TEST_CASE("log: a line has the fields in their order and numbers in their shortest form") {
  const TemporaryFile file;
  LogWriter log(file.path, false);
  log.write({{"z", 0.1}, {"a", std::int64_t{-3}}, {"m", 1e-7}, {"text", "say \"hi\"\n"}});
  CHECK(file.text() == "{\"z\": 0.1, \"a\": -3, \"m\": 1e-07, \"text\": \"say \\\"hi\\\"\\n\"}\n");
}

TEST_CASE("log: every double reads back as the same bits") {
  using Limits = std::numeric_limits<double>;
  const TemporaryFile file;
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
}

TEST_CASE("log: a number that is not finite is written as null and read as NaN") {
  const TemporaryFile file;
  LogWriter log(file.path, false);
  log.write({{"a", kNaN}, {"b", kInfinity}, {"c", -kInfinity}});
  CHECK(file.text() == "{\"a\": null, \"b\": null, \"c\": null}\n");
  const auto read = read_log(file.path);
  REQUIRE(read.at(0).size() == 3);
  for (const auto& [name, value] : read[0]) CHECK(std::isnan(value));
}

TEST_CASE("log: a line is in the file as soon as it is written") {
  const TemporaryFile file;
  LogWriter log(file.path, false);
  CHECK(read_log(file.path).empty());
  log.write({{"step", 1}});
  CHECK(read_log(file.path).size() == 1);
}

TEST_CASE("log: text that is not UTF-8 does not spoil the line") {
  const TemporaryFile file;
  LogWriter log(file.path, false);
  log.write({{"bad \xFF name", "bad \xC3 text"}, {"step", 1}});
  CHECK(read_log(file.path).at(0).at("step") == 1);
}

TEST_CASE("log: only numbers are read from a line that others wrote") {
  const TemporaryFile file;
  file.fill("{\"a\": true, \"b\": [1], \"c\": {\"d\": 1}, \"e\": \"1\", \"f\": 2}\r\n{}\n");
  const auto read = read_log(file.path);
  REQUIRE(read.size() == 2);
  CHECK(read[0] == std::map<std::string, double>{{"f", 2}});
  CHECK(read[1].empty());
}

TEST_CASE("log: a last line cut short at any byte is ignored") {
  const TemporaryFile file;
  const std::string first = "{\"step\": 1}\n", second = "{\"step\": 2, \"note\": \"é}\"}";
  for (std::size_t length = 0; length < second.size(); ++length) {
    CAPTURE(length);
    file.fill(first + second.substr(0, length));
    CHECK(read_log(file.path).size() == 1);
  }
  file.fill(first + second);  // whole but for the line break
  CHECK(read_log(file.path).size() == 2);
}

TEST_CASE("log: appending goes on after the lines that are there") {
  const TemporaryFile file;
  LogWriter(file.path, true).write({{"step", 1}});
  LogWriter(file.path, true).write({{"step", 2}});
  CHECK(file.text() == "{\"step\": 1}\n{\"step\": 2}\n");
  LogWriter(file.path, false).write({{"step", 3}});
  CHECK(file.text() == "{\"step\": 3}\n");
}

TEST_CASE("log: appending cuts a torn last line back first") {
  const TemporaryFile file;
  file.fill("{\"step\": 1}\n{\"step\": 2, \"lo");
  LogWriter(file.path, true).write({{"step", 2}});
  CHECK(file.text() == "{\"step\": 1}\n{\"step\": 2}\n");
  file.fill("{\"st");
  LogWriter(file.path, true).write({{"step", 1}});
  CHECK(file.text() == "{\"step\": 1}\n");
}

TEST_CASE("log: appending keeps a last line that lacks only its line break") {
  const TemporaryFile file;
  file.fill("{\"step\": 1}\n{\"step\": 2}");
  LogWriter(file.path, true).write({{"step", 3}});
  CHECK(file.text() == "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n");
}

TEST_CASE("log: a bad line in the middle is named by file and line") {
  const TemporaryFile file;
  for (const char* bad : {"{\"step\": 2, \"lo", "", "[1, 2]", "{\"step\": 1e999}", "{} {}"}) {
    file.fill("{\"step\": 1}\n" + std::string(bad) + "\n{\"step\": 3}\n");
    CHECK_THROWS_AS(read_log(file.path), attune::Error);
    const std::string message = thrown_by([&] { read_log(file.path); });
    CAPTURE(message);
    CHECK(message.starts_with(file.path + ":2: expected a JSON object, got \""));
    CHECK(lines(message).size() == 1);
  }
}

TEST_CASE("log: a bad last line that is not cut short is an error too") {
  const TemporaryFile file;
  file.fill("{\"step\": 1}\nnonsense\n");
  CHECK(thrown_by([&] { read_log(file.path); }) ==
        file.path + ":2: expected a JSON object, got \"nonsense\"");
}

TEST_CASE("log: a path that cannot be opened is named with the reason") {
  const std::string path = "/no/such/directory/train.jsonl";
  for (const bool append : {true, false}) {
    CHECK_THROWS_WITH_AS(LogWriter(path, append),
                         "/no/such/directory/train.jsonl: cannot write the log: "
                         "No such file or directory",
                         attune::Error);
  }
  CHECK_THROWS_WITH_AS(read_log(path),
                       "/no/such/directory/train.jsonl: cannot be read: "
                       "No such file or directory",
                       attune::Error);
  CHECK_THROWS_AS(LogWriter(std::filesystem::temp_directory_path(), false), attune::Error);
  CHECK_THROWS_AS(read_log(std::filesystem::temp_directory_path()), attune::Error);
}

TEST_CASE("log: a field given twice is an error, and nothing is written") {
  const TemporaryFile file;
  LogWriter log(file.path, false);
  CHECK_THROWS_WITH_AS(log.write({{"loss", 1.0}, {"loss", 2.0}}),
                       "log: field \"loss\" is given twice", attune::Error);
  CHECK(file.text() == "");
}

TEST_CASE("log: a full disk is an error, and so is every line after it") {
  if (!std::filesystem::exists("/dev/full")) return;
  LogWriter log("/dev/full", false);
  CHECK_THROWS_WITH_AS(log.write({{"step", 1}}),
                       "/dev/full: cannot write the log: No space left on device", attune::Error);
  CHECK_THROWS_AS(log.write({{"step", 2}}), attune::Error);
}

}  // namespace
