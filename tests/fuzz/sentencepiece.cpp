// SentencePiece models, and tokenizers in the JSON format of checkpoints.
#include <vector>

#include <nlohmann/json.hpp>

#include <attune/models/text/tokenizer.hpp>
#include <attune/models/text/utf8.hpp>

#include "fuzz.hpp"

namespace {

using namespace attune;
using fuzz::expect;
using Tokens = std::vector<std::string>;

const char* const lines[] = {"",
                             " ",
                             "a man rides a horse .",
                             "a  b",
                             "\u2581\u2581",
                             "\u30ab\uff76\uff9e\ufb01 \u0130",
                             "ab\u0301\U0001f642",
                             "\xEF\xBB\xBF\t1\u00bd"};

void check_line(const text::Tokenizer& tokenizer, const char* line) {
  const auto tokens = fuzz::accepted([&] { return tokenizer.encode(line); });
  if (!tokens) return;
  for (const std::string& token : *tokens)
    expect(!text::find_bad_byte(token), "a token is not UTF-8");
  fuzz::accepted([&] { return tokenizer.decode(*tokens); });
  fuzz::accepted([&] { return text::words_of_tokens(line, *tokens); });
}

void check_tokenizer(const text::Tokenizer& tokenizer) {
  for (const char* line : lines) check_line(tokenizer, line);
  const Tokens pieces = {"\u2581a", "b", "<unk>", "", "<s>", "\xFF", "<0x41>"};
  fuzz::accepted([&] { return tokenizer.decode(pieces); });
  const std::string json = to_json(tokenizer);
  expect(to_json(text::tokenizer_from_json(json)) == json, "JSON: the tokenizer differs");
}

}  // namespace

void fuzz_one(std::string_view input) {
  const auto tokenizer = fuzz::accepted([&]() -> text::Tokenizer {
    if (input.starts_with('{')) return text::tokenizer_from_json(input);
    return text::SentencePiece(input);
  });
  if (tokenizer) check_tokenizer(*tokenizer);
}
