// Text files, read line by line, as a corpus may be larger than memory: lines, pairs, and word
// alignments, which are links between the words of a pair.
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

/// The lines of a text in UTF-8, which end in LF, CRLF or CR, the last one also with the file.
/// Byte-order marks at the start of a line are skipped: joined files have them there.
class LineReader {
 public:
  /// Throws when the file cannot be opened.
  explicit LineReader(const std::filesystem::path& path);
  /// Reads a stream that outlives the reader; errors call it `name`.
  LineReader(std::istream& stream, std::string name);

  /// The next line, or nothing at the end. Throws an Error "FILE:LINE: what is wrong" for bytes
  /// that are not UTF-8, for a NUL and for more than 16 MiB, and one with the reason when reading
  /// fails.
  std::optional<std::string> next();

  const std::string& name() const { return name_; }
  /// Of the line read last, from 1.
  std::int64_t number() const { return number_; }
  /// Throws an Error about that line, or the first one where none was read.
  [[noreturn]] void fail(std::string_view message) const;

 private:
  bool get(std::string& line);

  std::unique_ptr<std::istream> file_;
  std::istream* stream_;
  std::string name_;
  std::int64_t number_ = 0;
  bool after_cr_ = false;  // the line read last ended in CR, of which LF may be the second half
};

/// All lines, including empty ones.
std::vector<std::string> read_lines(LineReader reader);

/// A source and its translation, as lines.
struct TextPair {
  std::string source, target;
};

/// Words of the two sides of a pair.
struct PairLengths {
  int source = 0, target = 0;
};

/// The order of the columns of a TSV.
enum class Columns { source_first, target_first };

/// The pairs of a parallel corpus, including empty ones.
class ParallelReader {
 public:
  /// Of two files, where line n of one belongs to line n of the other; or, without a target, of a
  /// TSV with these columns. It ignores further columns, and takes an empty line as an empty pair.
  explicit ParallelReader(const std::filesystem::path& source,
                          const std::filesystem::path& target = {},
                          Columns columns = Columns::source_first);

  /// The next pair, or nothing at the end. Throws as LineReader does, for a file that ends before
  /// the other (with the lines of both), and for a line of a TSV with one column.
  std::optional<TextPair> next();

  /// Of the line read last, from 1.
  std::int64_t number() const { return source_.number(); }
  /// The files that the sides are in; of a TSV the same.
  const std::string& source_name() const { return source_.name(); }
  const std::string& target_name() const { return target_ ? target_->name() : source_.name(); }

 private:
  TextPair columns_of(const std::string& line) const;

  LineReader source_;
  std::optional<LineReader> target_;  // nothing: source_ has both
  Columns columns_;
};

/// Counts of the pairs of a corpus.
struct CorpusReport {
  std::int64_t read = 0;
  std::int64_t empty = 0;     ///< excluded: a side without tokens
  std::int64_t too_long = 0;  ///< excluded: a side of more than `longest` tokens
  std::int64_t longest = 0;   ///< 0: any number

  std::int64_t kept() const { return read - empty - too_long; }
  /// Counts a pair of such lengths and tells whether it is kept.
  bool count(std::size_t source, std::size_t target);
  bool operator==(const CorpusReport&) const = default;
};

/// "29000 pairs, 3 left out: 1 with an empty side, 2 longer than 100 tokens"
std::string to_string(const CorpusReport& report);

/// A corpus in memory. Its tokens are the words between blanks.
struct TextCorpus {
  std::vector<TextPair> pairs;
  CorpusReport report;
};

/// Excludes pairs with an empty side, or with a side of more than `longest` tokens; 0: of any
/// number.
TextCorpus read_corpus(ParallelReader reader, std::int64_t longest = 0);

// ---- Word alignments

/// A word of the source and the word of the target it belongs to, both counted from 0.
struct Link {
  int source = 0, target = 0;
  auto operator<=>(const Link&) const = default;
};

/// The links of a sentence pair. As a set: the order does not matter, and a link that is there
/// twice counts once. Functions that return one sort it.
using Alignment = std::vector<Link>;

/// By source, then target, each link once.
Alignment sorted(Alignment links);

/// Links drawn by people: sure links S and possible links P. S is a subset of P by definition,
/// so a sure link may be given in `possible` too or be left out of it.
struct GoldAlignment {
  Alignment sure, possible;
};

/// A line of links, as fast_align, Moses and eflomal write them (the "Pharaoh" or "TALP" form):
/// "0-0 1-2 1-3", each SOURCE-TARGET, separated by spaces or tabs; an empty line has no links.
/// Throws an Error that begins with `where` and quotes the link when one is malformed or, where the
/// lengths are known, points beyond the sentence.
Alignment parse_links(std::string_view line, const std::optional<PairLengths>& lengths = {},
                      std::string_view where = "parse_links");

/// A file of gold links, one line for each sentence pair: "1-1 2-3 2p4", where 2-3 is sure and 2p4
/// is only possible, and words count from 1. In the result, `possible` has the sure links too.
/// Throws an Error "FILE:LINE: ..." on anything else, on links to words that are not there, and on
/// more or fewer lines than sentences.
std::vector<GoldAlignment> read_gold_alignments(const std::filesystem::path& path,
                                                std::span<const PairLengths> sentences);

}  // namespace attune::text
