#include <algorithm>
#include <numeric>

#include <attune/models/shortlist.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune::models {
namespace {

constexpr std::size_t most_cells = 20'000'000;  // pairs of tokens that are read: 240 MB
constexpr int iterations = 4;
constexpr float least_probability = 1e-3f;

/// Calls body(source token, begin, end) for the range of each source token in sorted cells.
template <class Body>
void for_sources(const std::vector<std::uint64_t>& cells, const Body& body) {
  for (std::size_t begin = 0, end; begin < cells.size(); begin = end) {
    for (end = begin + 1; end < cells.size() && cells[end] >> 32 == cells[begin] >> 32;) ++end;
    body(static_cast<std::int32_t>(cells[begin] >> 32), begin, end);
  }
}

void require_token(const char* side, std::int32_t token, Index vocabulary) {
  if (token < 0 || token >= vocabulary)
    fail("Shortlist", "the {} token {} is not in 0 to {}", side, token, vocabulary - 1);
}

/// Calls body(source tokens, null included, target tokens) for the pairs that are read.
template <class Body>
void for_pairs(std::size_t n, std::size_t stride,
               const std::function<text::Pair(std::size_t)>& pair_of, std::int32_t null,
               const Body& body) {
  for (std::size_t i = 0; i < n; i += stride) {
    text::Pair pair = pair_of(i);
    for (const std::int32_t s : pair.source) require_token("source", s, null);
    pair.source.push_back(null);
    body(pair.source, pair.target);
  }
}

/// The ids of the `most` largest values that are at least `least`, in ascending order of id.
template <class T>
std::vector<std::int32_t> largest(std::vector<std::pair<T, std::int32_t>> all, std::size_t most,
                                  T least) {
  std::erase_if(all, [=](const auto& one) { return one.first < least; });
  const auto end = all.begin() + std::min(most, all.size());
  std::ranges::partial_sort(all, end, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  std::vector<std::int32_t> ids;
  for (auto at = all.begin(); at != end; ++at) ids.push_back(at->second);
  std::ranges::sort(ids);
  return ids;
}

}  // namespace

Shortlist::Shortlist(std::size_t n, const std::function<text::Pair(std::size_t)>& pair,
                     Integer source_vocabulary, Integer target_vocabulary) {
  const auto null = static_cast<std::int32_t>(source_vocabulary);
  std::size_t count = 0;
  std::vector<std::pair<Index, std::int32_t>> frequencies(target_vocabulary);
  for (std::size_t v = 0; v < frequencies.size(); ++v) frequencies[v].second = v;
  for_pairs(n, 1, pair, null, [&](const auto& source, const auto& target) {
    count += source.size() * target.size();
    for (const std::int32_t t : target) {
      require_token("target", t, target_vocabulary);
      ++frequencies[t].first;
    }
  });
  const std::vector<std::int32_t> frequent = largest<Index>(frequencies, most_frequent, 1);
  frequent_ = Tensor::of<std::int32_t>({std::ssize(frequent)}, frequent);
  const std::size_t stride = std::max<std::size_t>(1, ceil_div(count, most_cells));

  std::vector<std::uint64_t> cells;  // source token << 32 | target token
  for_pairs(n, stride, pair, null, [&](const auto& source, const auto& target) {
    for (const std::int32_t t : target)
      for (const std::int32_t s : source)
        cells.push_back(std::uint64_t(s) << 32 | std::uint32_t(t));
  });
  std::vector<std::uint64_t> kinds = cells;
  std::ranges::sort(kinds);
  kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
  std::vector<std::uint32_t> of_cell;  // index in `kinds`, in the order in which pairs are read
  for (const std::uint64_t one : cells)
    of_cell.push_back(std::ranges::lower_bound(kinds, one) - kinds.begin());
  cells = {};

  std::vector<float> probability(kinds.size(), 1);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    std::vector<float> expected(kinds.size());
    auto at = of_cell.begin();
    for_pairs(n, stride, pair, null, [&](const auto& source, const auto& target) {
      for (std::size_t t = 0; t < target.size(); ++t, at += std::ssize(source)) {
        float total = 0;
        for (std::size_t s = 0; s < source.size(); ++s) total += probability[at[s]];
        for (std::size_t s = 0; s < source.size(); ++s)
          expected[at[s]] += probability[at[s]] / total;
      }
    });
    for_sources(kinds, [&](std::int32_t, std::size_t begin, std::size_t end) {
      const double total = std::accumulate(&expected[begin], &expected[begin] + (end - begin), 0.0);
      for (std::size_t i = begin; i < end; ++i)
        probability[i] = static_cast<float>(expected[i] / total);
    });
  }
  links_ = full({source_vocabulary, most_links}, -1, DType::i32);
  for_sources(kinds, [&](std::int32_t source, std::size_t begin, std::size_t end) {
    if (source == null) return;
    std::vector<std::pair<float, std::int32_t>> targets;
    for (std::size_t i = begin; i < end; ++i)
      targets.emplace_back(probability[i], static_cast<std::int32_t>(kinds[i]));
    std::ranges::copy(largest(std::move(targets), most_links, least_probability),
                      links_.mutable_data<std::int32_t>() + source * most_links);
  });
}

std::vector<std::int32_t> Shortlist::tokens(std::span<const std::int32_t> source) const {
  std::vector<std::int32_t> all;
  for (const std::int32_t token : source) {
    require_token("source", token, links_.dim(0));
    const std::int32_t* const own = links_.data<std::int32_t>() + token * links_.dim(1);
    all.insert(all.end(), own, std::find(own, own + links_.dim(1), -1));
  }
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  std::vector<std::int32_t> with_frequent;
  const std::span frequent(frequent_.data<std::int32_t>(), frequent_.size());
  std::ranges::set_union(all, frequent, std::back_inserter(with_frequent));
  return with_frequent;
}

void Shortlist::store(Safetensors& file) const {
  if (!defined()) return;
  file.add("shortlist.links", links_);
  file.add("shortlist.frequent", frequent_);
}

Shortlist Shortlist::of(const Safetensors& file, Integer source_vocabulary,
                        Integer target_vocabulary) {
  Shortlist list;
  const Tensor *const links = file.find("shortlist.links"), *const frequent =
                                                                file.find("shortlist.frequent");
  if (!links || !frequent) return list;
  ShapeCheck("shortlist")("source vocabulary", {source_vocabulary}, "V")("links", *links, "V L")(
      "frequent", *frequent, "N");
  checked_ids("shortlist", "token", *links, target_vocabulary, -1);
  checked_ids("shortlist", "token", *frequent, target_vocabulary);
  const std::vector ids = frequent->to_vector<std::int32_t>();
  if (std::ranges::adjacent_find(ids, std::greater_equal()) != ids.end())
    fail("shortlist", "the frequent tokens do not ascend");
  list.links_ = *links, list.frequent_ = *frequent;
  return list;
}

}  // namespace attune::models
