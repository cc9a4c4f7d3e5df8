#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <attune/models/search.hpp>
#include <attune/nn/layers.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/kernels/normalize.hpp>
#include <attune/tensor/kernels/simd/kernels.hpp>
#include <attune/tensor/loops.hpp>
#include <attune/tensor/random.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune::models {

std::vector<std::string> replace_unknown(const Hypothesis& h, std::span<const std::string> source,
                                         const text::Vocabulary& target) {
  std::vector<std::int32_t> places;  // argmax of the weights of each step
  if (h.weights.defined()) {
    if (h.weights.dim(1) != std::ssize(source))
      fail("replace_unknown", "{} source tokens, but weights {}", source.size(), h.weights.shape());
    places = argmax(h.weights).to_vector<std::int32_t>();
  }
  std::vector<std::string> tokens;
  for (std::size_t i = 0; i < h.words.size(); ++i) {
    if (h.words[i] != text::Vocabulary::unknown) {
      tokens.push_back(target.token(h.words[i]));
      continue;
    }
    if (i >= places.size()) fail("replace_unknown", "the hypothesis has no attention weights");
    tokens.push_back(source[places[i]]);
  }
  return tokens;
}

namespace {

/// Scope guard: disables recording and training mode.
struct Inference {
  NoGrad no_grad;
  nn::Training not_training{nullptr};
};

/// A generated token. Hypotheses with a common prefix share its tokens.
struct Written {
  Index before;  // index of the previous token in written_; -1 for the first token
  std::int32_t word;
  double log_probability;  // of this word
};

/// An active (unfinished) hypothesis.
struct Running {
  std::size_t sentence;
  Index last = -1;  // index of its last token in written_; -1 if it has none
  double log_probability = 0;
  Index length = 0;
};

/// A sentence of the batch and its finished hypotheses.
struct SentenceSearch {
  Index number;      // for sampling and TextOf
  Index length;      // of the source
  Index most_words;  // maximum length of a hypothesis
  Random random;     // for sampling
  Translation finished = {};
  std::vector<std::string> texts = {};  // of the finished hypotheses; empty without TextOf
  bool pruned = false;                  // a possible continuation was pruned
};

/// A continuation of an active hypothesis by one token.
struct Candidate {
  Index row;
  std::int32_t word;
  double total;  // log-probability of the continued hypothesis
};

/// Sets the logits (rows, V) of these tokens to -∞ in one row.
void exclude(Tensor& logits, Index row, std::span<const std::int32_t> words) {
  visit_floating("search", logits, [&](auto zero) {
    using T = decltype(zero);
    const Index v = logits.dim(1);
    for (const std::int32_t word : words)
      if (word < v) logits.mutable_data<T>()[row * v + word] = -std::numeric_limits<T>::infinity();
  });
}

/// The tokens that may be drawn, in ascending order of weight if top_k or top_p exclude some.
template <class T>
std::vector<std::int32_t> words_left(const std::vector<T>& weights, const SamplingOptions& o) {
  std::vector<std::int32_t> words(weights.size());
  std::iota(words.begin(), words.end(), 0);
  const Index v = std::ssize(words), most = o.top_k == 0 ? v : std::min(o.top_k, v);
  if (most == v && o.top_p == 1) return words;
  const auto less_likely = [&](std::int32_t a, std::int32_t b) {
    const T p = weights[a], q = weights[b];
    return p != q ? p < q : a > b;
  };
  const double enough = o.top_p * std::accumulate(weights.begin(), weights.end(), 0.0);
  std::ranges::make_heap(words, less_likely);
  auto kept = words.end();  // [kept, end) are the most probable tokens
  for (double mass = 0; words.end() - kept < most && mass < enough;) {
    std::pop_heap(words.begin(), kept--, less_likely);
    mass += weights[*kept];
  }
  words.erase(words.begin(), kept);
  return words;
}

/// Samples a token id by its logits (V).
template <class T>
std::int32_t draw(std::span<const T> logits, const SamplingOptions& options, Random& random) {
  std::vector<T> weights(logits.begin(), logits.end());  // e^{(x_v - largest) / temperature}
  const T largest = simd::largest(weights.data(), std::ssize(weights));
  for (T& x : weights) x = static_cast<T>((x - largest) / options.temperature);
  simd::exp(weights.data(), weights.data(), std::ssize(weights));
  const std::vector<std::int32_t> words = words_left(weights, options);
  double mass = 0;
  for (std::int32_t word : words) mass += weights[word];
  double left = mass * random.uniform();
  std::int32_t last = words.back();  // last with weight > 0, as `left` may have a rounding error
  for (std::int32_t word : words) {
    const double p = weights[word];
    if (p > 0) last = word;
    if ((left -= p) < 0) return word;
  }
  return last;
}

/// The log-probabilities of one row of logits x, computed where they are read.
template <class T>
class LogProbabilities {
 public:
  static constexpr Index block = 128;  // tokens that are skipped together

  explicit LogProbabilities(std::span<const T> x) : x_(x) {
    const auto blocks_of = [&](Index width, const auto& body) {
      for (Index at = 0; at < std::ssize(x); at += width)
        body(x.data() + at, std::min<Index>(width, std::ssize(x) - at));
    };
    blocks_of(block, [&](const T* from, Index n) { largest_.push_back(simd::largest(from, n)); });
    shift_ = std::max(std::ranges::max(largest_), std::numeric_limits<T>::lowest());
    double total = 0;
    blocks_of(simd::sum_block,
              [&](const T* from, Index n) { total += simd::sum_exp(from, shift_, n); });
    log_total_ = total == 0 ? T(0) : static_cast<T>(simd::log(total));
  }

  /// False if a logit is NaN or inf.
  bool valid() const { return !std::isnan(log_total_); }
  T operator[](Index word) const { return of(x_[word]); }

  /// Calls body(word, log-probability) in ascending order for all tokens that may be among the
  /// `count` most probable ones. Skips a block if `skips` is true for the largest in it.
  template <class Skips, class Body>
  void for_likely(std::size_t count, const Skips& skips, const Body& body) const {
    T least = -std::numeric_limits<T>::infinity();
    if (count <= largest_.size()) {  // so many blocks have a token of at least this
      std::vector<T> best = largest_;
      const auto last = best.begin() + static_cast<std::ptrdiff_t>(count) - 1;
      std::ranges::nth_element(best, last, std::ranges::greater());
      least = of(*last);
    }
    for (std::size_t i = 0; i < largest_.size(); ++i) {
      const T largest = of(largest_[i]);
      if (largest < least || skips(largest)) continue;
      const Index begin = static_cast<Index>(i) * block;
      for (Index word = begin; word < std::min<Index>(std::ssize(x_), begin + block); ++word)
        if ((*this)[word] >= least) body(word, (*this)[word]);
    }
  }

 private:
  T of(T logit) const { return logit - shift_ - log_total_; }

  std::span<const T> x_;
  std::vector<T> largest_;  // of each block
  T shift_, log_total_;
};

constexpr double least_coverage = 1e-10;
constexpr Index widest_beam = 1024;  // where a text has several hypotheses

/// Active and finished hypotheses of a batch. Finished sentences leave the batch. Search keeps the
/// best continuations; sampling has a beam of 1 and draws the continuation.
class Decoding {
 public:
  /// `numbers` are the sentences' numbers, for sampling and TextOf. `subsets` may be null.
  Decoding(const Tensor& mask, const SearchOptions& o, std::span<const Index> numbers,
           const TextOf& text, OutputSubsets* subsets)
      : operation_(o.sampling ? "sample" : "search"),
        options_(o),
        text_(text),
        subsets_(subsets),
        excluded_(excluded_tokens(o.output_tokens, o.end)),
        source_steps_(mask.dim(0)) {
    check_options();
    for (const Index length : lengths_of(mask)) {
      const std::size_t i = sentences_.size();
      if (length == 0) fail(operation_, "source {} has no tokens", i);
      sentences_.push_back(
          {.number = numbers[i],
           .length = length,
           .most_words = o.within_source ? std::min(o.max_length, length) : o.max_length,
           .random = Random(o.sampling ? o.sampling->seed : 0, numbers[i])});
      running_.push_back({i});
    }
  }

  /// Decodes from the initial state. Returns the sentences with all of their hypotheses.
  std::vector<SentenceSearch> run(const Model& model, Model::State state) {
    while (!running_.empty()) {
      if (options_.before_step) options_.before_step();
      std::vector<std::int32_t> words, unmoved(running_.size());
      for (const Running& r : running_)
        words.push_back(r.last < 0 ? options_.begin : written_[r.last].word);
      std::iota(unmoved.begin(), unmoved.end(), 0);
      if (subsets_) {
        std::vector<std::size_t> sentences;
        for (const Running& r : running_) sentences.push_back(r.sentence);
        subsets_->set_rows(std::move(sentences));
      }
      Model::Step step =
          model.step(Tensor::of<std::int32_t>({std::ssize(words)}, words), state, subsets_);
      Tensor logits = step.logits.value();
      step.logits = {};  // so that `advance` need not copy them
      const std::vector<std::int32_t> parents = advance(std::move(logits), step.weights.value());
      const Tensor rows = Tensor::of<std::int32_t>({std::ssize(parents)}, parents);
      const bool moved = parents != unmoved && !parents.empty();
      state = moved ? model.select(step.state, rows) : std::move(step.state);
    }
    return std::move(sentences_);
  }

 private:
  void check_options() const {
    const SearchOptions& o = options_;
    if (o.max_length < 1) fail(operation_, "max_length = {} is less than 1", o.max_length);
    if (o.beam < 1) fail(operation_, "beam = {} is less than 1", o.beam);
    if (o.best < 1 || o.best > o.beam)
      fail(operation_, "best = {} is not in 1 to beam = {}", o.best, o.beam);
    if (!std::isfinite(o.length_penalty))
      fail(operation_, "length_penalty = {} is not finite", o.length_penalty);
    if (!(std::isfinite(o.coverage_penalty) && o.coverage_penalty >= 0))
      fail(operation_, "coverage_penalty = {} is not in [0, inf)", o.coverage_penalty);
    if (!o.sampling) return;
    if (!(std::isfinite(o.sampling->temperature) && o.sampling->temperature > 0))
      fail(operation_, "temperature = {} is not in (0, inf)", o.sampling->temperature);
    if (o.sampling->top_k < 0) fail(operation_, "top_k = {} is less than 0", o.sampling->top_k);
    if (!(o.sampling->top_p > 0 && o.sampling->top_p <= 1))
      fail(operation_, "top_p = {} is not in (0, 1]", o.sampling->top_p);
  }

  /// The candidates of each active sentence, in the order of the rows.
  std::vector<std::vector<Candidate>> candidates(const Tensor& logits) {
    std::vector<Index> begins;  // each sentence's first row, and their end
    for (std::size_t row = 0; row < running_.size(); ++row) {
      if (row == 0 || running_[row].sentence != running_[row - 1].sentence)
        begins.push_back(static_cast<Index>(row));
    }
    begins.push_back(std::ssize(running_));
    std::vector<std::vector<Candidate>> found(begins.size() - 1);
    visit_floating(operation_, logits, [&](auto zero) {
      using T = decltype(zero);
      parallel_for(std::ssize(found), [&](Index i) {
        found[i] = choose<T>(logits, begins[i], begins[i + 1]);
        if (found[i].empty() && sentences_[running_[begins[i]].sentence].finished.empty())
          fail(operation_, "all tokens have probability 0");
      });
    });
    return found;
  }

  /// The continuations of one sentence with the rows begin .. end, from logits (rows, V): the best
  /// ones, one per free beam slot, best first, or a sampled one. Ties: the earlier row, then the
  /// smaller token. A row at the length limit has only its best continuation.
  template <class T>
  std::vector<Candidate> choose(const Tensor& logits, Index begin, Index end) {
    SentenceSearch& sentence = sentences_[running_[begin].sentence];
    const auto count = static_cast<std::size_t>(options_.beam) - sentence.finished.size();
    std::vector<Candidate> best;  // sorted; short
    const auto enters = [&](double total) {
      return best.size() < count ? total > -std::numeric_limits<double>::infinity()
                                 : total > best.back().total;
    };
    for (Index row = begin; row < end; ++row) {
      const double before = running_[row].log_probability;
      const Index v = subsets_ ? subsets_->size(row) : logits.dim(1);
      if (v == 0) continue;
      const std::span x(logits.data<T>() + row * logits.dim(1), static_cast<std::size_t>(v));
      const LogProbabilities<T> log_p(x);
      if (!log_p.valid()) fail(operation_, "the model's logits are NaN or inf");
      if (options_.sampling || running_[row].length == sentence.most_words) {
        const auto likeliest = std::ranges::max_element(x);
        if (std::isinf(*likeliest)) continue;
        const std::int32_t column = options_.sampling
                                        ? draw(x, *options_.sampling, sentence.random)
                                        : static_cast<std::int32_t>(likeliest - x.begin());
        best.push_back({row, word_of(row, column), before + log_p[column]});
        continue;
      }
      const auto skips = [&](T largest) { return !enters(before + largest); };
      log_p.for_likely(count, skips, [&](Index column, T log_p) {
        const double total = before + log_p;
        if (!enters(total)) return;
        best.insert(
            std::ranges::upper_bound(best, total, std::ranges::greater(), &Candidate::total),
            {row, word_of(row, column), total});
        if (best.size() > count) best.pop_back();
      });
    }
    sentence.pruned |= best.size() == count;
    return best;
  }

  std::int32_t word_of(Index row, Index column) const {
    return subsets_ ? subsets_->id(row, column) : static_cast<std::int32_t>(column);
  }

  Running extend(const Candidate& candidate, std::span<const float> weights) {
    const Running& from = running_[candidate.row];
    written_.push_back({from.last, candidate.word, candidate.total - from.log_probability});
    if (!weights.empty()) {
      const auto own = weights.begin() + candidate.row * source_steps_;
      weights_.insert(weights_.end(), own, own + source_steps_);
    }
    return {from.sentence, std::ssize(written_) - 1, candidate.total, from.length + 1};
  }

  void finish(const Running& end, bool complete) {
    Hypothesis h;
    h.complete = complete;
    h.log_probability = end.log_probability;
    std::vector<Index> steps;
    for (Index at = end.last; at >= 0; at = written_[at].before) steps.push_back(at);
    std::ranges::reverse(steps);
    const Index s = sentences_[end.sentence].length;
    std::vector<float> weights;
    for (const Index at : steps) {
      h.words.push_back(written_[at].word);
      h.word_log_probabilities.push_back(written_[at].log_probability);
      if (weights_.empty()) continue;
      const auto own = weights_.begin() + at * source_steps_;
      weights.insert(weights.end(), own, own + s);
    }
    if (complete) h.words.pop_back();
    if (!weights.empty()) h.weights = Tensor::of<float>({std::ssize(steps), s}, weights);
    h.score = score(h);
    if (std::isnan(h.score)) fail(operation_, "the score of a hypothesis is NaN");
    keep(sentences_[end.sentence], std::move(h));
  }

  /// Keeps only the best of the hypotheses with equal text, complete ones before truncated ones.
  void keep(SentenceSearch& sentence, Hypothesis h) {
    if (text_) {
      std::string text = text_(h, sentence.number);
      const auto same = std::ranges::find(sentence.texts, text);
      if (same != sentence.texts.end()) {
        Hypothesis& other = sentence.finished[same - sentence.texts.begin()];
        if (std::pair(h.complete, h.score) > std::pair(other.complete, other.score))
          other = std::move(h);
        return;
      }
      sentence.texts.push_back(std::move(text));
    }
    sentence.finished.push_back(std::move(h));
  }

  /// The ranking score of a finished hypothesis, see SearchOptions.
  double score(const Hypothesis& h) const {
    const double score = normalized(h.log_probability, std::ssize(h.word_log_probabilities));
    if (options_.coverage_penalty == 0) return score;
    if (!h.weights.defined())
      fail(operation_, "a coverage penalty requires a model with attention");
    double coverage = 0;  // Σ_i log(min(Σ_j p_ij, 1))
    for (const double covered : sum(h.weights, {0}).to_vector<double>())
      coverage += std::log(std::clamp(covered, least_coverage, 1.0));
    return score + options_.coverage_penalty * coverage;
  }

  /// log P / |Y|ᵅ
  double normalized(double log_probability, Index length) const {
    return log_probability / std::pow(static_cast<double>(length), options_.length_penalty);
  }

  /// Whether no active hypothesis can change the result of the sentence.
  bool settled(const SentenceSearch& sentence, std::span<const Running> running) const {
    std::vector<double> scores;  // of complete hypotheses
    for (const Hypothesis& h : sentence.finished)
      if (h.complete) scores.push_back(h.score);
    if (std::ssize(scores) < options_.best) return false;
    std::ranges::sort(scores, std::ranges::greater());
    const double last = scores[static_cast<std::size_t>(options_.best) - 1];
    return std::ranges::all_of(running, [&](const Running& r) {
      return last >= std::max(normalized(r.log_probability, r.length),
                              normalized(r.log_probability, sentence.most_words + 1));
    });
  }

  /// Removes finished hypotheses from the batch; the others are the rows of the next step. Returns
  /// the rows that they continue.
  std::vector<std::int32_t> advance(Tensor logits, const Tensor& mean_weights) {
    const std::int32_t end = options_.end;
    ShapeCheck check(operation_);
    check("the running hypotheses", {std::ssize(running_)}, "R")("logits", logits, "R V");
    if (end < -1 || (!subsets_ && std::max(end, 0) >= check['V']))
      fail(operation_, "the end token {} is not in -1 (none) to {}", end, check['V'] - 1);
    std::vector<float> weights;  // (rows, S), empty without attention
    if (mean_weights.defined() && (options_.weights || options_.coverage_penalty != 0)) {
      check("the source", {source_steps_}, "S")("weights", mean_weights, "S R");
      weights = transpose(mean_weights, 0, 1).to_vector<float>();
    }
    std::vector<Running> next;
    std::vector<std::int32_t> parents;
    if (!logits.unique()) logits = logits.clone();
    for (Index row = 0; row < check['R'] && !subsets_; ++row) exclude(logits, row, excluded_);
    for (const std::vector<Candidate>& found : candidates(logits)) {
      if (found.empty()) continue;  // no continuation is possible: the finished hypotheses remain
      const std::size_t first = next.size();
      const SentenceSearch& sentence = sentences_[running_[found.front().row].sentence];
      for (const Candidate& candidate : found) {
        const Running& from = running_[candidate.row];
        const bool ends = candidate.word == end;
        if (ends || (end == -1 && from.length + 1 == sentence.most_words)) {
          finish(extend(candidate, weights), ends);  // also at max_length without an end token
        } else if (from.length < sentence.most_words) {
          next.push_back(extend(candidate, weights));
          parents.push_back(static_cast<std::int32_t>(candidate.row));
        } else {
          finish(from, /*complete=*/false);
        }
      }
      if (settled(sentence, std::span(next).subspan(first))) {
        next.resize(first);
        parents.resize(first);
      }
    }
    running_ = std::move(next);
    return parents;
  }

  const char* operation_;
  SearchOptions options_;
  const TextOf& text_;
  OutputSubsets* subsets_;
  std::vector<std::int32_t> excluded_;
  Index source_steps_;            // S
  std::vector<Running> running_;  // one for each row of the model's next step
  std::vector<Written> written_;  // the words of all hypotheses
  std::vector<float> weights_;    // (written, S), empty without attention
  std::vector<SentenceSearch> sentences_;
};

/// The tokens of the shortlist that can be generated.
std::vector<std::int32_t> tokens_for(const text::Sentence& source, const SearchOptions& o) {
  std::vector<std::int32_t> all = o.shortlist->tokens(source);
  if (o.end >= 0 && !std::ranges::binary_search(all, o.end))
    all.insert(std::ranges::lower_bound(all, o.end), o.end);
  for (const std::int32_t token : excluded_tokens(o.output_tokens, o.end)) std::erase(all, token);
  return all;
}

/// Decodes a batch; `numbers` are the sentences' indices for TextOf and sampling. With `text`, the
/// hypotheses of a sentence have distinct texts; the search may restart for this. `tokens` are those
/// of the sources, for a shortlist.
std::vector<Translation> decode(const Model& model, const Model::Source& source,
                                SearchOptions options, std::span<const Index> numbers = {},
                                const TextOf& text = {},
                                std::span<const text::Sentence> tokens = {}) {
  const Inference inference;
  if (options.shortlist && tokens.empty())
    fail("search", "a shortlist requires the token ids of the sources, as in translate");
  if (options.sampling) {
    options.beam = options.best = 1;
    options.length_penalty = options.coverage_penalty = 0;
  }
  const TextOf text_of = options.sampling ? TextOf() : text;
  std::vector<Translation> found(static_cast<std::size_t>(source.mask.dim(1)));
  if (!numbers.empty() && numbers.size() != found.size())
    fail("sample", "{} numbers for {} sentences", numbers.size(), found.size());
  std::vector<std::int32_t> sentences(found.size());
  std::iota(sentences.begin(), sentences.end(), 0);
  for (bool first = true; !sentences.empty(); first = false, options.beam *= 2) {
    const Tensor rows = Tensor::of<std::int32_t>({std::ssize(sentences)}, sentences);
    std::vector<Index> own;
    for (const std::int32_t sentence : sentences)
      own.push_back(numbers.empty() ? sentence : numbers[sentence]);
    Model::State start = model.start(source);
    if (!first) start = model.select(start, rows);
    const Tensor& mask = source.mask;
    std::vector<std::vector<std::int32_t>> ids;
    for (const std::int32_t sentence : sentences)
      if (options.shortlist) ids.push_back(tokens_for(tokens[sentence], options));
    OutputSubsets subsets(std::move(ids));
    Decoding decoding(first ? mask : gather(mask, rows, 1), options, own, text_of,
                      options.shortlist ? &subsets : nullptr);
    const auto best = static_cast<std::size_t>(options.best);
    std::vector<std::int32_t> too_few;
    std::vector<SentenceSearch> searches = decoding.run(model, std::move(start));
    for (std::size_t i = 0; i < searches.size(); ++i) {
      Translation& finished = searches[i].finished;
      if (finished.size() < best && searches[i].pruned) too_few.push_back(sentences[i]);
      std::ranges::stable_sort(finished, std::ranges::greater(), &Hypothesis::score);
      finished.resize(std::min(finished.size(), best));
      found[sentences[i]] = std::move(finished);
    }
    if (!text_of || 2 * options.beam > widest_beam) break;
    sentences = std::move(too_few);
  }
  return found;
}

}  // namespace

std::vector<Translation> search(const Model& model, const Model::Source& source,
                                const SearchOptions& options) {
  return decode(model, source, options);
}

std::vector<Translation> search(const Model& model, const text::SourceBatch& batch,
                                const SearchOptions& options) {
  const Inference inference;
  return search(model, model.encode(batch.source, batch.mask), options);
}

std::vector<Hypothesis> sample(const Model& model, const Model::Source& source,
                               const SamplingOptions& sampling, SearchOptions options,
                               std::span<const Index> numbers) {
  options.sampling = sampling;
  std::vector<Hypothesis> drawn;
  for (Translation& one : decode(model, source, options, numbers))
    drawn.push_back(std::move(one.front()));
  return drawn;
}

// ---- Forced decoding

/// -log p of the tokens next (T · B). Computes logits in chunks of rows, to limit memory for long
/// targets and large vocabularies. `never` has the excluded tokens of each sentence.
static std::vector<double> losses_of(const AffineLogits& logits, const Tensor& next,
                                     const Tensor& mask,
                                     std::span<const std::vector<std::int32_t>> never) {
  constexpr Index rows = 256;
  const Tensor readouts = logits.x.value().reshape({-1, logits.x.dim(-1)});
  std::vector<double> losses;
  for (Index begin = 0; begin < next.size(); begin += rows) {
    const Index end = std::min(next.size(), begin + rows);
    Tensor some = Var(AffineLogits{readouts.slice(begin, end), logits.affine}).value();
    if (!some.unique()) some = some.clone();
    for (Index row = begin; row < end; ++row)
      exclude(some, row - begin, never[static_cast<std::size_t>(row) % never.size()]);
    const CrossEntropy of =
        cross_entropy_forward(some, next.slice(begin, end), mask.slice(begin, end));
    if (!first_non_finite(of.norms).empty())
      fail("force_decode", "the model's logits are NaN or inf");
    const auto norms = of.norms.to_vector<double>();
    for (std::size_t i = 1; const double loss : of.loss.to_vector<double>()) {
      if (loss > 0 && norms[i] == 0) fail("force_decode", "all tokens have probability 0");
      losses.push_back(loss), i += 2;
    }
  }
  return losses;
}

std::vector<Hypothesis> force_decode(const Model& model, const Model::Source& source,
                                     const Target& target, const SearchOptions& options) {
  const Inference inference;
  const auto [logits, all_weights] =
      model.unroll(source, target.previous, target.mask, options.weights);
  const Tensor weights = all_weights.empty() ? Tensor() : stack(all_weights).value();  // (T, S, B)
  ShapeCheck check("force_decode");
  check("next", target.next, "T B")("outputs", logits.x, "T B R");
  if (weights.defined()) check("source", source.mask, "S B")("weights", weights, "T S B");
  const auto words = target.next.to_vector<std::int32_t>();  // (T, B)
  const auto target_lengths = lengths_of(target.mask), source_lengths = lengths_of(source.mask);
  const std::size_t sentences = target_lengths.size();
  std::vector<std::vector<std::int32_t>> never(sentences,
                                               excluded_tokens(options.output_tokens, options.end));
  std::vector<Hypothesis> hypotheses(sentences);
  for (std::size_t b = 0; b < sentences; ++b) {
    Hypothesis& h = hypotheses[b];
    for (Index t = 0; t < target_lengths[b]; ++t) {
      h.words.push_back(words[t * sentences + b]);
      std::erase(never[b], h.words.back());
    }
    if (h.words.empty() || h.words.back() != options.end)
      fail("force_decode", "target {} does not end with the end token {}", b, options.end);
  }
  const std::vector<double> losses =  // (T, B)
      losses_of(logits, target.next.reshape({-1}), target.mask.to(logits.x.dtype()).reshape({-1}),
                never);
  for (std::size_t b = 0; b < sentences; ++b) {
    Hypothesis& h = hypotheses[b];
    const auto column = static_cast<Index>(b), steps = target_lengths[b];
    for (Index t = 0; t < steps; ++t) {
      h.word_log_probabilities.push_back(-losses[t * sentences + b]);
      h.log_probability -= losses[t * sentences + b];
    }
    h.words.pop_back();
    h.score = h.log_probability;
    h.complete = true;
    if (!weights.defined()) continue;
    Tensor own = weights.slice(0, steps);  // of a sentence alone, without padding, no copy
    if (sentences > 1 || source_lengths[b] < own.dim(1))
      own = slice(slice(own, 2, column, column + 1), 1, 0, source_lengths[b]);
    h.weights = own.reshape({steps, -1}).to(DType::f32);
  }
  return hypotheses;
}

std::vector<Hypothesis> force_decode(const Model& model, const text::Batch& batch,
                                     const SearchOptions& options) {
  const Inference inference;
  return force_decode(model, model.encode(batch.source, batch.source_mask),
                      {batch.previous, batch.next, batch.target_mask}, options);
}

// ---- Many sentences

std::vector<Translation> translate(const Model& model, std::span<const text::Sentence> sources,
                                   const TranslateOptions& o) {
  const Inference inference;
  for (const auto& [name, value] :
       {std::pair("sentences", o.sentences), std::pair("words", o.words)}) {
    if (value < 1) fail("translate", "{} = {} is less than 1", name, value);
  }
  Hypothesis no_words;
  no_words.complete = true, no_words.word_log_probabilities = {0};  // of </s>
  std::vector<Translation> translations(sources.size(), {no_words});
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
      numbers.push_back(o.first + static_cast<Index>(order[i]));
    }
    const auto [source, mask] = text::make_source_batch(sentences);
    std::vector<Translation> found =
        decode(model, model.encode(source, mask), o.how, numbers, o.text, sentences);
    for (std::size_t i = begin; i < end; ++i) translations[order[i]] = std::move(found[i - begin]);
  }
  return translations;
}

}  // namespace attune::models
