#include <filesystem>
#include <sstream>

#include <doctest/doctest.h>

#include <attune/models/text/corpus.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/tensor/errors.hpp>
#include <attune/tensor/file.hpp>

#include "support/errors.hpp"
#include "support/scratch_directory.hpp"

namespace {

using namespace attune;
using namespace attune::text;
using Lines = std::vector<std::string>;

Lines lines_of(const std::string& contents) {
  std::istringstream stream(contents);
  return read_lines(LineReader(stream, "input"));
}

TEST_CASE("LineReader: lines end in LF, CRLF, CR or at the end of the text") {
  CHECK(lines_of("a b\nc\n") == Lines{"a b", "c"});
  CHECK(lines_of("a b\r\nc") == Lines{"a b", "c"});
  CHECK(lines_of("a\rb\n") == Lines{"a", "b"});
  CHECK(lines_of("a\r\rb\r\n\r") == Lines{"a", "", "b", ""});
  CHECK(lines_of("").empty());
  CHECK(lines_of("\na\n\n\r\nb\n\n") == Lines{"", "a", "", "", "b", ""});
  CHECK(lines_of("a\u2028b\u0085c\fd\n") == Lines{"a\u2028b\u0085c\fd"});
}

TEST_CASE("LineReader: a byte-order mark is skipped at the start of a line") {
  CHECK(lines_of("\uFEFFa\n\uFEFF\uFEFFb\uFEFF\n") == Lines{"a", "b\uFEFF"});
  CHECK(lines_of("a\n\uFEFF") == Lines{"a"});
  CHECK(lines_of("\uFEFF\n") == Lines{""});
  CHECK(lines_of("\uFEFF").empty());
}

TEST_CASE("LineReader: counts lines from 1") {
  std::istringstream stream("a\nb\n");
  LineReader reader(stream, "input");
  reader.next();
  reader.next();
  CHECK(reader.number() == 2);
  CHECK_FALSE(reader.next());
  CHECK(reader.number() == 2);
}

TEST_CASE("LineReader: invalid UTF-8 is an error with line and byte") {
  CHECK_ERROR("input:2: byte 4 of the line (0xFF) is not UTF-8, expected text in UTF-8",
              lines_of("a\nüb\xFF\n"));
  CHECK_ERROR("input:1: byte 1 of the line (0xFF) is not UTF-8, expected text in UTF-8",
              lines_of("\xFF\xFE\x61"));
}

TEST_CASE("LineReader: NUL is an error") {
  CHECK_ERROR("input:2: byte 2 of the line is NUL, expected text",
              lines_of(std::string("a\nb\0c\n", 6)));
}

TEST_CASE("LineReader: long lines are read, endless lines are an error") {
  for (std::size_t length = 4090; length < 4100; ++length) {
    CAPTURE(length);
    const std::string one(length, 'a'), two(2 * length, 'b');
    CHECK(lines_of(one + "\n" + two) == Lines{one, two});
    CHECK(lines_of(two + "\n" + one + "\n") == Lines{two, one});
  }
  CHECK_ERROR("/dev/zero:1: longer than 16777216 bytes, expected lines of text",
              read_lines(LineReader("/dev/zero")));
}

TEST_CASE("LineReader: a missing file, or a directory, is an error") {
  const ScratchDirectory directory;
  const std::string missing = (directory / "missing").string();
  CHECK_ERROR(missing + ": cannot be read: No such file or directory",
              LineReader(std::filesystem::path(missing)));
  CHECK_ERROR(directory.path().string() + ": cannot be read: Is a directory",
              read_lines(LineReader(directory.path())));
}

TEST_CASE("LF, CRLF and CR: every reader of text reads the same") {
  const ScratchDirectory directory;
  const auto write = [&](const char* name, std::string text, const std::string& end) {
    for (std::size_t at = 0; (at = text.find('\n', at)) != text.npos; at += end.size())
      text.replace(at, 1, end);
    write_file(directory / name, text);
    return directory / name;
  };
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    CHECK(read_lines(LineReader(write("lines", "a b\n\nc\n", end))) == Lines{"a b", "", "c"});
    const auto tsv = write("pairs.tsv", "a\tx\nb\ty\n", end), de = write("de", "a\nb\n", end),
               en = write("en", "x\ny\n", "\n");
    const auto check = [](ParallelReader reader) {
      CHECK(reader.next()->target == "x");
      CHECK(reader.next()->target == "y");
      CHECK_FALSE(reader.next());
    };
    check(ParallelReader(tsv));
    check(ParallelReader(de, en));
    CHECK(read_corpus(ParallelReader(tsv)).pairs.size() == 2);
    CHECK(read_vocabulary(write("words", "a\nb\n", end)).size() == 6);
    const std::vector<PairLengths> lengths = {{1, 1}, {2, 2}};
    CHECK(read_gold_alignments(write("gold", "1-1\n1-2 2p1\n", end), lengths).size() == 2);
  }
}

/// One or two files of a parallel corpus.
struct Files {
  ScratchDirectory directory;
  std::filesystem::path source = directory / "a.de", target = directory / "a.en",
                        tsv = directory / "a.tsv";
  Files(const std::string& de, const std::string& en) {
    write_file(source, de);
    write_file(target, en);
  }
  explicit Files(const std::string& both) { write_file(tsv, both); }
};

TEST_CASE("ParallelReader: pairs line n of both files") {
  const Files files("\uFEFFeins\r\n\r\nzwei\tdrei", "one\nempty\ntwo\n");
  ParallelReader reader(files.source, files.target);
  const auto first = reader.next(), second = reader.next(), third = reader.next();
  REQUIRE((first && second && third));
  CHECK(first->source == "eins");
  CHECK(first->target == "one");
  CHECK(second->source.empty());
  CHECK(second->target == "empty");
  CHECK(third->source == "zwei\tdrei");
  CHECK(third->target == "two");
  CHECK_FALSE(reader.next());
  CHECK_FALSE(reader.next());
}

TEST_CASE("ParallelReader: unequal numbers of lines are an error with both numbers") {
  const Files files("a\nb\nc\n", "x\n");
  const std::string de = files.source.string(), en = files.target.string();
  CHECK_ERROR(de + ": 3 lines, but " + en + " has 1: expected as many of each",
              read_corpus(ParallelReader(files.source, files.target)));
  CHECK_ERROR(en + ": 1 lines, but " + de + " has 3: expected as many of each",
              read_corpus(ParallelReader(files.target, files.source)));
}

TEST_CASE("ParallelReader: an error names the file and the line") {
  const Files files("a\nb\n", "x\ny\xC3\n");
  const std::string message =
      files.target.string() + ":2: byte 2 of the line (0xC3) is not UTF-8, expected text in UTF-8";
  CHECK_ERROR(message, read_corpus(ParallelReader(files.source, files.target)));
}

TEST_CASE("ParallelReader: a TSV has the source, a tab and the target") {
  const Files files("\uFEFFHallo !\tHi !\r\n\n\tnothing\nx\t\nSchluss\tEnd");
  ParallelReader reader(files.tsv);
  Lines seen;
  while (const auto pair = reader.next()) seen.push_back(pair->source + "|" + pair->target);
  CHECK(seen == Lines{"Hallo !|Hi !", "|", "|nothing", "x|", "Schluss|End"});
}

TEST_CASE("ParallelReader: the columns of a TSV can be swapped") {
  const Files files("Hi !\tHallo !\n\nEnd\tSchluss\nEnd\n");
  ParallelReader reader(files.tsv, {}, Columns::target_first);
  Lines seen;
  for (int i = 0; i < 3; ++i) {
    const auto pair = reader.next().value();
    seen.push_back(pair.source + "|" + pair.target);
  }
  CHECK(seen == Lines{"Hallo !|Hi !", "|", "Schluss|End"});
  CHECK_ERROR(files.tsv.string() + ":4: one column, expected target TAB source", reader.next());
}

TEST_CASE("ParallelReader: a line of a TSV with one column is an error, further ones are ignored") {
  const Files one("a\tb\nc d\n"), three("a\tb\tc\td\n");
  CHECK_ERROR(one.tsv.string() + ":2: one column, expected source TAB target",
              read_corpus(ParallelReader(one.tsv)));
  const TextCorpus corpus = read_corpus(ParallelReader(three.tsv));
  REQUIRE(corpus.pairs.size() == 1);
  CHECK(corpus.pairs[0].source == "a");
  CHECK(corpus.pairs[0].target == "b");
}

TEST_CASE("read_corpus: counts excluded pairs") {
  const Files files("a\tb\n\n \t\u3000\nc\t\nd e f\tg\nh\ti j k\nl m\tn o\n");
  const TextCorpus corpus = read_corpus(ParallelReader(files.tsv), 2);
  REQUIRE(corpus.pairs.size() == 2);
  CHECK(corpus.pairs[1].source == "l m");
  CHECK(corpus.report == CorpusReport{.read = 7, .empty = 3, .too_long = 2, .longest = 2});
  CHECK(corpus.report.kept() == 2);
  CHECK(to_string(corpus.report) ==
        "7 pairs, 5 left out: 3 with an empty side, 2 longer than 2 tokens");
}

TEST_CASE("read_corpus: without a limit no pair is too long") {
  std::string line;
  for (int i = 0; i < 100'000; ++i) line += "word ";
  const Files files(line + "\nb\n", "a\n" + line);
  const TextCorpus corpus = read_corpus(ParallelReader(files.source, files.target));
  CHECK(corpus.pairs.size() == 2);
  CHECK(corpus.pairs[0].source == line);
  CHECK(to_string(corpus.report) == "2 pairs");
  const auto limited = read_corpus(ParallelReader(files.source, files.target), 99'999);
  CHECK(to_string(limited.report) == "2 pairs, 2 left out: 2 longer than 99999 tokens");
}

TEST_CASE("CorpusReport: the text omits counts of 0") {
  CHECK(to_string(CorpusReport{.read = 5, .empty = 1}) ==
        "5 pairs, 1 left out: 1 with an empty side");
  CHECK(to_string(CorpusReport{}) == "0 pairs");
}

}  // namespace
