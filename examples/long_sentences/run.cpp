#include "run.hpp"

#include <ctime>

#include <attune/models/metrics/error_rate.hpp>
#include <attune/models/search.hpp>
#include <attune/models/seq2seq.hpp>
#include <attune/nn/adam.hpp>
#include <attune/nn/clip.hpp>
#include <attune/nn/schedule.hpp>

#include "support/training_options.hpp"

namespace attune::long_sentences {
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
    const Var loss = model.loss(text::make_batch(task.pairs(length, b.batch, random)));
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
