#include <fmt/format.h>
#include <unicode/utf8.h>

#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

namespace attune::text {

std::vector<std::string> code_points(std::string_view text) {
  std::vector<std::string> points;
  const auto length = static_cast<std::int64_t>(text.size());
  for (std::int64_t at = 0; at < length;) {
    const std::int64_t begin = at;
    UChar32 point;
    U8_NEXT(text.data(), at, length, point);
    if (point < 0) fail("text", fmt::format("byte {} is not UTF-8", begin + 1));
    points.emplace_back(
        text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(at - begin)));
  }
  return points;
}

}  // namespace attune::text
