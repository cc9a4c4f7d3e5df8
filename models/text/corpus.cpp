#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/models/text/corpus.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/file.hpp>

namespace attune::text {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
constexpr std::size_t longest_line = std::size_t{1} << 24;  // for devices without line breaks

/// Parses links such as "1-2" and, if `marks` contains p, "1p2". Word indices start at `first`.
GoldAlignment parse_line(std::string_view line, std::string_view where, std::string_view marks,
                         int first, const std::optional<PairLengths>& lengths) {
  GoldAlignment links;
  for (const std::string_view word : words(line)) {
    const auto read = [](std::string_view digits, int& number) {
      const char* const end = digits.data() + digits.size();
      const auto [after, error] = std::from_chars(digits.data(), end, number);
      return error == std::errc() && after == end && !digits.starts_with('-');
    };
    const auto count_from_0 = [&](const char* side, int& position, int length) {
      if (position < first)
        fail(where, "link {}: {} position {} is too small, positions count from {}",
             in_quotes(word), side, position, first);
      position -= first;
      if (lengths && position >= length)
        fail(where, "link {}: {} position {} is beyond the {} words of the sentence",
             in_quotes(word), side, position + first, length);
    };
    const std::size_t at = word.find_first_of(marks);
    Link link;
    if (at == word.npos || !read(word.substr(0, at), link.source) ||
        !read(word.substr(at + 1), link.target)) {
      fail(where, "{} is not a link SOURCE-TARGET{}", in_quotes(word),
           marks.size() > 1 ? ", with p for - when it is only possible" : "");
    }
    count_from_0("source", link.source, lengths ? lengths->source : 0);
    count_from_0("target", link.target, lengths ? lengths->target : 0);
    if (word[at] == '-') links.sure.push_back(link);
    links.possible.push_back(link);
  }
  return {sorted(std::move(links.sure)), sorted(std::move(links.possible))};
}

}  // namespace

LineReader::LineReader(const std::filesystem::path& path)
    : file_(std::make_unique<std::ifstream>(path, std::ios::binary)),
      stream_(file_.get()),
      name_(utf8_path(path)) {
  if (!*stream_) attune::fail(name_, "cannot be read: {}", std::strerror(errno));
}

LineReader::LineReader(std::istream& stream, std::string name)
    : stream_(&stream), name_(std::move(name)) {}

/// As std::getline, for lines that end in LF, CRLF or CR, with a maximum length. A CR ends its line
/// without reading the next character, which a user at a terminal may not have typed yet.
bool LineReader::get(std::string& line) {
  using Traits = std::istream::traits_type;
  std::streambuf& buffer = *stream_->rdbuf();
  try {
    if (std::exchange(after_cr_, false) && buffer.sgetc() == '\n') buffer.sbumpc();
    while (line.size() <= longest_line) {
      const auto c = buffer.sbumpc();
      if (Traits::eq_int_type(c, Traits::eof())) {
        stream_->setstate(std::ios::eofbit);
        return !line.empty();
      }
      after_cr_ = c == '\r';
      if (after_cr_ || c == '\n') return true;
      line += Traits::to_char_type(c);
    }
  } catch (const std::exception&) {  // thrown by a streambuf that cannot read
    stream_->setstate(std::ios::badbit);
  }
  return !stream_->bad();
}

std::optional<std::string> LineReader::next() {
  std::string line;
  errno = 0;
  const bool got = get(line);
  const bool nothing = line == byte_order_mark && stream_->eof();
  if (!got || nothing) {
    // For libc++, a failed read is the end of the file.
    if (!stream_->bad() && errno != EISDIR && errno != EBADF && errno != EIO) return std::nullopt;
    attune::fail(name_, "cannot be read: {}", std::strerror(errno ? errno : EIO));
  }
  ++number_;
  if (line.size() > longest_line)
    fail(fmt::format("longer than {} bytes, expected lines of text", longest_line));
  if (const auto bad = find_bad_byte(line))
    fail(fmt::format("byte {} of the line (0x{:02X}) is not UTF-8, expected text in UTF-8",
                     *bad + 1, static_cast<unsigned char>(line[*bad])));
  if (const std::size_t nul = line.find('\0'); nul != line.npos)
    fail(fmt::format("byte {} of the line is NUL, expected text", nul + 1));
  while (line.starts_with(byte_order_mark)) line.erase(0, byte_order_mark.size());
  return line;
}

void LineReader::fail(std::string_view message) const {
  attune::fail(fmt::format("{}:{}", name_, std::max<std::int64_t>(1, number_)), message);
}

std::vector<std::string> read_lines(LineReader reader) {
  std::vector<std::string> lines;
  while (auto line = reader.next()) lines.push_back(std::move(*line));
  return lines;
}

ParallelReader::ParallelReader(LineReader source, const std::filesystem::path& target,
                               Columns columns)
    : source_(std::move(source)), columns_(columns) {
  if (!target.empty()) target_.emplace(target);
}

std::optional<TextPair> ParallelReader::next() {
  auto source = source_.next();
  if (!target_) return source ? std::optional(columns_of(*source)) : std::nullopt;
  auto target = target_->next();
  if (source && target) return TextPair{std::move(*source), std::move(*target)};
  if (!source && !target) return std::nullopt;
  while (source_.next()) {
  }
  while (target_->next()) {
  }
  fail(source_.name(), "{} lines, but {} has {}: expected as many of each", source_.number(),
       target_->name(), target_->number());
}

TextPair ParallelReader::columns_of(const std::string& line) const {
  if (line.empty()) return {};
  const bool swapped = columns_ == Columns::target_first;
  const std::size_t tab = line.find('\t');
  if (tab == line.npos) {
    source_.fail(fmt::format("one column, expected {}",
                             swapped ? "target TAB source" : "source TAB target"));
  }
  TextPair pair{line.substr(0, tab), line.substr(tab + 1, line.find('\t', tab + 1) - tab - 1)};
  if (swapped) std::swap(pair.source, pair.target);
  return pair;
}

bool CorpusReport::count(std::size_t source, std::size_t target) {
  const bool is_empty = source == 0 || target == 0;
  const bool is_too_long =
      !is_empty && longest > 0 && std::max(source, target) > static_cast<std::size_t>(longest);
  ++read;
  empty += is_empty;
  too_long += is_too_long;
  return !is_empty && !is_too_long;
}

std::string to_string(const CorpusReport& report) {
  std::vector<std::string> reasons;
  if (report.empty > 0) reasons.push_back(fmt::format("{} with an empty side", report.empty));
  if (report.too_long > 0)
    reasons.push_back(fmt::format("{} longer than {} tokens", report.too_long, report.longest));
  const std::string text = fmt::format("{} pairs", report.read);
  if (reasons.empty()) return text;
  return fmt::format("{}, {} left out: {}", text, report.read - report.kept(),
                     fmt::join(reasons, ", "));
}

TextCorpus read_corpus(ParallelReader reader, Integer longest) {
  TextCorpus corpus{.pairs = {}, .report = {.longest = longest}};
  while (auto pair = reader.next()) {
    if (corpus.report.count(words(pair->source).size(), words(pair->target).size()))
      corpus.pairs.push_back(std::move(*pair));
  }
  return corpus;
}

// ---- Word alignments

Alignment sorted(Alignment links) {
  std::ranges::sort(links);
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

Alignment parse_links(std::string_view line, const std::optional<PairLengths>& lengths,
                      std::string_view where) {
  return parse_line(line, where, "-", 0, lengths).sure;
}

std::vector<GoldAlignment> read_gold_alignments(const std::filesystem::path& path,
                                                std::span<const PairLengths> sentences) {
  std::vector<GoldAlignment> alignments;
  const auto where = [&] { return fmt::format("{}:{}", utf8_path(path), alignments.size() + 1); };
  LineReader reader(path);
  while (const auto line = reader.next()) {
    if (alignments.size() == sentences.size())
      reader.fail(fmt::format("more lines than the {} sentences", sentences.size()));
    alignments.push_back(parse_line(*line, where(), "-p", 1, sentences[alignments.size()]));
  }
  if (alignments.size() < sentences.size())
    fail(where(), "the file has {} lines, expected {}, one per sentence", alignments.size(),
         sentences.size());
  return alignments;
}

}  // namespace attune::text
