#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/models/text/vocabulary.hpp>
#include <attune/tensor/check.hpp>

namespace attune::text {

Vocabulary::Vocabulary(std::span<const std::string> tokens)
    : tokens_{"<pad>", "<s>", "</s>", "<unk>"} {
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
  return tokens_[static_cast<std::size_t>(id)];
}

std::vector<std::int32_t> Vocabulary::encode(std::span<const std::string> tokens) const {
  std::vector<std::int32_t> ids;
  ids.reserve(tokens.size());
  for (const std::string& token : tokens) ids.push_back(id(token));
  return ids;
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

}  // namespace attune::text
