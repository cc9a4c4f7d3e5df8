#include "line_lengths.hpp"

#include <fmt/format.h>

#include <attune/tensor/check.hpp>

namespace attune::translate {

void check_length(Index tokens, const std::string& file, std::int64_t line, Index longest) {
  if (tokens <= longest) return;
  fail(fmt::format("{}:{}", file, line),
       fmt::format("{} tokens, expected at most {}", tokens, longest));
}

void check_lengths(const text::Pair& pair, const std::string& source, const std::string& target,
                   std::int64_t line) {
  check_length(std::ssize(pair.source), source, line, longest_of_pair);
  check_length(std::ssize(pair.target), target, line, longest_of_pair);
}

}  // namespace attune::translate
