#include "evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include <fmt/format.h>

#include <attune/models/translate.hpp>
#include <attune/models/unroll.hpp>
#include <attune/tensor/reduce.hpp>

#include "support/ensembles.hpp"
#include "support/workers.hpp"

namespace attune::translate {

double Evaluation::perplexity() const { return std::exp(loss); }

namespace {

/// A loss, and over how many words.
struct Total {
  double loss = 0, words = 0;
};

/// Each worker makes the lines of its part of [0, n). Returns the lines of all workers, in order.
Texts shared_out(std::size_t n,
                 const std::function<Texts(std::size_t begin, std::size_t end)>& make) {
  const auto part = workers().shards_of(workers().rank(), static_cast<Index>(n));
  return each_makes([&] {
    return make(static_cast<std::size_t>(part.begin), static_cast<std::size_t>(part.end));
  });
}

/// Adds the loss of some pairs, in halves where padding would make the batch too large.
void add_loss(const auto& network, std::span<const text::Pair> pairs,
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
  if constexpr (requires { network.loss(batch); }) {
    total.loss += network.loss(batch).item() * words;
  } else {
    total.loss += models::loss(network, batch).item() * words;
  }
  total.words += words;
}

}  // namespace

double mean_loss(Models models, std::span<const text::Pair> pairs) {
  const NoGrad no_grad;
  const auto batches = text::epoch_batches(pairs, {.sentences = 64}, /*seed=*/0, /*epoch=*/0);
  const auto losses = [&](std::size_t begin, std::size_t end) {
    std::vector<std::string> lines;
    for (std::size_t i = begin; i < end; ++i) {
      Total one;
      with_network(models, [&](const auto& network) { add_loss(network, pairs, batches[i], one); });
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

Written translations(Models models, std::span<const text::Sentence> sources,
                     const models::SearchOptions& search) {
  Written all;
  all.lines = shared_out(sources.size(), [&](std::size_t begin, std::size_t end) {
    const auto translated = with_network(models, [&](const auto& network) {
      return models::translate(network, sources.subspan(begin, end - begin), {.how = search});
    });
    std::vector<std::string> lines;
    for (const models::Translation& t : translated) {
      const std::string mark = t.front().complete ? " " : "!";
      lines.push_back(mark + models.front().target().decode(t.front().words));
    }
    return lines;
  });
  for (std::string& line : all.lines) {
    all.cut += line.front() == '!';
    line.erase(0, 1);
  }
  return all;
}

Evaluation evaluate(const Model& model, const ReferenceText& text,
                    const models::SearchOptions& search, const metrics::BleuOptions& bleu) {
  Evaluation result{.loss = mean_loss(alone(model), text.pairs),
                    .translations = translations(alone(model), text.sources, search).lines};
  result.bleu = metrics::corpus_bleu(result.translations, text.references, bleu).bleu;
  return result;
}

}  // namespace attune::translate
