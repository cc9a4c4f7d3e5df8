#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/models/metrics/chrf.hpp>
#include <attune/models/text/corpus.hpp>
#include <attune/models/translate.hpp>
#include <attune/tensor/file.hpp>

#include "commands.hpp"
#include "evaluation.hpp"
#include "line_lengths.hpp"

namespace attune::translate {
namespace {

struct Text {
  std::vector<text::Sentence> sources;
  std::vector<metrics::References> references;
  std::vector<text::Pair> pairs;  // without those that have an empty side
};

Text read_text(const EvaluateOptions& o, const Model& model) {
  Text text;
  text::ParallelReader reader = text::open_pairs(o.source, o.target);
  while (const auto pair = reader.next()) {
    text.sources.push_back(model.source().encode(pair->source));
    text.references.push_back({pair->target});
    const text::Pair encoded{text.sources.back(), model.target().encode(pair->target)};
    check_lengths(encoded, o.source, o.target, reader.number());
    if (!encoded.source.empty() && !encoded.target.empty()) text.pairs.push_back(encoded);
  }
  if (text.pairs.empty()) fail(o.source, "there is no sentence to evaluate");
  return text;
}

}  // namespace

int evaluate_files(const EvaluateOptions& o) {
  const Model model = Model::load(o.model);
  const Text text = read_text(o, model);
  const auto start = std::chrono::steady_clock::now();
  const std::vector<std::string> lines = translations(model, text.sources, o.search);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!o.out.empty()) write_file(o.out, fmt::format("{}\n", fmt::join(lines, "\n")));
  const double bleu = metrics::corpus_bleu(lines, text.references, o.bleu).bleu;
  const double chrf = metrics::corpus_chrf(lines, text.references);
  const double perplexity = std::exp(mean_loss(model.network(), text.pairs));
  if (o.json) {
    const nlohmann::ordered_json json = {{"bleu", bleu},
                                         {"chrf", chrf},
                                         {"perplexity", perplexity},
                                         {"sentences", lines.size()},
                                         {"seconds", seconds}};
    fmt::print("{}\n", json.dump());
  } else {
    fmt::print("BLEU {:.2f}  chrF {:.2f}  perplexity {:.2f}  ({} sentences, {:.1f} a second)\n",
               bleu, chrf, perplexity, lines.size(), static_cast<double>(lines.size()) / seconds);
  }
  return 0;
}

}  // namespace attune::translate
