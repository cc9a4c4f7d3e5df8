#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include <attune/models/sampling.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/simd/kernels.hpp>

namespace attune::models::detail {
namespace {

const SamplingOptions& checked(const SamplingOptions& o) {
  const auto require = [](bool holds, const char* what) {
    if (!holds) fail("sample", what);
  };
  require(std::isfinite(o.temperature) && o.temperature > 0,
          "the temperature is not finite and above 0");
  require(o.top_k >= 0, "top_k is less than 0");
  require(o.top_p > 0 && o.top_p <= 1, "top_p is not above 0 and at most 1");
  return o;
}

/// e^{(x_v - largest) / temperature}
template <class T>
std::vector<T> shares(std::span<const T> logits, double temperature) {
  std::vector<T> p(logits.size());
  const T largest = simd::largest(logits.data(), logits.size());
  std::ranges::transform(logits, p.begin(),
                         [&](T x) { return static_cast<T>((x - largest) / temperature); });
  simd::exp(p.data(), p.data(), std::ssize(p));
  return p;
}

/// Words that may be drawn, in ascending order of their shares where any are cut off.
template <class T>
std::vector<std::int32_t> words_left(const std::vector<T>& share, const SamplingOptions& o) {
  std::vector<std::int32_t> words(share.size());
  std::iota(words.begin(), words.end(), 0);
  const auto v = std::ssize(words), most = o.top_k == 0 ? v : std::min(o.top_k, v);
  if (most == v && o.top_p == 1) return words;
  const auto less_likely = [&](std::int32_t a, std::int32_t b) {
    const T p = share[a], q = share[b];
    return p != q ? p < q : a > b;
  };
  const double enough = o.top_p * std::reduce(share.begin(), share.end(), 0.0);
  std::ranges::make_heap(words, less_likely);
  auto kept = words.end();  // from here on they are the likeliest
  for (double mass = 0; words.end() - kept < most && mass < enough;) {
    std::pop_heap(words.begin(), kept--, less_likely);
    mass += share[*kept];
  }
  words.erase(words.begin(), kept);
  return words;
}

template <class T>
std::int32_t draw(std::span<const T> logits, const SamplingOptions& options, Random& random) {
  const std::vector<T> share = shares(logits, options.temperature);
  const std::vector<std::int32_t> words = words_left(share, options);
  double mass = 0;
  for (std::int32_t word : words) mass += share[word];
  double left = mass * random.uniform();
  std::int32_t last = words.back();  // with a share; `left` may come out a rounding error too large
  for (std::int32_t word : words) {
    const double p = share[word];
    if (p > 0) last = word;
    if ((left -= p) < 0) return word;
  }
  return last;
}

}  // namespace

Sampler::Sampler(const Tensor& source_mask, const SamplingOptions& options,
                 std::span<const Index> numbers)
    : Decoding("sample", source_mask, options.max_length, options.begin, options.end),
      options_(checked(options)) {
  if (!numbers.empty() && numbers.size() != running_.size())
    fail("sample", fmt::format("{} numbers for {} sentences", numbers.size(), running_.size()));
  for (std::size_t b = 0; b < running_.size(); ++b)
    random_.emplace_back(options.seed, numbers.empty() ? b : static_cast<std::size_t>(numbers[b]));
}

std::vector<Decoding::Candidate> Sampler::choose(const Scores& s) {
  const Running& from = running_[s.begin];
  return visit_floating("sample", s.logits, [&](auto zero) -> std::vector<Candidate> {
    using T = decltype(zero);
    const Index v = s.logits.dim(1);
    const T *logits = s.logits.data<T>() + s.begin * v, norm = s.log_sum_exp.data<T>()[s.begin];
    if (std::isinf(norm)) return {};
    const std::int32_t word =
        draw(std::span(logits, static_cast<std::size_t>(v)), options_, random_[from.sentence]);
    return {{s.begin, word, from.log_probability + static_cast<double>(logits[word] - norm)}};
  });
}

std::vector<Hypothesis> Sampler::results() const {
  std::vector<Hypothesis> results;
  for (const auto& hypotheses : finished_) results.push_back(hypotheses.front());
  return results;
}

}  // namespace attune::models::detail
