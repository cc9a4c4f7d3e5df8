// Readers for text files, line by line, as a corpus may be larger than memory: lines, sentence
// pairs, and word alignments.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <istream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <attune/tensor/shape.hpp>

namespace attune::text {

/// Reads the lines of a UTF-8 text. Lines end in LF, CRLF or CR; the last one may have no line end.
/// Byte-order marks at the start of a line are skipped, as concatenated files contain them.
class LineReader {
 public:
  /// Throws if the file cannot be opened.
  explicit LineReader(const std::filesystem::path& path);
  /// Reads a stream, which must outlive the reader. Error messages contain `name` as the file name.
  LineReader(std::istream& stream, std::string name);

  /// The next line, or nullopt at the end. Throws an Error "FILE:LINE: reason" on invalid UTF-8, on
  /// a NUL, on a line of more than 16 MiB, and if reading fails.
  std::optional<std::string> next();

  std::string name() const { return name_; }
  /// The number of the last line read, from 1.
  std::int64_t number() const { return number_; }
  /// Throws an Error "FILE:LINE: message" for the last line read, or line 1 if none was read.
  [[noreturn]] void fail(std::string_view message) const;

 private:
  bool get(std::string& line);

  std::unique_ptr<std::istream> file_;
  std::istream* stream_;
  std::string name_;
  std::int64_t number_ = 0;
  bool after_cr_ = false;  // the last line ended in CR; a following LF belongs to it
};

/// All lines, including empty ones.
std::vector<std::string> read_lines(LineReader reader);

/// A source line and its translation.
struct TextPair {
  std::string source, target;
};

/// Numbers of tokens of a sentence pair.
struct PairLengths {
  int source = 0, target = 0;
};

/// The order of the columns of a TSV file.
enum class Columns { source_first, target_first };

/// Reads the pairs of a parallel corpus, including empty ones.
class ParallelReader {
 public:
  /// Reads two files, where line n of `target` is the translation of line n of `source`. If
  /// `target` is empty, reads the TSV file `source`: ignores columns after the second one; an empty
  /// line is an empty pair. Throws if a file cannot be opened.
  explicit ParallelReader(const std::filesystem::path& source,
                          const std::filesystem::path& target = {},
                          Columns columns = Columns::source_first)
      : ParallelReader(LineReader(source), target, columns) {}
  /// Reads the source, or the TSV, from a reader.
  explicit ParallelReader(LineReader source, const std::filesystem::path& target = {},
                          Columns columns = Columns::source_first);

  /// The next pair, or nullopt at the end. Throws as LineReader does, if the files have different
  /// numbers of lines, and on a TSV line with only one column.
  std::optional<TextPair> next();

  /// The number of the last line read, from 1.
  std::int64_t number() const { return source_.number(); }
  /// The names of the files of each side; the same for a TSV file.
  std::string source_name() const { return source_.name(); }
  std::string target_name() const { return target_ ? target_->name() : source_.name(); }

 private:
  TextPair columns_of(const std::string& line) const;

  LineReader source_;
  std::optional<LineReader> target_;  // nullopt if source_ is a TSV file
  Columns columns_;
};

/// Numbers of pairs read and excluded.
struct CorpusReport {
  std::int64_t read = 0;      ///< all pairs
  std::int64_t empty = 0;     ///< excluded because a side has no tokens
  std::int64_t too_long = 0;  ///< excluded because a side has more than `longest` tokens
  std::int64_t longest = 0;   ///< maximum length; 0 means no limit

  std::int64_t kept() const { return read - empty - too_long; }
  /// Counts a pair with these numbers of tokens; returns whether it is kept.
  bool count(std::size_t source, std::size_t target);
  bool operator==(const CorpusReport&) const = default;
};

/// "29000 pairs, 3 left out: 1 with an empty side, 2 longer than 100 tokens"
std::string to_string(const CorpusReport& report);

struct TextCorpus {
  std::vector<TextPair> pairs;
  CorpusReport report;
};

/// Reads a corpus, and excludes pairs with an empty side, or with a side of more than `longest`
/// words (separated by blanks); 0 means no limit. Throws as ParallelReader does.
TextCorpus read_corpus(ParallelReader reader, Integer longest = 0);

// ---- Word alignments

/// A link between a source word and a target word, as word indices from 0.
struct Link {
  int source = 0, target = 0;
  auto operator<=>(const Link&) const = default;
};

/// The word alignment of a sentence pair: a set of links. Order and duplicates have no influence.
/// Functions return it sorted, without duplicates.
using Alignment = std::vector<Link>;

/// Sorts by source, then target, and removes duplicates.
Alignment sorted(Alignment links);

/// Manual (gold) alignment: sure links S and possible links P. S is a subset of P by definition;
/// `possible` may omit the sure links.
struct GoldAlignment {
  Alignment sure, possible;
};

/// Parses a line of links in the format of fast_align, Moses and eflomal ("Pharaoh" format), such
/// as "0-0 1-2 1-3": SOURCE-TARGET, separated by spaces or tabs. An empty line has no links. Throws
/// an Error with the prefix `where` on a malformed link, or one outside of the lengths, if given.
Alignment parse_links(std::string_view line, const std::optional<PairLengths>& lengths = {},
                      std::string_view where = "parse_links");

/// Reads a file of gold alignments, one line per sentence pair, such as "1-1 2-3 2p4": 2-3 is a
/// sure link, 2p4 a possible one, and word indices start at 1. In the result, `possible` includes
/// the sure links. Throws an Error "FILE:LINE: ..." on a malformed line, on a link out of range,
/// and unless there is one line per sentence.
std::vector<GoldAlignment> read_gold_alignments(const std::filesystem::path& path,
                                                std::span<const PairLengths> sentences);

}  // namespace attune::text
