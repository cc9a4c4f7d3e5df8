#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/models/text/alignment.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

namespace attune::text {
namespace {

using Sentences = std::optional<std::span<const SentenceLengths>>;

/// In quotes, on one line and as UTF-8, whatever it is.
std::string quoted(std::string_view text) {
  using Json = nlohmann::json;
  return Json(text.substr(0, 60))
      .dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

std::vector<std::string_view> words(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r";
  std::vector<std::string_view> out;
  for (std::size_t start = line.find_first_not_of(kSpace); start != line.npos;) {
    const std::size_t end = std::min(line.find_first_of(kSpace, start), line.size());
    out.push_back(line.substr(start, end - start));
    start = line.find_first_not_of(kSpace, end);
  }
  return out;
}

std::vector<std::string_view> lines(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

/// A link as it is written: the two positions in their order in the text, and what stands between.
struct Written {
  int left = 0, right = 0;
  char mark = 0;
};

std::optional<Written> parse(std::string_view word, std::string_view marks) {
  // from_chars alone would take a minus too.
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const char* const end = word.data() + word.size();
  Written link;
  if (word.empty() || !digit(word.front())) return std::nullopt;
  const auto left = std::from_chars(word.data(), end, link.left);
  if (left.ec != std::errc() || left.ptr == end || marks.find(*left.ptr) == marks.npos)
    return std::nullopt;
  link.mark = *left.ptr;
  if (left.ptr + 1 == end || !digit(left.ptr[1])) return std::nullopt;
  const auto right = std::from_chars(left.ptr + 1, end, link.right);
  if (right.ec != std::errc() || right.ptr != end) return std::nullopt;
  return link;
}

/// The links of a line by the mark between their positions; `lengths` may be null. Throws an Error
/// that starts with `where`.
GoldAlignment parse_line(std::string_view line, std::string_view where, const LinkFormat& format,
                         std::string_view marks, const SentenceLengths* lengths) {
  GoldAlignment links;
  for (const std::string_view word : words(line)) {
    const std::optional<Written> written = parse(word, marks);
    if (!written) {
      const std::string_view form = format.target_first ? "TARGET-SOURCE" : "SOURCE-TARGET";
      fail(where, fmt::format("{} is not a link {}{}", quoted(word), form,
                              marks.size() > 1 ? ", with p for - when it is only possible" : ""));
    }
    const auto position = [&](int value, const char* side, const int* length) {
      if (value < format.first) {
        fail(where, fmt::format("link {}: {} position {} is before the first, {}", quoted(word),
                                side, value, format.first));
      }
      const int index = value - format.first;
      if (length && index >= *length) {
        fail(where, fmt::format("link {}: {} position {} is beyond the {} words of the sentence",
                                quoted(word), side, value, *length));
      }
      return index;
    };
    auto [source, target] = std::pair(written->left, written->right);
    if (format.target_first) std::swap(source, target);
    const Link link{position(source, "source", lengths ? &lengths->source : nullptr),
                    position(target, "target", lengths ? &lengths->target : nullptr)};
    if (written->mark == '-') links.sure.push_back(link);
    links.possible.push_back(link);
  }
  return {sorted(std::move(links.sure)), sorted(std::move(links.possible))};
}

void check_first(const LinkFormat& format) {
  if (format.first < 0)
    fail("alignments", fmt::format("the first position is {}, but must be >= 0", format.first));
}

std::vector<GoldAlignment> read(const std::filesystem::path& path, const LinkFormat& format,
                                std::string_view marks, Sentences sentences) {
  check_first(format);
  const std::string text = read_file(path);
  const std::vector<std::string_view> all = lines(text);
  std::vector<GoldAlignment> alignments;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string where = fmt::format("{}:{}", path.string(), i + 1);
    if (sentences && i >= sentences->size())
      fail(where, fmt::format("a line too many, there are {} sentences", sentences->size()));
    alignments.push_back(
        parse_line(all[i], where, format, marks, sentences ? &(*sentences)[i] : nullptr));
  }
  if (sentences && all.size() < sentences->size()) {
    fail(fmt::format("{}:{}", path.string(), all.size() + 1),
         fmt::format("the file ends, but there are {} sentences", sentences->size()));
  }
  return alignments;
}

std::vector<Alignment> read_links(const std::filesystem::path& path, const LinkFormat& format,
                                  Sentences sentences) {
  std::vector<Alignment> alignments;
  for (GoldAlignment& links : read(path, format, "-", sentences))
    alignments.push_back(std::move(links.sure));
  return alignments;
}

LinkFormat links_of(const GoldFormat& format) { return {format.first, format.target_first}; }

}  // namespace

Alignment sorted(Alignment links) {
  std::ranges::sort(links);
  links.erase(std::unique(links.begin(), links.end()), links.end());
  return links;
}

Alignment parse_links(std::string_view line, const LinkFormat& format) {
  check_first(format);
  return parse_line(line, "parse_links", format, "-", nullptr).sure;
}

Alignment parse_links(std::string_view line, const SentenceLengths& lengths, std::string_view where,
                      const LinkFormat& format) {
  check_first(format);
  return parse_line(line, where, format, "-", &lengths).sure;
}

std::vector<Alignment> read_alignments(const std::filesystem::path& path,
                                       const LinkFormat& format) {
  return read_links(path, format, std::nullopt);
}

std::vector<Alignment> read_alignments(const std::filesystem::path& path,
                                       std::span<const SentenceLengths> sentences,
                                       const LinkFormat& format) {
  return read_links(path, format, sentences);
}

std::vector<GoldAlignment> read_gold_alignments(const std::filesystem::path& path,
                                                const GoldFormat& format) {
  return read(path, links_of(format), "-p", std::nullopt);
}

std::vector<GoldAlignment> read_gold_alignments(const std::filesystem::path& path,
                                                std::span<const SentenceLengths> sentences,
                                                const GoldFormat& format) {
  return read(path, links_of(format), "-p", sentences);
}

std::vector<SentenceLengths> read_sentence_lengths(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  std::vector<SentenceLengths> lengths;
  for (const std::string_view line : lines(text)) {
    const std::vector<std::string_view> all = words(line);
    const auto bar = std::ranges::find(all, "|||");
    if (std::ranges::count(all, "|||") != 1) {
      fail(fmt::format("{}:{}", path.string(), lengths.size() + 1),
           fmt::format("expected words ||| words, got {}", quoted(line)));
    }
    lengths.push_back({static_cast<int>(bar - all.begin()), static_cast<int>(all.end() - bar) - 1});
  }
  return lengths;
}

}  // namespace attune::text
