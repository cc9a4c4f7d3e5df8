// Replaces sentencepiece.cpp in builds without the library.
#include <attune/models/text/tokenizer.hpp>
#include <attune/tensor/errors.hpp>

namespace attune::text {

[[noreturn]] static void absent() {
  fail("sentencepiece", "attune was built without it: libsentencepiece-dev was not found");
}

bool has_sentencepiece() { return false; }

SentencePiece SentencePiece::train(std::span<const std::string>, const SentencePieceOptions&) {
  absent();
}
SentencePiece::SentencePiece(std::string_view, std::string_view) { absent(); }
std::vector<std::string> SentencePiece::encode(std::string_view) const { absent(); }
std::string SentencePiece::decode(std::span<const std::string>) const { absent(); }
std::string SentencePiece::bytes() const { absent(); }

}  // namespace attune::text
