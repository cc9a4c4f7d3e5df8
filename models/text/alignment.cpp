#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <attune/models/text/alignment.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/printable.hpp>

namespace attune::text {
namespace {

std::string quoted(std::string_view text) {
  return fmt::format("\"{}\"", printable(text.substr(0, 60)));
}

std::vector<std::string_view> parts(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r";
  std::vector<std::string_view> out;
  for (std::size_t start = line.find_first_not_of(kSpace); start != line.npos;) {
    const std::size_t end = std::min(line.find_first_of(kSpace, start), line.size());
    out.push_back(line.substr(start, end - start));
    start = line.find_first_not_of(kSpace, end);
  }
  return out;
}

/// "1-2"
std::optional<Link> parse(std::string_view word) {
  // from_chars alone would take a minus too.
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const char* const end = word.data() + word.size();
  Link link;
  if (word.empty() || !digit(word.front())) return std::nullopt;
  const auto source = std::from_chars(word.data(), end, link.source);
  if (source.ec != std::errc() || end - source.ptr < 2 || *source.ptr != '-' ||
      !digit(source.ptr[1]))
    return std::nullopt;
  const auto target = std::from_chars(source.ptr + 1, end, link.target);
  if (target.ec != std::errc() || target.ptr != end) return std::nullopt;
  return link;
}

/// `lengths` may be null.
Alignment parse_line(std::string_view line, std::string_view where,
                     const SentenceLengths* lengths) {
  Alignment links;
  for (const std::string_view word : parts(line)) {
    const std::optional<Link> link = parse(word);
    if (!link) fail(where, fmt::format("{} is not a link SOURCE-TARGET", quoted(word)));
    const auto check = [&](const char* side, int position, int length) {
      if (position < length) return;
      fail(where, fmt::format("link {}: {} position {} is beyond the {} words of the sentence",
                              quoted(word), side, position, length));
    };
    if (lengths) {
      check("source", link->source, lengths->source);
      check("target", link->target, lengths->target);
    }
    links.push_back(*link);
  }
  return sorted(std::move(links));
}

}  // namespace

Alignment sorted(Alignment links) {
  std::ranges::sort(links);
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

Alignment parse_links(std::string_view line) { return parse_line(line, "parse_links", nullptr); }

Alignment parse_links(std::string_view line, const SentenceLengths& lengths,
                      std::string_view where) {
  return parse_line(line, where, &lengths);
}

}  // namespace attune::text
