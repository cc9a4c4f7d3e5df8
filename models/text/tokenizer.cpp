#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <attune/models/text/corpus.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/file.hpp>

using namespace std::string_view_literals;

namespace attune::text {
namespace {

constexpr std::array<std::string_view, 4> special = {"<pad>", "<s>", "</s>", "<unk>"};

bool is_special(std::string_view token) {
  return std::ranges::find(special, token) != special.end();
}

/// The letters of a text (code points except blanks and ▁), and the word index of each letter.
struct Letters {
  std::vector<std::string> letters;
  std::vector<int> words;
  int word = -1;
  bool blank = true;  // whether a blank precedes the next letter

  /// With `pieces`, ▁ is a blank, as in sentencepiece.
  void add(std::string_view text, bool pieces) {
    for (std::string& point : code_points(text)) {
      const bool mark = point == "\u2581";
      const bool is_blank = mark ? pieces : text::words(point).empty();
      if (!is_blank) word += blank;
      blank = is_blank;
      if (is_blank || mark) continue;
      letters.push_back(std::move(point));
      words.push_back(word);
    }
  }
};

/// Exact for ASCII. Any two other characters count as equal, as there is no case table here.
bool differ_in_case_at_most(const std::string& a, const std::string& b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return a == b || (a.size() > 1 && b.size() > 1) ||
         (lower(a[0]) == lower(b[0]) && a.size() == b.size());
}

}  // namespace

Vocabulary::Vocabulary(std::span<const std::string> tokens)
    : tokens_(special.begin(), special.end()) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (!ids_.emplace(tokens_[i], static_cast<std::int32_t>(i)).second)
      fail("vocabulary", in_quotes(tokens_[i]) + " occurs twice");
  }
}

std::int32_t Vocabulary::id(std::string_view token) const {
  const auto at = ids_.find(std::string(token));
  return at == ids_.end() ? unknown : at->second;
}

const std::string& Vocabulary::token(Integer id) const& {
  if (id < 0 || id >= size()) fail("vocabulary", "token id {} is not in 0 to {}", id, size() - 1);
  return tokens_[id];
}

std::span<const std::string> Vocabulary::tokens() const& {
  return std::span(tokens_).subspan(special.size());
}

bool Vocabulary::operator==(const Vocabulary& other) const { return tokens_ == other.tokens_; }

void count_tokens(TokenCounts& counts, std::span<const std::string> tokens) {
  for (const std::string& token : tokens) ++counts[token];
}

Vocabulary make_vocabulary(const TokenCounts& counts, const VocabularyOptions& options) {
  const auto specials = static_cast<std::int64_t>(special.size());
  if (options.maximum_size != 0 && options.maximum_size <= specials) {
    fail("vocabulary", "maximum_size = {} must exceed the number of special tokens, {}",
         options.maximum_size, specials);
  }
  std::vector<std::pair<std::int64_t, std::string>> ranked;
  for (const auto& [token, count] : counts) {
    if (count >= options.minimum_count && !is_special(token)) ranked.emplace_back(-count, token);
  }
  std::ranges::sort(ranked);  // byte order in UTF-8 is code-point order
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
      reader.fail(fmt::format("{} is already in line {}, expected each token once",
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
    if (token.empty() || token.starts_with("\uFEFF") || find_bad_byte(token) ||
        token.find_first_of(std::string_view("\t\r\n\0", 4)) != token.npos)
      fail("write_vocabulary",
           "token {} is empty, not UTF-8, or has a TAB, line break, NUL or leading U+FEFF", id);
    lines += token + "\n";
  }
  write_file(path, lines);
}

// ---- Tokenizers

std::int64_t SentencePiece::least_pieces(std::span<const std::string> lines) {
  std::set<char32_t> characters = {U'▁'};
  for (const std::string& line : lines) {
    const std::u32string all = points(line);
    if (all.find(U'▅') == all.npos) characters.insert(all.begin(), all.end());  // else skipped
  }
  for (const char32_t blank : U" \t"sv) characters.erase(blank);
  return std::ssize(characters) + 3;
}

void SentencePiece::check_words(std::string_view line, std::string_view where) {
  constexpr std::ptrdiff_t longest = 32'000;
  for (const std::string_view word : words(line)) {
    const auto letters = std::ssize(word) > longest ? std::ssize(points(word)) : 0;
    if (letters > longest)
      fail(where, "a word of {} letters, expected at most {} to learn subwords from", letters,
           longest);
  }
}

SentencePiece SentencePiece::load(const std::filesystem::path& path) {
  return SentencePiece(read_file(path), utf8_path(path));
}

Tokenizer Tokenizer::with(std::shared_ptr<const Rewriter> rewriter) const {
  Tokenizer other = *this;
  other.rewriter_ = std::move(rewriter);
  return other;
}

std::vector<std::string> Tokenizer::encode(std::string_view line) const {
  const std::string rewritten = rewriter_ ? rewriter_->encode(line) : std::string(line);
  if (pieces()) return pieces()->encode(rewritten);
  if (kind() == Kind::characters) return code_points(rewritten);
  const std::vector<std::string_view> found = words(rewritten);
  return {found.begin(), found.end()};
}

std::string Tokenizer::decode(std::span<const std::string> tokens) const {
  const char* between = kind() == Kind::characters ? "" : " ";
  const std::string line =
      pieces() ? pieces()->decode(tokens) : fmt::format("{}", fmt::join(tokens, between));
  return rewriter_ ? rewriter_->decode(line) : line;
}

std::string to_json(const Tokenizer& tokenizer) {
  constexpr const char* kinds[] = {"words", "characters", "sentencepiece"};  // as in Kind
  nlohmann::json object = {{"kind", kinds[static_cast<std::size_t>(tokenizer.kind())]}};
  if (const SentencePiece* model = tokenizer.pieces()) {
    const std::string bytes = model->bytes();
    object["model"] =
        fmt::format("{:02x}", fmt::join(std::vector<std::uint8_t>(bytes.begin(), bytes.end()), ""));
  }
  if (tokenizer.rewriter()) object["rewriter"] = tokenizer.rewriter()->json();
  return object.dump();
}

Tokenizer tokenizer_from_json(std::string_view json, const RewriterFromJson& rewriter) {
  const auto bytes_of = [](const std::string& digits) -> std::optional<std::string> {
    std::string bytes;
    for (const char* pair = digits.data(); pair + 1 < digits.data() + digits.size(); pair += 2) {
      unsigned char byte = 0;
      if (std::from_chars(pair, pair + 2, byte, 16).ptr != pair + 2) return std::nullopt;
      bytes += static_cast<char>(byte);
    }
    return bytes;
  };
  try {
    const nlohmann::json object = nlohmann::json::parse(json);
    const auto kind = object.at("kind").get<std::string>();
    std::optional<Tokenizer> tokenizer;
    if (kind == "words") tokenizer = Words{};
    if (kind == "characters") tokenizer = Characters{};
    if (kind == "sentencepiece") {
      if (const auto model = bytes_of(object.at("model").get<std::string>()))
        tokenizer = SentencePiece(*model);
    }
    if (tokenizer && !object.contains("rewriter")) return *tokenizer;
    if (tokenizer) {
      const auto stored = object.at("rewriter").get<std::string>();
      if (!rewriter) fail("tokenizer", "a Rewriter is stored, but no RewriterFromJson was given");
      return tokenizer->with(rewriter(stored));
    }
  } catch (const nlohmann::json::exception&) {  // reported below
  }
  fail("tokenizer", "words, characters or sentencepiece was expected, as to_json writes it");
}

Sentence Codec::encode(std::string_view line) const { return encode(tokenizer.encode(line)); }

Sentence Codec::encode(std::span<const std::string> tokens) const {
  Sentence sentence;
  for (const std::string& token : tokens)
    sentence.push_back(std::max(vocabulary.id(token), Vocabulary::unknown));
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

std::vector<int> words_of_tokens(std::string_view line, std::span<const std::string> tokens) {
  Letters read, cut;
  read.add(line, /*pieces=*/false);
  std::vector<std::ptrdiff_t> firsts;  // index of each token's first letter, or -1
  for (const std::string& token : tokens) {
    const std::ptrdiff_t before = std::ssize(cut.letters);
    cut.add(token, /*pieces=*/true);
    firsts.push_back(std::ssize(cut.letters) > before ? before : -1);
  }
  // If normalisation changed letters, words are matched by their order: the first piece must begin
  // with ▁, and the numbers of words must be equal.
  const bool same = read.letters == cut.letters;
  const bool by_blanks =
      !same && !tokens.empty() && tokens.front().starts_with("\u2581") && cut.word == read.word;
  if (!same && !by_blanks && !std::ranges::equal(read.letters, cut.letters, differ_in_case_at_most))
    fail("words_of_tokens", "the tokens are not those of the line");
  const std::vector<int>& words = by_blanks ? cut.words : read.words;
  std::vector<int> result;
  for (const std::ptrdiff_t first : firsts) result.push_back(first < 0 ? -1 : words[first]);
  return result;
}

}  // namespace attune::text
