#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include <attune/models/text/corpus.hpp>
#include <attune/models/text/vocabulary.hpp>
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
      fail("vocabulary", fmt::format("'{}' occurs twice", tokens_[i]));
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
      reader.fail(fmt::format("'{}' stands in line {} already, expected each token once", *token,
                              first->second));
    }
    if (!is_special(*token)) {
      tokens.push_back(std::move(*token));
    } else if (!tokens.empty()) {
      reader.fail(fmt::format("'{}' after other tokens, expected it at the top", *token));
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

}  // namespace attune::text
