// Vocabularies: files with one token per line, and the JSON format of checkpoints.
#include <algorithm>

#include <attune/models/text/tokenizer.hpp>

#include "fuzz.hpp"

namespace {

using namespace attune;
using fuzz::expect;
using text::Vocabulary;

bool same(const Vocabulary& a, const Vocabulary& b) {
  return std::ranges::equal(a.tokens(), b.tokens());
}

void check_numbers(const Vocabulary& vocabulary) {
  for (std::int32_t id = 0; id < vocabulary.size(); ++id)
    expect(vocabulary.id(vocabulary.token(id)) == id, "id(token(id)) differs from id");
  for (const std::int64_t id : {std::int64_t{-1}, vocabulary.size()}) {
    expect(!fuzz::accepted([&] { return vocabulary.token(static_cast<std::int32_t>(id)); }),
           "token() accepts an id out of range");
  }
}

void check_codec(const Vocabulary& vocabulary, std::string_view line) {
  for (const text::Tokenizer& tokenizer :
       {text::Tokenizer(text::Words{}), text::Tokenizer(text::Characters{})}) {
    const text::Codec codec{tokenizer, vocabulary};
    const auto sentence = fuzz::accepted([&] { return codec.encode(line); });
    if (!sentence) continue;
    for (const std::int32_t id : *sentence) {
      expect(id >= Vocabulary::unknown && id < vocabulary.size(), "encode: id out of range");
    }
    codec.decode(*sentence);
  }
}

}  // namespace

void fuzz_one(std::string_view input) {
  if (const auto vocabulary = fuzz::accepted([&] { return text::vocabulary_from_json(input); })) {
    check_numbers(*vocabulary);
    const auto json = fuzz::accepted([&] { return to_json(*vocabulary); });
    expect(json && same(text::vocabulary_from_json(*json), *vocabulary), "JSON: tokens differ");
  }
  const fuzz::MemoryFile file(input);
  const auto vocabulary = fuzz::accepted([&] { return text::read_vocabulary(file.path()); });
  if (!vocabulary) return;
  check_numbers(*vocabulary);
  std::string lines = "\xEF\xBB\xBF";
  for (const std::string& token : vocabulary->tokens()) lines += token + "\r\n";
  const fuzz::MemoryFile again(lines);
  expect(same(text::read_vocabulary(again.path()), *vocabulary), "file: tokens differ");
  check_codec(*vocabulary, input);
}
