#include <attune/models/text/pair_store.hpp>

namespace attune::text {

void PairStore::add(const Pair& pair) {
  words_.append(pair.source);
  words_.append(pair.target);
  ends_.append(words_.size());
  lengths_.append(lengths_of(pair));
}

Pair PairStore::operator[](std::size_t i) {
  const auto [sources, targets] = lengths_.values()[i];
  const auto words =
      words_.values().subspan(ends_.values()[i] - sources - targets, sources + targets);
  const auto source = words.first(sources), target = words.last(targets);
  return {Sentence(source.begin(), source.end()), Sentence(target.begin(), target.end())};
}

}  // namespace attune::text
