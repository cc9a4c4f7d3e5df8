#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <attune/models/text/corpus.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

namespace attune::text {
namespace {

constexpr std::array<std::string_view, 4> special = {"<pad>", "<s>", "</s>", "<unk>"};

bool is_special(std::string_view token) {
  return std::ranges::find(special, token) != special.end();
}

}  // namespace

Vocabulary::Vocabulary(std::span<const std::string> tokens)
    : tokens_(special.begin(), special.end()) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (!ids_.emplace(tokens_[i], static_cast<std::int32_t>(i)).second) {
      fail("vocabulary", in_quotes(tokens_[i]) + " occurs twice");
    }
  }
}

std::int32_t Vocabulary::id(std::string_view token) const {
  const auto at = ids_.find(std::string(token));
  return at == ids_.end() ? unknown : at->second;
}

const std::string& Vocabulary::token(std::int32_t id) const {
  if (id < 0 || id >= size())
    fail("vocabulary", fmt::format("there is no token {} among {}", id, size()));
  return tokens_[id];
}

std::vector<std::int32_t> Vocabulary::encode(std::span<const std::string> tokens) const {
  std::vector<std::int32_t> ids;
  ids.reserve(tokens.size());
  for (const std::string& token : tokens) ids.push_back(id(token));
  return ids;
}

void count_tokens(TokenCounts& counts, std::span<const std::string> tokens) {
  for (const std::string& token : tokens) ++counts[token];
}

Vocabulary make_vocabulary(const TokenCounts& counts, const VocabularyOptions& options) {
  const auto specials = static_cast<std::int64_t>(special.size());
  if (options.maximum_size != 0 && options.maximum_size <= specials) {
    fail("vocabulary", fmt::format("a size of at most {} has no room beside the {} special tokens",
                                   options.maximum_size, specials));
  }
  std::vector<std::pair<std::int64_t, std::string>> ranked;
  for (const auto& [token, count] : counts) {
    if (count >= options.minimum_count && !is_special(token)) ranked.emplace_back(-count, token);
  }
  std::ranges::sort(ranked);  // the order of UTF-8's bytes is that of the code points
  std::vector<std::string> tokens;
  for (auto& [_, token] : ranked) tokens.push_back(std::move(token));
  if (options.maximum_size != 0) {
    const auto room = static_cast<std::size_t>(options.maximum_size - specials);
    tokens.resize(std::min(tokens.size(), room));
  }
  return Vocabulary(tokens);
}

Vocabulary read_vocabulary(const std::filesystem::path& path) {
  LineReader reader(path);
  std::unordered_map<std::string, std::int64_t> lines;
  std::vector<std::string> tokens;
  while (auto token = reader.next()) {
    if (token->empty()) reader.fail("an empty line, expected a token");
    if (token->find('\t') != token->npos) reader.fail("a TAB, expected a token alone");
    const auto [first, is_new] = lines.emplace(*token, reader.number());
    if (!is_new) {
      reader.fail(fmt::format("{} stands in line {} already, expected each token once",
                              in_quotes(*token), first->second));
    }
    if (!is_special(*token)) {
      tokens.push_back(std::move(*token));
    } else if (!tokens.empty()) {
      reader.fail(in_quotes(*token) + " after other tokens, expected it at the top");
    }
  }
  return Vocabulary(tokens);
}

void write_vocabulary(const std::filesystem::path& path, const Vocabulary& vocabulary) {
  std::string lines;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string& token = vocabulary.token(id);
    if (token.find_first_of("\t\r\n") != token.npos)
      fail("write_vocabulary", fmt::format("token {} has a TAB or a line break in it", id));
    lines += token + "\n";
  }
  write_file(path, lines);
}

// ---- Lines

namespace {

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
  if (pieces()) return pieces()->encode(rewritten);
  if (std::holds_alternative<Characters>(kind_)) return code_points(rewritten);
  const std::vector<std::string_view> found = words(rewritten);
  return {found.begin(), found.end()};
}

std::string Tokenizer::decode(std::span<const std::string> tokens) const {
  const char* between = std::holds_alternative<Characters>(kind_) ? "" : " ";
  const std::string line =
      pieces() ? pieces()->decode(tokens) : fmt::format("{}", fmt::join(tokens, between));
  return rewriter_ ? rewriter_->decode(line) : line;
}

std::string to_json(const Tokenizer& tokenizer) {
  constexpr const char* kinds[] = {"words", "characters", "sentencepiece"};  // as in kind_
  nlohmann::json object = {{"kind", kinds[tokenizer.kind_.index()]}};
  if (const SentencePiece* model = tokenizer.pieces()) {
    std::string digits;
    for (unsigned char byte : model->bytes()) digits += fmt::format("{:02x}", byte);
    object["model"] = digits;
  }
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

Sentence Codec::encode(std::span<const std::string> tokens) const {
  Sentence sentence = vocabulary.encode(tokens);
  for (std::int32_t& id : sentence) id = std::max(id, Vocabulary::unknown);
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

std::string to_json(const Vocabulary& vocabulary) {
  const std::span<const std::string> tokens = vocabulary.tokens();
  try {
    return nlohmann::json(std::vector<std::string>(tokens.begin(), tokens.end())).dump();
  } catch (const nlohmann::json::exception&) {
    fail("vocabulary", "a token is not UTF-8, which JSON needs");
  }
}

Vocabulary vocabulary_from_json(std::string_view json) {
  try {
    return Vocabulary(nlohmann::json::parse(json).get<std::vector<std::string>>());
  } catch (const nlohmann::json::exception&) {
    fail("vocabulary", "a JSON array of tokens was expected");
  }
}

// ---- Words of tokens

namespace {

bool is_blank(const std::string& point) { return point == "\u2581" || words(point).empty(); }

/// Code points but for blanks, and for ▁, which is one to sentencepiece.
std::vector<std::string> letters(std::string_view text) {
  std::vector<std::string> found = code_points(text);
  std::erase_if(found, is_blank);
  return found;
}

/// Of ASCII's letters exactly; of any others it is not known here which are a pair.
bool differ_in_case_at_most(const std::string& a, const std::string& b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return a == b || (a.size() > 1 && b.size() > 1) ||
         (lower(a[0]) == lower(b[0]) && a.size() == b.size());
}

/// For tokens that have the same letters as the line: the word of each letter is known.
std::vector<int> by_letters(std::string_view line, std::span<const std::string> tokens) {
  std::vector<int> word_of_letter;
  int word = 0;
  for (std::string_view text : words(line)) {
    word_of_letter.insert(word_of_letter.end(), letters(text).size(), word++);
  }
  std::vector<int> result;
  std::size_t read = 0;
  for (const std::string& token : tokens) {
    const std::size_t count = letters(token).size();
    result.push_back(count > 0 ? word_of_letter[read] : -1);
    read += count;
  }
  return result;
}

/// For pieces whose letters differ from the line's: words are counted by the blanks between them.
/// Nothing when the pieces have not as many words as the line, or do not begin with ▁, as those of
/// sentencepiece do.
std::optional<std::vector<int>> by_blanks(std::string_view line,
                                          std::span<const std::string> tokens) {
  if (tokens.empty() || !tokens.front().starts_with("\u2581")) return std::nullopt;
  std::vector<int> result;
  int word = -1;
  bool blank = true;
  for (const std::string& token : tokens) {
    int first = -1;
    for (const std::string& point : code_points(token)) {
      if (!is_blank(point)) {
        word += blank;
        if (first < 0) first = word;
      }
      blank = is_blank(point);
    }
    result.push_back(first);
  }
  if (word + 1 != std::ssize(words(line))) return std::nullopt;
  return result;
}

}  // namespace

std::vector<int> words_of_tokens(std::string_view line, std::span<const std::string> tokens) {
  const std::vector<std::string> read = letters(line),
                                 cut = letters(fmt::format("{}", fmt::join(tokens, "")));
  if (read == cut) return by_letters(line, tokens);
  if (auto found = by_blanks(line, tokens)) return *found;
  if (std::ranges::equal(read, cut, differ_in_case_at_most)) return by_letters(line, tokens);
  fail("words_of_tokens", "the tokens are not those of the line");
}

}  // namespace attune::text
