#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include <attune/models/text/alignment.hpp>
#include <attune/models/text/corpus.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

namespace attune::text {
namespace {

/// "1-2", or with `p` among the marks "1p2"
std::optional<Link> parse(std::string_view word, std::string_view marks, char& mark) {
  const auto read = [](std::string_view digits, int& number) {
    const char* const end = digits.data() + digits.size();
    const auto [after, error] = std::from_chars(digits.data(), end, number);
    return error == std::errc() && after == end && !digits.starts_with('-');
  };
  const std::size_t at = word.find_first_of(marks);
  Link link;
  if (at == word.npos || !read(word.substr(0, at), link.source) ||
      !read(word.substr(at + 1), link.target))
    return std::nullopt;
  mark = word[at];
  return link;
}

/// Positions count from `first`.
GoldAlignment parse_line(std::string_view line, std::string_view where, std::string_view marks,
                         int first, const std::optional<SentenceLengths>& lengths) {
  GoldAlignment links;
  for (const std::string_view word : words(line)) {
    char mark = 0;
    std::optional<Link> link = parse(word, marks, mark);
    if (!link) {
      fail(where, fmt::format("{} is not a link SOURCE-TARGET{}", in_quotes(word),
                              marks.size() > 1 ? ", with p for - when it is only possible" : ""));
    }
    const auto count_from_0 = [&](const char* side, int& position, int length) {
      if (position < first) {
        fail(where, fmt::format("link {}: {} position {} is before the first, {}", in_quotes(word),
                                side, position, first));
      }
      if (lengths && position - first >= length) {
        fail(where, fmt::format("link {}: {} position {} is beyond the {} words of the sentence",
                                in_quotes(word), side, position, length));
      }
      position -= first;
    };
    count_from_0("source", link->source, lengths ? lengths->source : 0);
    count_from_0("target", link->target, lengths ? lengths->target : 0);
    if (mark == '-') links.sure.push_back(*link);
    links.possible.push_back(*link);
  }
  return {sorted(std::move(links.sure)), sorted(std::move(links.possible))};
}

}  // namespace

Alignment sorted(Alignment links) {
  std::ranges::sort(links);
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

Alignment parse_links(std::string_view line, const std::optional<SentenceLengths>& lengths,
                      std::string_view where) {
  return parse_line(line, where, "-", 0, lengths).sure;
}

std::vector<GoldAlignment> read_gold_alignments(const std::filesystem::path& path,
                                                std::span<const SentenceLengths> sentences) {
  std::vector<GoldAlignment> alignments;
  LineReader reader(path);
  while (const auto line = reader.next()) {
    if (alignments.size() == sentences.size())
      reader.fail(fmt::format("a line too many, there are {} sentences", sentences.size()));
    alignments.push_back(parse_line(*line,
                                    fmt::format("{}:{}", path.string(), alignments.size() + 1),
                                    "-p", 1, sentences[alignments.size()]));
  }
  if (alignments.size() < sentences.size()) {
    fail(fmt::format("{}:{}", path.string(), alignments.size() + 1),
         fmt::format("the file ends, but there are {} sentences", sentences.size()));
  }
  return alignments;
}

}  // namespace attune::text
