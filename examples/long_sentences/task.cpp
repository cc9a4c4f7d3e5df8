#include "task.hpp"

#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <attune/tensor/check.hpp>

namespace attune::long_sentences {
namespace {

constexpr std::int32_t first_word = 4;  // after <pad>, <s>, </s> and <unk>

/// The first `count` of 0 .. n - 1 in a random order (Fisher and Yates).
std::vector<std::int32_t> shuffled(Index n, Index count, Random& random) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  for (Index i = 0; i < count; ++i) {
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(i + random.below(n - i))]);
  }
  order.resize(static_cast<std::size_t>(count));
  return order;
}

}  // namespace

Task::Task(Index words, std::uint64_t seed) {
  if (words < 1) fail("Task", fmt::format("words = {} is less than 1", words));
  Random random(seed, "dictionary");
  dictionary_ = shuffled(words, words, random);
  for (Index i = 0; i < words; ++i) {
    classes_.push_back(static_cast<std::int32_t>(random.below(2)));
  }
}

text::Sentence Task::draw(Index length, Random& random) const {
  if (length < 1 || length > words()) {
    fail("Task", fmt::format("length {} is not in 1 to {}", length, words()));
  }
  text::Sentence sentence = shuffled(words(), length, random);
  for (std::int32_t& word : sentence) word += first_word;
  return sentence;
}

text::Sentence Task::translate(const text::Sentence& source) const {
  text::Sentence target;
  std::int32_t form = 0;
  for (const std::int32_t word : source) {
    const auto w = static_cast<std::size_t>(word - first_word);
    target.push_back(first_word + 2 * dictionary_.at(w) + form);
    form = classes_[w];
  }
  return target;
}

std::vector<text::Pair> Task::pairs(Index length, Index count, Random& random) const {
  std::vector<text::Pair> pairs;
  for (Index i = 0; i < count; ++i) {
    text::Sentence source = draw(length, random);
    pairs.push_back({source, translate(source)});
  }
  return pairs;
}

}  // namespace attune::long_sentences
