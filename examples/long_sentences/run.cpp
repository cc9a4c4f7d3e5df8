#include "run.hpp"

#include <algorithm>
#include <ctime>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include <attune/models/metrics/error_rate.hpp>
#include <attune/models/search.hpp>
#include <attune/models/seq2seq.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/nn/schedule.hpp>
#include <attune/tensor/check.hpp>

#include "support/training_options.hpp"

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

std::span<const Variant> variants() {
  static const std::vector<Variant> all = {
      {"encoder-decoder", "encoder-decoder"},
      {"sutskever", "sutskever"},
      {"bahdanau", "bahdanau"},
      {"conditional", "conditional"},
      {"luong-dot", "luong", {{"score", "dot"}}},
      {"luong-scaled-dot", "luong", {{"score", "scaled-dot"}}},
      {"luong-general", "luong", {{"score", "general"}}},
      {"luong-concat", "luong", {{"score", "concat"}}},
      {"luong-location", "luong", {{"score", "location"}}},
      {"luong-cosine", "luong", {{"score", "cosine"}}},
      {"luong-multi-head", "luong", {{"score", "multi-head"}}},
      {"luong-local-m", "luong", {{"window", "local-m"}}},
      {"luong-local-p", "luong", {{"window", "local-p"}}},
      {"luong-local-p-20", "luong", {{"window", "local-p"}, {"half-width", "20"}}},
      {"luong-sparsemax", "luong", {{"normalizer", "sparsemax"}}},
  };
  return all;
}

const Variant& variant(std::string_view name) {
  std::string names;
  for (const Variant& one : variants()) {
    if (name == one.name) return one;
    names += names.empty() ? one.name : fmt::format(", {}", one.name);
  }
  fail("--variants", fmt::format("'{}' is not one of {}", name, names));
}

models::Seq2SeqOptions published(std::string_view preset) {
  using Changes = std::vector<std::pair<std::string, std::string>>;
  static const std::map<std::string_view, Changes> changes = {
      {"encoder-decoder", {{"reading", "forward"}, {"attend", "last-state"}}},
      {"sutskever",
       {{"encoder-cell", "lstm"},
        {"decoder-cell", "lstm"},
        {"reading", "backward"},
        {"start", "last"},
        {"attend", "never"},
        {"readout-kind", "attentional"}}},
      {"bahdanau", {}},
      {"conditional", {{"start", "mean"}, {"attend", "between"}, {"readout-kind", "tanh"}}},
      {"luong",
       {{"encoder-cell", "lstm"},
        {"decoder-cell", "lstm"},
        {"reading", "forward"},
        {"start", "last"},
        {"attend", "after"},
        {"score", "general"},
        {"input-feeding", "yes"},
        {"readout-kind", "attentional"}}}};
  models::Seq2SeqOptions o;
  for (const auto& [name, value] : changes.at(preset)) models::set(o, name, value);
  return o;
}

models::Seq2SeqOptions options_of(const Variant& variant, Index hidden, Index longest) {
  models::Seq2SeqOptions o = published(variant.preset);
  o.hidden = o.readout = hidden;
  o.embedding = o.score.attention = std::max<Index>(1, hidden / 2);
  o.encoder_layers = o.decoder_layers = 1;
  o.score.longest = longest;
  for (const auto& [name, value] : variant.changes) models::set(o, name, value);
  return o;
}

namespace {

double processor_seconds() {
  std::timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

Index draw_length(Index longest, Random& random) {
  const double u = random.uniform();
  return 1 + static_cast<Index>(static_cast<double>(longest) * u * u);
}

std::vector<std::string> as_text(const text::Sentence& sentence) {
  std::vector<std::string> words;
  for (const std::int32_t word : sentence) words.push_back(std::to_string(word));
  return words;
}

/// Mean over the pairs, which are of one length, of what greedy search has right.
double accuracy(const models::Seq2Seq& model, const std::vector<text::Pair>& pairs) {
  std::vector<text::Sentence> sources;
  for (const text::Pair& pair : pairs) sources.push_back(pair.source);
  const text::SourceBatch batch = text::make_source_batch(sources);
  const auto found = models::search(model, batch, {.max_length = batch.source.dim(0) + 5});
  double sum = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    sum += metrics::position_accuracy(as_text(found[i].front().words), as_text(pairs[i].target));
  }
  return sum / static_cast<double>(pairs.size());
}

/// Returns the loss of the last batch.
double train(const models::Seq2Seq& model, nn::Adam& adam, const Task& task, Index longest,
             Random& random, const Budget& b) {
  const nn::WarmUp<nn::LinearDecay> schedule{.steps = 50, .next = late_decay(b.rate, b.steps)};
  double last = 0;
  for (Index step = 0; step < b.steps; ++step) {
    const Index length = draw_length(longest, random);
    const Var loss = models::loss(model, text::make_batch(task.pairs(length, b.batch, random)));
    Gradients gradients = backward(loss);
    nn::clip_by_global_norm(gradients, b.clip);
    adam.set_rate(schedule(step));
    adam.step(gradients);
    last = loss.item();
  }
  return last;
}

}  // namespace

Result run(const Setting& setting, const Variant& variant, std::uint64_t seed,
           const Budget& budget) {
  const double start = processor_seconds();
  const Task task(budget.words, seed);
  models::Seq2SeqOptions options = options_of(variant, budget.hidden, lengths.back());
  options.source_vocabulary = task.source_vocabulary();
  options.target_vocabulary = task.target_vocabulary();
  nn::Parameters parameters(seed);
  const models::Seq2Seq model(parameters, options);
  nn::Adam adam(parameters, {.rate = budget.rate});
  Random training(seed, "training"), test(seed, "test");
  Result result;
  result.loss = train(model, adam, task, setting.longest, training, budget);
  result.parameters = parameters.count();
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    result.accuracy[i] = accuracy(model, task.pairs(lengths[i], budget.tested, test));
  }
  result.seconds = processor_seconds() - start;
  return result;
}

}  // namespace attune::long_sentences
