#include "letters.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unicode/bytestream.h>
#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <attune/models/text/utf8.hpp>
#include <attune/tensor/errors.hpp>

namespace attune::text {
namespace {

std::string normalized(const icu::Normalizer2* (*form)(UErrorCode&), std::string_view text) {
  std::string result;
  icu::StringByteSink<std::string> sink(&result);
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* const normalizer = form(status);
  const icu::StringPiece piece(text.data(), text.size());
  if (U_SUCCESS(status)) normalizer->normalizeUTF8(0, piece, sink, nullptr, status);
  if (U_FAILURE(status)) fail("normalisation", u_errorName(status));
  return result;
}

void require_utf8(const char* what, std::string_view line) {
  if (const auto bad = find_bad_byte(line))
    fail(what, fmt::format("byte {} is not UTF-8", *bad + 1));
}

struct Decomposition : Rewriter {
  std::string encode(std::string_view line) const override {
    require_utf8("text", line);
    return decomposed(line);
  }
  std::string decode(std::string_view line) const override { return composed(line); }
  std::string json() const override { return "decomposed"; }
};

icu::UnicodeString unicode(std::string_view text) {
  return icu::UnicodeString::fromUTF8({text.data(), int(text.size())});
}

std::string utf8(const icu::UnicodeString& text) {
  std::string result;
  return text.toUTF8String(result);
}

std::string lower_case(std::string_view text) {
  return utf8(unicode(text).toLower(icu::Locale::getRoot()));
}

std::string upper_case(std::string_view text) {
  return utf8(unicode(text).toUpper(icu::Locale::getRoot()));
}

bool in_capitals(std::string_view line) {
  return line == upper_case(line) && line != lower_case(line);
}

/// From the first letter or digit to the last one; empty if there is none.
std::string_view without_marks(std::string_view word) {
  std::size_t first = word.size(), last = 0;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t begin = at;
    if (u_isalnum(next_code_point(word, at))) first = std::min(first, begin), last = at;
  }
  return last == 0 ? std::string_view() : word.substr(first, last - first);
}

std::size_t offset_in(std::string_view text, std::string_view part) {
  return part.data() - text.data();
}

/// Calls `use(word, first)` for each word; `first`: it begins a sentence.
template <class F>
void each_word(std::string_view line, F use) {
  bool first = true;
  for (const std::string_view whole : words(line)) {
    const std::string_view word = without_marks(whole);
    if (!word.empty()) use(word, std::exchange(first, false));
    const std::string_view behind =
        word.empty() ? whole : whole.substr(offset_in(whole, word) + word.size());
    first |= behind.find_first_of(".?!") != behind.npos;
  }
}

/// The line with each word replaced by `change(word, first)`.
template <class F>
std::string changed(std::string_view line, F change) {
  std::string result;
  std::size_t copied = 0;
  each_word(line, [&](std::string_view word, bool first) {
    const std::size_t begin = offset_in(line, word);
    result += line.substr(copied, begin - copied);
    result += change(word, first);
    copied = begin + word.size();
  });
  result += line.substr(copied);
  return result;
}

/// Capitalises the first letter only.
std::string capitalised(std::string_view word) {
  return utf8(unicode(word).toTitle(nullptr, icu::Locale::getRoot(),
                                    U_TITLECASE_WHOLE_STRING | U_TITLECASE_NO_LOWERCASE));
}

}  // namespace

std::string folded_case(std::string_view text) { return utf8(unicode(text).foldCase()); }

std::string decomposed(std::string_view text) {
  return normalized(icu::Normalizer2::getNFDInstance, text);
}

std::string composed(std::string_view text) {
  return normalized(icu::Normalizer2::getNFCInstance, text);
}

std::string escaped(std::string_view text) {
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const UChar32 point = next_code_point(text, at);
    const auto kinds = point < 0 ? 0 : U_GET_GC_MASK(point);
    const bool unseen = point != ' ' && (kinds & (U_GC_Z_MASK | U_GC_C_MASK)) != 0,
               alone = begin == 0 && (kinds & U_GC_M_MASK) != 0;
    shown += unseen || alone ? fmt::format("\\u{:04x}", point)
                             : std::string(text.substr(begin, at - begin));
  }
  return shown;
}

Tokenizer decomposed_characters() {
  return Tokenizer(Characters{}).with(std::make_shared<const Decomposition>());
}

bool decomposes(const Tokenizer& tokenizer) {
  return dynamic_cast<const Decomposition*>(tokenizer.rewriter()) != nullptr;
}

Truecaser::Truecaser(std::vector<std::string> words, bool capitals)
    : words_(std::move(words)), capitals_(capitals), known_(words_.begin(), words_.end()) {
  for (const std::string& word : words_) best_.emplace(folded_case(word), word);
}

std::string Truecaser::encode(std::string_view line) const {
  const bool capitals = in_capitals(line);
  return changed(line, [&](std::string_view word, bool first) {
    if (!first && !capitals && known_.contains(std::string(word))) return std::string(word);
    const auto best = best_.find(folded_case(word));
    if (best != best_.end()) return best->second;
    return capitals ? lower_case(word) : std::string(word);
  });
}

std::string Truecaser::decode(std::string_view line) const {
  if (!capitals_) return std::string(line);
  return changed(line, [](std::string_view word, bool first) {
    return first ? capitalised(word) : std::string(word);
  });
}

std::string Truecaser::json() const {
  return nlohmann::json{{"words", words_}, {"capitals", capitals_}}.dump();
}

void CaseCounts::add(std::string_view line) {
  require_utf8("truecaser", line);
  if (in_capitals(line)) return;
  const std::string_view begin = without_marks(line);
  if (!begin.empty()) {
    std::size_t at = 0;
    const UChar32 letter = next_code_point(begin, at);
    capital_ += u_isupper(letter) || u_istitle(letter), lower_ += u_islower(letter);
  }
  each_word(line, [&](std::string_view word, bool first) {
    if (!first && lower_case(word) != upper_case(word)) ++counts_[std::string(word)];
  });
}

Truecaser CaseCounts::truecaser() const {
  // Descending order: of equally frequent cases, lower case (larger code points) comes first.
  std::map<std::string, std::set<std::pair<std::int64_t, std::string>, std::greater<>>> by_folded;
  for (const auto& [word, count] : counts_) by_folded[folded_case(word)].emplace(count, word);
  std::vector<std::string> words;
  for (const auto& [folded, cases] : by_folded)
    for (const auto& [count, word] : cases) words.push_back(word);
  return {std::move(words), capital_ > lower_};
}

std::shared_ptr<const Rewriter> read_rewriter(std::string_view json) {
  if (json == "decomposed") return std::make_shared<const Decomposition>();
  const auto object = nlohmann::json::parse(json);
  return std::make_shared<const Truecaser>(object.at("words").get<std::vector<std::string>>(),
                                           object.at("capitals").get<bool>());
}

}  // namespace attune::text
