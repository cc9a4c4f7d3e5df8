#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/models/metrics/chrf.hpp>
#include <attune/tensor/file.hpp>

#include "commands.hpp"
#include "evaluation.hpp"

namespace attune::translate {

int evaluate_files(const EvaluateArguments& o) {
  if (!o.out.empty()) require_writable(o.out);
  const Model model = Model::load(o.model);
  const ReferenceText text = reference_text(o.source, o.target, model.codecs());
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
