#include "line_lengths.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <attune/tensor/check.hpp>

namespace attune::translate {

Index longest_read(const models::Seq2SeqOptions& network, Index most) {
  const bool located = network.score.kind == "location" && models::attends(network);
  return located ? std::min(most, network.score.longest) : most;
}

Index longest_read(std::span<const Model> models, Index most) {
  for (const Model& model : models) most = longest_read(model.network().options(), most);
  return most;
}

std::string too_long(Index tokens, Index longest) {
  const bool own = longest == longest_source || longest == longest_of_pair;
  return fmt::format("{} tokens, expected at most {}{}", tokens, longest,
                     own ? "" : ", the --longest of the score location");
}

void check_length(Index tokens, const std::string& file, std::int64_t line, Index longest) {
  if (tokens > longest) fail(fmt::format("{}:{}", file, line), too_long(tokens, longest));
}

void check_lengths(const text::Pair& pair, const std::string& source, const std::string& target,
                   std::int64_t line, Index longest) {
  check_length(std::ssize(pair.source), source, line, longest);
  check_length(std::ssize(pair.target), target, line, longest_of_pair);
}

}  // namespace attune::translate
