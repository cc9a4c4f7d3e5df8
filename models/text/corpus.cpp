#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include <attune/models/text/corpus.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

namespace attune::text {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
constexpr std::size_t longest_line = std::size_t{1} << 24;  // a device may have no line breaks

/// The number of lines of the whole file.
std::int64_t count_lines(LineReader& reader) {
  while (reader.next()) {
  }
  return reader.number();
}

}  // namespace

LineReader::LineReader(const std::filesystem::path& path)
    : file_(std::make_unique<std::ifstream>(path)), stream_(file_.get()), name_(path.string()) {
  if (!*stream_) throw Error(fmt::format("{}: cannot be read: {}", name_, std::strerror(errno)));
}

LineReader::LineReader(std::istream& stream, std::string name)
    : stream_(&stream), name_(std::move(name)) {}

/// As std::getline does, but not without end.
bool LineReader::get(std::string& line) {
  char block[1 << 12];
  while (!stream_->getline(block, sizeof block)) {
    const auto n = static_cast<std::size_t>(stream_->gcount());
    if (n == 0 || stream_->bad()) return !line.empty() && !stream_->bad();
    stream_->clear();  // the line is longer than the block
    line.append(block, n);
    if (line.size() > longest_line) {
      ++number_;
      fail(fmt::format("longer than {} bytes, expected lines of text", longest_line));
    }
  }
  const auto n = static_cast<std::size_t>(stream_->gcount());
  line.append(block, stream_->eof() ? n : n - 1);  // the line break counts
  return true;
}

std::optional<std::string> LineReader::next() {
  std::string line;
  errno = 0;
  const bool got = get(line);
  const bool nothing = number_ == 0 && line == byte_order_mark && stream_->eof();
  if (!got || nothing) {
    if (!stream_->bad()) return std::nullopt;
    throw Error(fmt::format("{}: cannot be read: {}", name_, std::strerror(errno ? errno : EIO)));
  }
  ++number_;
  // Checked before anything is cut off, so that the byte's number is right.
  if (const auto bad = find_bad_byte(line)) {
    fail(fmt::format("byte {} of the line (0x{:02X}) is not UTF-8, expected text in UTF-8",
                     *bad + 1, static_cast<unsigned char>(line[*bad])));
  }
  if (const std::size_t nul = line.find('\0'); nul != line.npos)
    fail(fmt::format("byte {} of the line is NUL, expected text", nul + 1));
  if (line.ends_with('\r')) line.pop_back();
  if (number_ == 1 && line.starts_with(byte_order_mark)) line.erase(0, byte_order_mark.size());
  return line;
}

void LineReader::fail(std::string_view message) const {
  throw Error(fmt::format("{}:{}: {}", name_, number_, message));
}

std::vector<std::string> read_lines(LineReader reader) {
  std::vector<std::string> lines;
  while (auto line = reader.next()) lines.push_back(std::move(*line));
  return lines;
}

ParallelReader::ParallelReader(const std::filesystem::path& source,
                               const std::filesystem::path& target, Columns columns)
    : source_(source), columns_(columns) {
  if (!target.empty()) target_.emplace(target);
}

std::optional<TextPair> ParallelReader::next() {
  if (!target_) return next_of_tsv();
  auto source = source_.next(), target = target_->next();
  if (source && target) return TextPair{std::move(*source), std::move(*target)};
  if (!source && !target) return std::nullopt;
  const std::int64_t sources = count_lines(source_), targets = count_lines(*target_);
  throw Error(fmt::format("{}: {} lines, but {} has {}: expected as many of each", source_.name(),
                          sources, target_->name(), targets));
}

std::optional<TextPair> ParallelReader::next_of_tsv() {
  const auto line = source_.next();
  if (!line) return std::nullopt;
  if (line->empty()) return TextPair{};
  const bool swapped = columns_ == Columns::target_first;
  const std::size_t tab = line->find('\t');
  if (tab == line->npos) {
    source_.fail(fmt::format("one column, expected {}",
                             swapped ? "target TAB source" : "source TAB target"));
  }
  TextPair pair{line->substr(0, tab), line->substr(tab + 1, line->find('\t', tab + 1) - tab - 1)};
  if (swapped) std::swap(pair.source, pair.target);
  return pair;
}

bool CorpusReport::count(std::size_t source, std::size_t target) {
  const auto limit = static_cast<std::size_t>(longest);
  const bool is_empty = source == 0 || target == 0;
  const bool is_too_long = !is_empty && longest > 0 && (source > limit || target > limit);
  ++read;
  empty += is_empty;
  too_long += is_too_long;
  return !is_empty && !is_too_long;
}

std::string to_string(const CorpusReport& report) {
  std::string text = fmt::format("{} pairs", report.read);
  if (report.kept() == report.read) return text;
  text += fmt::format(", {} left out:", report.read - report.kept());
  if (report.empty > 0) text += fmt::format(" {} with an empty side", report.empty);
  if (report.empty > 0 && report.too_long > 0) text += ",";
  if (report.too_long > 0)
    text += fmt::format(" {} longer than {} tokens", report.too_long, report.longest);
  return text;
}

TextCorpus read_corpus(ParallelReader reader, std::int64_t longest) {
  TextCorpus corpus{.pairs = {}, .report = {.longest = longest}};
  while (auto pair = reader.next()) {
    if (corpus.report.count(words(pair->source).size(), words(pair->target).size()))
      corpus.pairs.push_back(std::move(*pair));
  }
  return corpus;
}

}  // namespace attune::text
