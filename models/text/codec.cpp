#include <attune/models/text/codec.hpp>

namespace attune::text {

Sentence Codec::encode(std::span<const std::string> tokens) const {
  Sentence sentence = vocabulary.encode(tokens);
  for (std::int32_t& id : sentence) {
    if (id < Vocabulary::unknown) id = Vocabulary::unknown;
  }
  return sentence;
}

std::string Codec::decode(std::span<const std::int32_t> sentence) const {
  std::vector<std::string> tokens;
  for (const std::int32_t id : sentence) {
    if (id == Vocabulary::end) break;
    if (id != Vocabulary::begin && id != Vocabulary::pad) tokens.push_back(vocabulary.token(id));
  }
  return tokenizer.decode(tokens);
}

}  // namespace attune::text
