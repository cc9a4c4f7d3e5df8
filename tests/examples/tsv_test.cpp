#include "dates/tsv.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <unistd.h>

#include "support/hash.hpp"

namespace attune::dates {
namespace {

/// A path of this process alone, removed at the end of the test.
class TemporaryFile {
 public:
  TemporaryFile()
      : path_(std::filesystem::temp_directory_path() /
              ("attune-tsv-test-" + std::to_string(getpid()) + ".tsv")) {}
  explicit TemporaryFile(std::string_view content) : TemporaryFile() {
    std::ofstream(path_, std::ios::binary) << content;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove_all(path_); }

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::vector<Row> rows_of(std::string_view content) {
  return read_tsv(TemporaryFile(content).path());
}

/// The message for a file with this content, with the file's path as FILE.
std::string error_of(std::string_view content) {
  const TemporaryFile file(content);
  try {
    read_tsv(file.path());
  } catch (const std::runtime_error& error) {
    const std::string message = error.what();
    REQUIRE(message.starts_with(file.path()));
    return "FILE" + message.substr(file.path().size());
  }
  return "nothing was thrown";
}

std::string repeat(std::string_view text, int times) {
  std::string result;
  for (int i = 0; i < times; ++i) result += text;
  return result;
}

TEST_CASE("read_tsv: two columns are a source and a target without spans") {
  const auto rows = rows_of("27 June 2001\t2001-06-27\n16.01.75\t1975-01-16\n");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].source == "27 June 2001");
  CHECK(rows[0].target == "2001-06-27");
  CHECK(rows[0].spans.empty());
  CHECK(rows[1].source == "16.01.75");
  CHECK(rows[1].target == "1975-01-16");
}

TEST_CASE("read_tsv: with the target first, spans are still those of the source") {
  const TemporaryFile file("2001-06-27\t27 June 2001\ty:8-12\nx\n");
  const std::string message = file.path() + ":2: one column, expected target TAB source";
  CHECK_THROWS_WITH_AS(read_tsv(file.path(), text::Columns::target_first), message.c_str(),
                       std::runtime_error);
  const TemporaryFile right("2001-06-27\t27 June 2001\ty:8-12\n");
  const auto rows = read_tsv(right.path(), text::Columns::target_first);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].source == "27 June 2001");
  CHECK(rows[0].target == "2001-06-27");
  REQUIRE(rows[0].spans.size() == 1);
  CHECK(rows[0].spans[0].end == 12);
}

TEST_CASE("read_tsv: the third column has the spans, in the order of the file") {
  const auto rows = rows_of("27 Jun 2001\t2001-06-27\ty:7-11 m:3-6 d:0-2\n");
  REQUIRE(rows.size() == 1);
  REQUIRE(rows[0].spans.size() == 3);
  const std::string fields = {rows[0].spans[0].field, rows[0].spans[1].field,
                              rows[0].spans[2].field};
  CHECK(fields == "ymd");
  CHECK(rows[0].spans[0].begin == 7);
  CHECK(rows[0].spans[0].end == 11);
  CHECK(rows[0].spans[1].begin == 3);
  CHECK(rows[0].spans[1].end == 6);
  CHECK(rows[0].spans[2].begin == 0);
  CHECK(rows[0].spans[2].end == 2);
}

TEST_CASE("read_tsv: spans may come in any order, in part or not at all") {
  const auto rows = rows_of("27 Jun 2001\t2001-06-27\td:0-2 y:7-11\n1/2/03\t2003-01-02\t\ten\n");
  REQUIRE(rows.size() == 2);
  REQUIRE(rows[0].spans.size() == 2);
  CHECK(rows[0].spans[0].field == 'd');
  CHECK(rows[0].spans[1].field == 'y');
  CHECK(rows[1].spans.empty());
}

TEST_CASE("read_tsv: what follows the spans does not matter") {
  const auto rows = rows_of("6/27/01\t2001-06-27\tm:0-1\ten_US\tshort\t\tx:9-1\n");
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].target == "2001-06-27");
  CHECK(rows[0].spans.size() == 1);
}

TEST_CASE("read_tsv: spans count code points, not bytes") {
  // 10 code points in 16 bytes; each sign is three bytes.
  const auto rows = rows_of("2001年6月27日\t2001-06-27\ty:0-4 m:5-6 d:7-9\n");
  CHECK(rows[0].spans[2].end == 9);
  CHECK(rows_of("2001年6月27日\t2001-06-27\td:7-10\n")[0].spans[0].end == 10);
  CHECK(error_of("2001年6月27日\t2001-06-27\td:7-11\n") ==
        "FILE:1: span 'd:7-11' is beyond the source, expected an end of at most 10");
}

TEST_CASE("read_tsv: a character beyond the basic plane is one code point") {
  CHECK(rows_of("𑄷\t2001-06-27\ty:0-1\n")[0].source == "𑄷");
  CHECK(error_of("𑄷\t2001-06-27\ty:0-2\n") ==
        "FILE:1: span 'y:0-2' is beyond the source, expected an end of at most 1");
}

TEST_CASE("read_tsv: lines may end in CRLF") {
  const auto rows = rows_of("a\tb\r\nc\td\ty:0-1\r\n");
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].target == "b");
  CHECK(rows[1].spans.size() == 1);
}

TEST_CASE("read_tsv: the last line needs no end") {
  CHECK(rows_of("a\tb\nc\td")[1].target == "d");
  CHECK(rows_of("a\tb\r\nc\td\r")[1].target == "d");
}

TEST_CASE("read_tsv: a byte-order mark at the start is no part of the source") {
  const auto rows = rows_of(
      "\xEF\xBB\xBF"
      "27 Jun\t2001-06-27\td:0-2\n");
  CHECK(rows[0].source == "27 Jun");
}

TEST_CASE("read_tsv: a byte-order mark further on is a character like others") {
  const auto rows = rows_of(
      "a\tb\n\xEF\xBB\xBF"
      "c\td\n");
  CHECK(rows[1].source ==
        "\xEF\xBB\xBF"
        "c");
}

TEST_CASE("read_tsv: empty lines are skipped and counted") {
  const auto rows = rows_of("\n\r\na\tb\n\n\nc\td\n\n");
  REQUIRE(rows.size() == 2);
  CHECK(rows[1].source == "c");
  CHECK(error_of("\n\r\na\tb\n\nc\n") == "FILE:5: one column, expected source TAB target");
}

TEST_CASE("read_tsv: spaces and quotes belong to their column") {
  const auto rows = rows_of(" \"a\" \t b\n");
  CHECK(rows[0].source == " \"a\" ");
  CHECK(rows[0].target == " b");
}

TEST_CASE("read_tsv: a line with one column is an error") {
  CHECK(error_of("a\tb\n27 June 2001 2001-06-27\n") ==
        "FILE:2: one column, expected source TAB target");
}

TEST_CASE("read_tsv: an empty source or target is an error") {
  CHECK(error_of("\t2001-06-27\n") == "FILE:1: the source is empty, expected source TAB target");
  CHECK(error_of("a\tb\n27 June 2001\t\n") ==
        "FILE:2: the target is empty, expected source TAB target");
  CHECK(error_of("27 June 2001\t\r\n") ==
        "FILE:1: the target is empty, expected source TAB target");
  CHECK(error_of("27 June 2001\t\ty:0-1\n") ==
        "FILE:1: the target is empty, expected source TAB target");
}

TEST_CASE("read_tsv: bytes that are not UTF-8 are an error that says where they are") {
  CHECK(error_of("a\tb\n9 M\xE4rz\tb\n") ==  // Latin-1
        "FILE:2: byte 4 of the line (0xE4) is not UTF-8, expected text in UTF-8");
  CHECK(error_of("a\tb\txyz\t\x80\n") ==  // a trail byte alone, in a column that is not used
        "FILE:1: byte 9 of the line (0x80) is not UTF-8, expected text in UTF-8");
}

TEST_CASE("read_tsv: overlong, surrogate, too large and cut sequences are not UTF-8") {
  for (const char* bytes : {"\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xFF",
                            "\xE5\xB9", "\xF0\x9F\x98"}) {
    CHECK(error_of("年" + std::string(bytes)).starts_with("FILE:1: byte 4 of the line (0x"));
    CHECK(error_of("年" + std::string(bytes) + "\tb\n").starts_with("FILE:1: byte 4 of the line"));
  }
}

TEST_CASE("read_tsv: a byte-order mark counts among the bytes of its line") {
  CHECK(error_of("\xEF\xBB\xBF"
                 "a\xFF\tb\n") ==
        "FILE:1: byte 5 of the line (0xFF) is not UTF-8, expected text in UTF-8");
}

TEST_CASE("read_tsv: a file in UTF-16 is refused at its first byte") {
  CHECK(error_of(std::string_view("\xFF\xFE"
                                  "a\0\t\0b\0\n\0",
                                  10)) ==
        "FILE:1: byte 1 of the line (0xFF) is not UTF-8, expected text in UTF-8");
}

TEST_CASE("read_tsv: a malformed span is an error that shows it") {
  for (const char* span : {"y",      "y:",      ":0-1",   "y:0",    "y:0-",
                           "y:-1",   "y:0-1-2", "y:a-b",  "y:0-1x", "y:0x0-1",
                           "Y:0-1",  "h:0-1",   "yy:0-1", "y:2-1",  "y:1-1",
                           "y:-1-1", "y:0--1",  "y:+0-1", "y=0-1",  "y:0-99999999999",
                           "en_US"}) {
    CHECK(error_of("a\tb\nabcd\tb\t" + std::string(span) + "\ten\n") ==
          "FILE:2: span '" + std::string(span) +
              "' is malformed, expected such as y:7-11, m:3-6 or d:0-2");
  }
}

TEST_CASE("read_tsv: spans are separated by one space") {
  CHECK(error_of("abcd\tb\ty:0-1  m:1-2\n").starts_with("FILE:1: span '' is malformed"));
  CHECK(error_of("abcd\tb\ty:0-1,m:1-2\n").starts_with("FILE:1: span 'y:0-1,m:1-2' is malformed"));
}

TEST_CASE("read_tsv: a malformed span is not shown at any length") {
  CHECK(error_of("a\tb\t" + repeat("é", 5000) + "\n") ==
        "FILE:1: span '" + repeat("é", 40) +
            "' is malformed, expected such as y:7-11, m:3-6 or d:0-2");
}

TEST_CASE("read_tsv: a field has one span") {
  CHECK(error_of("abcd\tb\ty:0-1 m:1-2 y:2-3\n") ==
        "FILE:1: span 'y:2-3' is the second of its field, expected at most one");
}

TEST_CASE("read_tsv: a span may reach the end of the source and no further") {
  CHECK(rows_of("abcd\tb\ty:0-4\n")[0].spans[0].end == 4);
  CHECK(error_of("abcd\tb\ty:0-5\n") ==
        "FILE:1: span 'y:0-5' is beyond the source, expected an end of at most 4");
}

TEST_CASE("read_tsv: a source of more than 10,000 code points is an error") {
  CHECK(rows_of(repeat("年", 10'000) + "\tb\n")[0].source.size() == 30'000);
  CHECK(error_of("a\tb\n" + repeat("年", 10'001) + "\tb\n") ==
        "FILE:2: the source has 10001 code points, expected at most 10000");
}

TEST_CASE("read_tsv: a file without examples is an error") {
  const std::string expected = "FILE: no examples, expected lines of source TAB target";
  CHECK(error_of("") == expected);
  CHECK(error_of("\n\r\n\n") == expected);
  CHECK(error_of("\xEF\xBB\xBF") == expected);
  CHECK(error_of("\xEF\xBB\xBF\r\n") == expected);
}

TEST_CASE("read_tsv: a missing file is an error with the system's reason") {
  const TemporaryFile nothing;
  CHECK_THROWS_WITH_AS(read_tsv(nothing.path()),
                       (nothing.path() + ": cannot be read: No such file or directory").c_str(),
                       std::runtime_error);
}

TEST_CASE("read_tsv: a directory is an error with the system's reason") {
  const TemporaryFile directory;
  std::filesystem::create_directory(directory.path());
  CHECK_THROWS_WITH_AS(read_tsv(directory.path()),
                       (directory.path() + ": cannot be read: Is a directory").c_str(),
                       std::runtime_error);
}

TEST_CASE("read_tsv: many lines are read, beyond one block of the file") {
  std::string content;
  for (int i = 0; i < 20'000; ++i) content += "source " + std::to_string(i) + "\ttarget\ty:0-6\n";
  const auto rows = rows_of(content);
  REQUIRE(rows.size() == 20'000);
  CHECK(rows[19'999].source == "source 19999");
}

TEST_CASE("fingerprint: rows have the same one on every processor, and others have another") {
  const std::vector<Row> none, one = {{"é", "e", {}}}, other = {{"e", "é", {}}};
  CHECK(fingerprint(one, none) == "4d910f22d9db3220");
  CHECK(fingerprint(none, one) != fingerprint(one, none));
  CHECK(fingerprint(other, none) != fingerprint(one, none));
}

}  // namespace
}  // namespace attune::dates
