// Alignments of pairs in the forms that the programs' `align` writes.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <attune/models/option_field.hpp>
#include <attune/models/report/heatmap.hpp>

namespace attune {

/// automatic: what the end of the file's name says; without one, or with .txt, the program's own.
enum class AlignFormat { automatic, html, json, npy, pharaoh, scores, svg, terminal, tsv };

/// Where alignments go, and how.
struct AlignOutput {
  AlignFormat format = AlignFormat::automatic;
  std::filesystem::path out;  // empty: standard output
  int width = 0;              // columns of a terminal's drawing; 0: those of the terminal
};

struct AlignedPair {
  std::string source, target;  // as text
  report::Heatmap map;         // without rows where a side is empty, or the model does not attend
  double log_probability = 0;
  std::vector<double> token_log_probabilities;  // of the target, its end last
};

/// The form to write. `own` is the program's. Throws where the end of a name says nothing.
AlignFormat format_of(const AlignOutput& output, AlignFormat own);

/// Writes them, or prints them. `title` is that of a page. Throws when SVG, which holds one
/// picture, is asked for several.
void write_alignments(std::span<const AlignedPair> pairs, AlignFormat format,
                      const AlignOutput& output, const std::string& title);

/// The option --format.
template <class Options>
models::OptionField<Options> align_format_field(AlignOutput Options::*output) {
  return models::choice_field<Options, AlignFormat>(
      "format",
      "pharaoh for links SOURCE-TARGET, from 0; tsv, json or npy (an array after the other) for "
      "weights; terminal, svg or html for drawings; scores for log-probabilities: source TAB "
      "target TAB sum TAB that of each token and of the end; auto: by the name of --out. One of",
      [output](auto& options) -> auto& { return (options.*output).format; },
      {{AlignFormat::automatic, "auto"},
       {AlignFormat::html, "html"},
       {AlignFormat::json, "json"},
       {AlignFormat::npy, "npy"},
       {AlignFormat::pharaoh, "pharaoh"},
       {AlignFormat::scores, "scores"},
       {AlignFormat::svg, "svg"},
       {AlignFormat::terminal, "terminal"},
       {AlignFormat::tsv, "tsv"}});
}

}  // namespace attune
