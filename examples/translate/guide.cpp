#include "guide.hpp"

#include <attune/models/text/corpus.hpp>
#include <attune/models/text/token_words.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

namespace attune::translate {
namespace {

/// Words of all pairs, also of those that are not trained on.
std::vector<metrics::SentenceLengths> sentence_lengths(const TrainOptions& o) {
  std::vector<metrics::SentenceLengths> lengths;
  text::ParallelReader reader(o.source, o.target);
  while (const auto pair = reader.next()) {
    lengths.push_back({static_cast<int>(text::words(pair->source).size()),
                       static_cast<int>(text::words(pair->target).size())});
  }
  return lengths;
}

}  // namespace

std::vector<metrics::Alignment> training_links(const TrainOptions& o, const Codecs& codecs) {
  if (o.alignments.empty()) return {};
  if (!models::attends(o.network)) fail("--alignments", "the model has no attention");
  const std::vector<metrics::Alignment> words =
      metrics::read_alignments(o.alignments, sentence_lengths(o));
  std::vector<metrics::Alignment> links;
  text::CorpusReport report{.longest = o.longest};
  text::ParallelReader reader(o.source, o.target);
  for (std::size_t i = 0; const auto pair = reader.next(); ++i) {
    const auto source = codecs.source.tokenizer.encode(pair->source),
               target = codecs.target.tokenizer.encode(pair->target);
    if (!report.count(source.size(), target.size())) continue;
    links.push_back(models::token_links(words.at(i), text::words_of_tokens(pair->source, source),
                                        text::words_of_tokens(pair->target, target)));
  }
  return links;
}

models::Guide guide_of(std::span<const metrics::Alignment> links,
                       std::span<const std::uint32_t> chosen, const text::Batch& batch,
                       double weight) {
  if (links.empty()) return {};
  std::vector<metrics::Alignment> some;
  for (const std::uint32_t i : chosen) some.push_back(links[i]);
  return {models::alignment_guide(some, batch), weight};
}

}  // namespace attune::translate
