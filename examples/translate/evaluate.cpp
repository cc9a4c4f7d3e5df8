#include <chrono>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/models/metrics/chrf.hpp>
#include <attune/tensor/file.hpp>

#include "commands.hpp"
#include "evaluation.hpp"
#include "line_lengths.hpp"
#include "support/ensembles.hpp"
#include "support/progress.hpp"

namespace attune::translate {
namespace {

/// BLEU TAB chrF TAB translation, a line for each.
std::string scores_of_sentences(std::span<const std::string> lines, const ReferenceText& text,
                                const metrics::BleuOptions& bleu) {
  std::string scores;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto references = std::span(text.references).subspan(i, 1);
    scores += fmt::format("{:.2f}\t{:.2f}\t{}\n",
                          metrics::sentence_bleu(lines[i], references.front(), bleu).bleu,
                          metrics::corpus_chrf(lines.subspan(i, 1), references), lines[i]);
  }
  return scores;
}

}  // namespace

int evaluate_files(const EvaluateArguments& o) {
  std::vector<std::filesystem::path> inputs(o.references.begin(), o.references.end());
  inputs.insert(inputs.end(), {o.source, o.target});
  inputs.insert(inputs.end(), o.models.begin(), o.models.end());
  for (const std::string& file : {o.out, o.sentences})
    if (!file.empty()) require_writable(file, inputs);
  using std::filesystem::weakly_canonical;
  if (!o.out.empty() && !o.sentences.empty() &&
      weakly_canonical(o.out) == weakly_canonical(o.sentences))
    fail("--sentences", o.out + " is written by --out: another file was expected");
  const std::vector<Model> models = load_alike<Model>(o.models);
  const Codecs& codecs = models.front().codecs();
  ReferenceText text = reference_text(o.source, o.target, columns_for(models.front(), o.columns),
                                      codecs, longest_read(models, longest_of_pair));
  for (const std::string& file : o.references) add_references(text, file);
  const auto start = std::chrono::steady_clock::now();
  const auto [lines, cut] = translations(models, text.sources, o.search);
  const double seconds = seconds_since(start);
  if (cut > 0) {
    complain("warning: {} of {} translations are cut at --max-length {}\n", cut, lines.size(),
             o.search.max_length);
  }
  if (!o.out.empty()) write_file(o.out, fmt::format("{}\n", fmt::join(lines, "\n")));
  if (!o.sentences.empty()) write_file(o.sentences, scores_of_sentences(lines, text, o.bleu));
  const double bleu = metrics::corpus_bleu(lines, text.references, o.bleu).bleu;
  const double chrf = metrics::corpus_chrf(lines, text.references);
  const double perplexity = std::exp(mean_loss(models, text.pairs));
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
