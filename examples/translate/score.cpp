#include <algorithm>

#include <fmt/format.h>

#include <attune/models/forced.hpp>
#include <attune/models/text/corpus.hpp>

#include "commands.hpp"
#include "line_lengths.hpp"
#include "model.hpp"

namespace attune::translate {
namespace {

/// Pairs that are scored together: as many as have so few words on a side, padding included.
class Chunk {
 public:
  bool takes(const text::Pair& pair) const {
    constexpr std::size_t most_words = 2048;
    return pairs_.empty() || longest_with(pair) * (pairs_.size() + 1) <= most_words;
  }
  void add(text::Pair pair) {
    longest_ = longest_with(pair);
    pairs_.push_back(std::move(pair));
  }
  void print(const Model& model) {
    if (pairs_.empty()) return;
    for (const auto& hypothesis : models::force_decode(model.network(), text::make_batch(pairs_))) {
      fmt::print("{:.4f}\n", hypothesis.score);
    }
    pairs_.clear(), longest_ = 0;
  }

 private:
  std::size_t longest_with(const text::Pair& pair) const {
    return std::max({longest_, pair.source.size(), pair.target.size() + 1});
  }

  std::vector<text::Pair> pairs_;
  std::size_t longest_ = 0;
};

}  // namespace

int score(const ScoreArguments& o) {
  const Model model = Model::load(o.model);
  text::ParallelReader reader = text::open_pairs(o.source, o.target, columns_for(model, o.columns));
  const Index longest = longest_read(std::span(&model, 1), longest_of_pair);
  Chunk chunk;
  while (const auto lines = reader.next()) {
    text::Pair pair{model.source().encode(lines->source), model.target().encode(lines->target)};
    check_lengths(pair, reader.source_name(), reader.target_name(), reader.number(), longest);
    if (pair.source.empty() || !chunk.takes(pair)) chunk.print(model);
    pair.source.empty() ? fmt::print("\n") : chunk.add(std::move(pair));
  }
  chunk.print(model);
  return 0;
}

}  // namespace attune::translate
