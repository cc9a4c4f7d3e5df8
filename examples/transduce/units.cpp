#include "units.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

#include "support/checkpoint.hpp"
#include "support/letters.hpp"
#include "support/progress.hpp"

namespace attune::transduce {
namespace {

bool change_when_decomposed(std::span<const std::string> lines) {
  return std::ranges::any_of(
      lines, [](const std::string& line) { return text::decomposed(line) != line; });
}

Units chosen(std::span<const std::string> lines, Side side) {
  if (are_symbols(lines)) return Units::words;
  // What is written should be as it stands in the file.
  return side == Side::source && change_when_decomposed(lines) ? Units::decomposed
                                                               : Units::characters;
}

text::Tokenizer make_tokenizer(std::span<const std::string> lines, Units units, Index pieces) {
  switch (units) {
    case Units::words:
      return text::Words{};
    case Units::subwords: {
      const Task task(fmt::format("learning {} subwords from {} lines", pieces, lines.size()));
      return text::SentencePiece::train(lines, {.model = text::PieceModel::bpe, .pieces = pieces});
    }
    case Units::decomposed:
      return text::decomposed_characters();
    default:
      return text::Characters{};
  }
}

}  // namespace

bool are_symbols(std::span<const std::string> lines) {
  constexpr double longest_symbol = 2.5;
  std::size_t with_blanks = 0, symbols = 0, characters = 0;
  for (const std::string& line : lines) {
    const auto words = text::words(line);
    with_blanks += words.size() > 1;
    symbols += words.size();
    for (const std::string_view word : words) characters += text::code_points(word).size();
  }
  return 2 * with_blanks > lines.size() &&
         static_cast<double>(characters) <= longest_symbol * static_cast<double>(symbols);
}

text::Codec make_codec(std::span<const std::string> lines, Side side, Units units, Index pieces,
                       const std::string& option) {
  if (units == Units::automatic) units = chosen(lines, side);
  const text::Tokenizer tokenizer =
      reading(option, [&] { return make_tokenizer(lines, units, pieces); });
  text::TokenCounts counts;
  for (const std::string& line : lines) text::count_tokens(counts, tokenizer.encode(line));
  return {tokenizer, text::make_vocabulary(counts)};
}

std::string description(const text::Codec& codec) {
  const auto kind = nlohmann::json::parse(to_json(codec.tokenizer)).at("kind").get<std::string>();
  return fmt::format("{} ({} kinds)",
                     kind == "words"           ? "tokens between blanks"
                     : kind == "sentencepiece" ? "subwords"
                                               : kind,
                     codec.vocabulary.tokens().size());
}

}  // namespace attune::transduce
