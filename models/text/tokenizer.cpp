#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <attune/models/text/tokenizer.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

namespace attune::text {
namespace {

std::vector<std::string> encode_as(Words, std::string_view line) {
  const auto found = words(line);
  return {found.begin(), found.end()};
}
std::vector<std::string> encode_as(Characters, std::string_view line) { return code_points(line); }
std::vector<std::string> encode_as(const SentencePiece& model, std::string_view line) {
  return model.encode(line);
}

std::string decode_as(Words, std::span<const std::string> tokens) {
  return fmt::format("{}", fmt::join(tokens, " "));
}
std::string decode_as(Characters, std::span<const std::string> tokens) {
  return fmt::format("{}", fmt::join(tokens, ""));
}
std::string decode_as(const SentencePiece& model, std::span<const std::string> tokens) {
  return model.decode(tokens);
}

nlohmann::json json_of(Words) { return {{"kind", "words"}}; }
nlohmann::json json_of(Characters) { return {{"kind", "characters"}}; }
nlohmann::json json_of(const SentencePiece& model) {
  std::string digits;
  for (unsigned char byte : model.bytes()) digits += fmt::format("{:02x}", byte);
  return {{"kind", "sentencepiece"}, {"model", digits}};
}

[[noreturn]] void fail_to_read() {
  fail("tokenizer", "words, characters or sentencepiece was expected, as to_json writes it");
}

std::string bytes_of(std::string_view digits) {
  std::string bytes(digits.size() / 2, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    unsigned char byte = 0;
    const char* pair = digits.data() + 2 * i;
    if (std::from_chars(pair, pair + 2, byte, 16).ptr != pair + 2) fail_to_read();
    bytes[i] = static_cast<char>(byte);
  }
  return bytes;
}

Tokenizer kind_from(const nlohmann::json& object) {
  const auto kind = object.at("kind").get<std::string>();
  if (kind == "words") return Words{};
  if (kind == "characters") return Characters{};
  if (kind == "sentencepiece")
    return SentencePiece(bytes_of(object.at("model").get<std::string>()));
  fail_to_read();
}

}  // namespace

Tokenizer Tokenizer::with(std::shared_ptr<const Rewriter> rewriter) const {
  Tokenizer other = *this;
  other.rewriter_ = std::move(rewriter);
  return other;
}

std::vector<std::string> Tokenizer::encode(std::string_view line) const {
  const std::string rewritten = rewriter_ ? rewriter_->encode(line) : std::string(line);
  return std::visit([&](const auto& kind) { return encode_as(kind, rewritten); }, kind_);
}

std::string Tokenizer::decode(std::span<const std::string> tokens) const {
  std::string line = std::visit([&](const auto& kind) { return decode_as(kind, tokens); }, kind_);
  return rewriter_ ? rewriter_->decode(line) : line;
}

std::string to_json(const Tokenizer& tokenizer) {
  nlohmann::json object =
      std::visit([](const auto& kind) { return json_of(kind); }, tokenizer.kind_);
  if (tokenizer.rewriter_) object["rewriter"] = tokenizer.rewriter_->json();
  return object.dump();
}

Tokenizer tokenizer_from_json(std::string_view json, const RewriterFromJson& rewriter) {
  try {
    const nlohmann::json object = nlohmann::json::parse(json);
    const Tokenizer tokenizer = kind_from(object);
    if (!object.contains("rewriter")) return tokenizer;
    const auto stored = object.at("rewriter").get<std::string>();
    if (!rewriter) fail("tokenizer", "a rewriter is stored, but nothing makes it");
    return tokenizer.with(rewriter(stored));
  } catch (const nlohmann::json::exception&) {
    fail_to_read();
  }
}

}  // namespace attune::text
