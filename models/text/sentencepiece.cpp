#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <unordered_map>

#include <fmt/format.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <attune/models/text/tokenizer.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/fail.hpp>

namespace attune::text {
namespace {

/// Parses and removes a base-128 number (varint) at the front.
std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

/// Calls visit(number, bytes) for each length-delimited field of a protocol buffer message. Returns
/// false if `visit` does, or if the message is malformed; other fields must be varints.
template <class Visit>
bool all_fields(std::string_view message, Visit visit) {
  constexpr std::uint64_t varint = 0, with_length = 2;  // types, in a tag's low bits
  while (!message.empty()) {
    const auto tag = take_varint(message), value = take_varint(message);
    if (!tag || !value) return false;
    if ((*tag & 7) == varint) continue;
    if ((*tag & 7) != with_length || *value > message.size()) return false;
    if (!visit(*tag >> 3, message.substr(0, *value))) return false;
    message.remove_prefix(*value);
  }
  return true;
}

/// Checks a character map: the length of a trie in bytes, the trie (an array of Darts-clone: each
/// unit has up to 256 successors, selected by label), and NUL-terminated UTF-8 texts. Leaves
/// contain offsets of characters in the texts.
bool is_sound(std::string_view charsmap) {
  if (charsmap.empty()) return true;
  const auto number_at = [&charsmap](std::size_t i) {
    std::uint32_t number;
    std::memcpy(&number, charsmap.data() + 4 * i, sizeof number);
    return number;
  };
  if (charsmap.size() < 4) return false;
  const std::uint32_t size = number_at(0);
  charsmap.remove_prefix(4);
  if (size == 0 || size % 4 != 0 || size >= charsmap.size() || charsmap.back() != '\0')
    return false;
  const std::string_view texts = charsmap.substr(size);
  if (find_bad_byte(texts)) return false;
  for (std::size_t i = 0; i < size / 4; ++i) {
    const std::uint32_t unit = number_at(i);
    if (i > 0 && unit >> 31 != 0) continue;  // the value of a leaf; no label selects it
    const std::size_t next = i ^ (unit >> 10 << ((unit & 0x200) >> 6));
    if ((next | 0xFF) >= size / 4) return false;
    if ((unit & 0x100) == 0) continue;
    const std::size_t text = number_at(next) & 0x7FFFFFFF;
    if (text >= texts.size() || (static_cast<unsigned char>(texts[text]) & 0xC0) == 0x80)
      return false;
  }
  return true;
}

/// Whether the offsets in the character maps of a model's normaliser are valid, and the
/// replacements are UTF-8. sentencepiece 0.1.97 does not check the offsets and reads out of bounds.
/// False also if the bytes are not a protocol buffer.
bool has_sound_charsmaps(std::string_view model) {
  constexpr std::uint64_t normalizer = 3, denormalizer = 5, precompiled_charsmap = 2;
  return all_fields(model, [](std::uint64_t number, std::string_view spec) {
    if (number != normalizer && number != denormalizer) return true;
    return all_fields(spec, [](std::uint64_t field, std::string_view charsmap) {
      return field != precompiled_charsmap || is_sound(charsmap);
    });
  });
}

/// Throws the error message, without its prefix (the location in sentencepiece's sources).
void check(const sentencepiece::util::Status& status) {
  if (status.ok()) return;
  std::string_view message = status.message();
  if (const std::size_t place = message.rfind("] "); place != message.npos)
    message.remove_prefix(place + 2);
  fail("sentencepiece", message.empty() ? status.message() : message);
}

void check_utf8(std::string_view line) {
  if (const auto bad = find_bad_byte(line)) fail("sentencepiece", "byte {} is not UTF-8", *bad + 1);
}

/// The line iterator for sentencepiece's trainer.
class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(std::span<const std::string> lines) : lines_(lines) {}
  bool done() const override { return lines_.empty(); }
  void Next() override { lines_ = lines_.subspan(1); }
  const std::string& value() const override { return lines_.front(); }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::span<const std::string> lines_;
};

}  // namespace

struct SentencePiece::Model {
  sentencepiece::SentencePieceProcessor processor;
};

bool has_sentencepiece() { return true; }

SentencePiece SentencePiece::train(std::span<const std::string> lines,
                                   const SentencePieceOptions& options) {
  for (std::size_t i = 0; i < lines.size(); ++i) {
    check_utf8(lines[i]);
    if (options.model == PieceModel::bpe)
      check_words(lines[i], fmt::format("sentencepiece: line {}", i + 1));
  }
  const auto is_space = [](char32_t c) { return is_blank(c) || c == U'▁'; };
  if (std::ranges::all_of(lines,
                          [&](auto& line) { return std::ranges::all_of(points(line), is_space); }))
    fail("sentencepiece", "the training text is empty");
  constexpr int most = 1 << 30;  // limit of pieces, and of bytes per line
  if (options.pieces < 1 || options.pieces > most)
    fail("sentencepiece", "pieces = {} is out of range", options.pieces);
  const std::unordered_map<std::string, std::string> arguments = {
      {"model_type", options.model == PieceModel::bpe ? "bpe" : "unigram"},
      {"vocab_size", std::to_string(options.pieces)},
      {"hard_vocab_limit", "false"},
      {"character_coverage", "1"},
      {"normalization_rule_name", options.normalization},
      {"max_sentence_length", std::to_string(most)},  // longer lines are ignored silently
      {"num_threads", "1"},                           // results depend on their number
      {"minloglevel", "3"}};
  Lines iterator(lines);
  std::string bytes;
  check(sentencepiece::SentencePieceTrainer::Train(arguments, &iterator, &bytes));
  return SentencePiece(bytes);
}

SentencePiece::SentencePiece(std::string_view bytes, std::string_view where) {
  const auto model = std::make_shared<Model>();
  const auto load = [&] {
    try {
      return model->processor.LoadFromSerializedProto(bytes).ok();
    } catch (const std::exception&) {  // thrown by its trie of pieces
      return false;
    }
  };
  if (!has_sound_charsmaps(bytes) || !load()) fail(where, "a model of sentencepiece was expected");
  model_ = model;
}

std::vector<std::string> SentencePiece::encode(std::string_view line) const {
  check_utf8(line);
  std::vector<std::string> pieces;
  check(model_->processor.Encode(line, &pieces));
  return pieces;
}

std::string SentencePiece::decode(std::span<const std::string> pieces) const {
  std::string line;
  check(model_->processor.Decode(std::vector<std::string>(pieces.begin(), pieces.end()), &line));
  return line;
}

std::string SentencePiece::bytes() const { return model_->processor.serialized_model_proto(); }

}  // namespace attune::text
