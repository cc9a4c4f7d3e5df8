#include "evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <sstream>

#include <fmt/format.h>

#include <attune/models/translate.hpp>
#include <attune/tensor/reduce.hpp>

#include "support/signals.hpp"
#include "support/workers.hpp"

namespace attune::translate {

double Evaluation::perplexity() const { return std::exp(loss); }

namespace {

/// A model that can be interrupted at every word.
struct Interruptible : models::Seq2Seq {
  explicit Interruptible(const models::Seq2Seq& model) : models::Seq2Seq(model) {}

  Step step(const Words& words, const State& state) const {
    stop_if_interrupted();
    return models::Seq2Seq::step(words, state);
  }
};

/// A loss, and over how many words.
struct Total {
  double loss = 0, words = 0;
};

/// Each worker makes the lines of its part of [0, n). Returns the lines of all workers, in order.
/// No line may have a line break.
std::vector<std::string> shared_out(
    std::size_t n,
    const std::function<std::vector<std::string>(std::size_t begin, std::size_t end)>& make) {
  const auto [begin, end] = workers().shards_of(workers().rank(), static_cast<Index>(n));
  const std::vector<std::string> texts = each_makes([begin = begin, end = end, &make] {
    std::string text;
    for (const std::string& line :
         make(static_cast<std::size_t>(begin), static_cast<std::size_t>(end))) {
      text += line + "\n";
    }
    return text;
  });
  std::vector<std::string> lines;
  for (const std::string& text : texts) {
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(std::move(line));
  }
  return lines;
}

/// Adds the loss of some pairs, in halves where padding would make the batch too large.
void add_loss(const models::Seq2Seq& network, std::span<const text::Pair> pairs,
              std::span<const std::uint32_t> chosen, Total& total) {
  constexpr std::size_t most_words = 64 * 256;
  std::size_t longest = 0;
  for (const std::uint32_t i : chosen) {
    longest = std::max({longest, pairs[i].source.size(), pairs[i].target.size()});
  }
  if (const std::size_t half = chosen.size() / 2;
      half > 0 && longest * chosen.size() > most_words) {
    add_loss(network, pairs, chosen.first(half), total);
    return add_loss(network, pairs, chosen.subspan(half), total);
  }
  stop_if_interrupted();
  const text::Batch batch = text::make_batch(pairs, chosen);
  const double words = sum(batch.target_mask).item();
  total.loss += network.loss(batch).item() * words;
  total.words += words;
}

}  // namespace

double mean_loss(const models::Seq2Seq& network, std::span<const text::Pair> pairs) {
  const NoGrad no_grad;
  const auto batches = text::epoch_batches(pairs, {.sentences = 64}, /*seed=*/0, /*epoch=*/0);
  const auto losses = [&](std::size_t begin, std::size_t end) {
    std::vector<std::string> lines;
    for (std::size_t i = begin; i < end; ++i) {
      Total one;
      add_loss(network, pairs, batches[i], one);
      lines.push_back(fmt::format("{:a} {:a}", one.loss, one.words));
    }
    return lines;
  };
  Total total;
  for (const std::string& line : shared_out(batches.size(), losses)) {
    char* words = nullptr;
    total.loss += std::strtod(line.c_str(), &words);
    total.words += std::strtod(words, nullptr);
  }
  return total.loss / total.words;
}

std::vector<std::string> translations(const Model& model, std::span<const text::Sentence> sources,
                                      const models::SearchOptions& search) {
  return shared_out(sources.size(), [&](std::size_t begin, std::size_t end) {
    std::vector<std::string> lines;
    for (const models::Translation& t :
         models::translate(Interruptible(model.network()), sources.subspan(begin, end - begin),
                           {.how = search})) {
      lines.push_back(model.target().decode(t.front().words));
    }
    return lines;
  });
}

std::vector<metrics::BleuStatistics> translation_statistics(const Model& model,
                                                            const ReferenceText& text,
                                                            const models::SearchOptions& search,
                                                            const metrics::BleuOptions& bleu) {
  return metrics::bleu_statistics(translations(model, text.sources, search), text.references, bleu);
}

Evaluation evaluate(const Model& model, const ReferenceText& text,
                    const models::SearchOptions& search, const metrics::BleuOptions& bleu) {
  const auto statistics = translation_statistics(model, text, search, bleu);
  return {mean_loss(model.network(), text.pairs), metrics::bleu(statistics, bleu).bleu};
}

}  // namespace attune::translate
