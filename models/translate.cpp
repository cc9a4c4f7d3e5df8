#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include <attune/models/translate.hpp>
#include <attune/tensor/check.hpp>

namespace attune::models::detail {
namespace {

void check(const TranslateOptions& o) {
  for (const auto& [name, value] :
       {std::pair("sentences", o.sentences), std::pair("words", o.words)}) {
    if (value < 1) fail("translate", fmt::format("{} = {} is less than 1", name, value));
  }
}

Translation empty_translation() {
  Hypothesis h;
  h.complete = true;
  return {h};
}

}  // namespace

std::vector<Translation> translate(std::span<const text::Sentence> sources, Index first_number,
                                   const TranslateOptions& o, const TranslateBatch& batch) {
  check(o);
  std::vector<Translation> translations(sources.size(), empty_translation());
  std::vector<std::size_t> order(sources.size());  // longest first
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return sources[i].size(); });
  while (!order.empty() && sources[order.back()].empty()) order.pop_back();
  for (std::size_t begin = 0, end; begin < order.size(); begin = end) {
    const Index longest = std::ssize(sources[order[begin]]);
    const Index most = std::clamp<Index>(o.words / longest, 1, o.sentences);
    end = std::min(order.size(), begin + static_cast<std::size_t>(most));
    std::vector<text::Sentence> sentences;
    std::vector<Index> numbers;
    for (std::size_t i = begin; i < end; ++i) {
      sentences.push_back(sources[order[i]]);
      numbers.push_back(first_number + static_cast<Index>(order[i]));
    }
    std::vector<Translation> found = batch(text::make_source_batch(sentences, o.dtype), numbers);
    for (std::size_t i = begin; i < end; ++i) translations[order[i]] = std::move(found[i - begin]);
  }
  return translations;
}

}  // namespace attune::models::detail
