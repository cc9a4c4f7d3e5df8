#include "tsv.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <unicode/utf8.h>

#include <attune/tensor/check.hpp>

namespace attune::dates {
namespace {

constexpr int kLongestSource = 10'000;  // code points

/// `text` must be UTF-8.
int count_code_points(std::string_view text) {
  int count = 0;
  for (char byte : text) count += !U8_IS_TRAIL(byte);
  return count;
}

/// Cuts `text` at its first `separator` and returns what stood before it: all if there is none.
std::string_view take(std::string_view& text, char separator) {
  const std::string_view first = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(first.size() + 1, text.size()));
  return first;
}

bool parse_number(std::string_view text, int& number) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end;
}

/// "y:7-11"
std::optional<Span> parse_span(std::string_view text) {
  const std::string_view field = take(text, ':');
  const std::string_view begin = take(text, '-');
  Span span{};
  if (field != "y" && field != "m" && field != "d") return std::nullopt;
  if (!parse_number(begin, span.begin) || !parse_number(text, span.end)) return std::nullopt;
  if (span.begin >= span.end) return std::nullopt;
  span.field = field.front();
  return span;
}

/// Reads rows; its errors name the file and the line.
class RowReader {
 public:
  RowReader(const std::string& path, text::Columns columns)
      : lines_(std::filesystem::path(path)), swapped_(columns == text::Columns::target_first) {}

  /// The next row, or nothing at the end.
  std::optional<Row> next();

 private:
  Row read(std::string_view line) const;
  std::vector<Span> read_spans(std::string_view text, int source_length) const;

  [[noreturn]] void fail_columns(const std::string& message) const {
    lines_.fail(fmt::format("{}, expected {}", message,
                            swapped_ ? "target TAB source" : "source TAB target"));
  }

  text::LineReader lines_;
  bool swapped_;
};

std::optional<Row> RowReader::next() {
  auto line = lines_.next();
  while (line && line->empty()) line = lines_.next();
  if (!line) return std::nullopt;
  return read(*line);
}

Row RowReader::read(std::string_view line) const {
  if (line.find('\t') == line.npos) fail_columns("one column");
  std::string_view source = take(line, '\t');
  std::string_view target = take(line, '\t');
  if (swapped_) std::swap(source, target);
  const std::string_view spans = take(line, '\t');
  if (source.empty()) fail_columns("the source is empty");
  if (target.empty()) fail_columns("the target is empty");
  const int length = count_code_points(source);
  if (length > kLongestSource) {
    lines_.fail(
        fmt::format("the source has {} code points, expected at most {}", length, kLongestSource));
  }
  return {std::string(source), std::string(target), read_spans(spans, length),
          static_cast<std::size_t>(lines_.number())};
}

std::vector<Span> RowReader::read_spans(std::string_view text, int source_length) const {
  std::vector<Span> spans;
  while (!text.empty()) {
    const std::string_view word = take(text, ' ');
    const std::optional<Span> span = parse_span(word);
    if (!span) {
      lines_.fail(
          fmt::format("span '{:.40}' is malformed, expected such as y:7-11, m:3-6 or d:0-2", word));
    }
    if (span->end > source_length) {
      lines_.fail(fmt::format("span '{}' is beyond the source, expected an end of at most {}", word,
                              source_length));
    }
    for (const Span& other : spans) {
      if (other.field == span->field) {
        lines_.fail(
            fmt::format("span '{}' is the second of its field, expected at most one", word));
      }
    }
    spans.push_back(*span);
  }
  return spans;
}

}  // namespace

std::vector<Row> read_tsv(const std::string& path, text::Columns columns) {
  RowReader reader(path, columns);
  std::vector<Row> rows;
  while (auto row = reader.next()) rows.push_back(std::move(*row));
  if (rows.empty()) {
    throw Error(fmt::format("{}: no examples, expected lines of source TAB target", path));
  }
  return rows;
}

}  // namespace attune::dates
