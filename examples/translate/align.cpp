#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include <attune/models/forced.hpp>
#include <attune/models/report/alignment.hpp>
#include <attune/models/report/heatmap.hpp>
#include <attune/models/report/page.hpp>
#include <attune/models/text/corpus.hpp>
#include <attune/models/translate.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

#include "commands.hpp"
#include "line_lengths.hpp"
#include "model.hpp"
#include "support/progress.hpp"
#include "support/terminal.hpp"

namespace attune::translate {
namespace {

/// A pair as tokens, those of the source as they are written though the model may not know them.
struct Tokens {
  std::vector<std::string> source, target;
};

/// What the model writes, or what is given, with attention; nothing for a pair with an empty side.
std::vector<models::Hypothesis> hypotheses(const Model& model, std::span<const text::Pair> pairs,
                                           const AlignArguments& o) {
  std::vector<models::Hypothesis> all;
  if (o.target.empty()) {
    std::vector<text::Sentence> sources;
    for (const text::Pair& pair : pairs) sources.push_back(pair.source);
    for (auto& best : models::translate(model.network(), sources, {.how = o.search})) {
      all.push_back(std::move(best.front()));
    }
    return all;
  }
  for (const text::Pair& pair : pairs) {
    const bool whole = !pair.source.empty() && !pair.target.empty();
    all.push_back(whole ? std::move(models::force_decode(model.network(),
                                                         text::make_batch(std::span(&pair, 1)))
                                        .front())
                        : models::Hypothesis{});
  }
  return all;
}

/// One pair in every form but html.
std::string form(const AlignArguments& o, const Tokens& tokens, const models::Hypothesis& written) {
  const bool whole = !tokens.source.empty() && !tokens.target.empty();
  const report::Heatmap map =
      whole ? heatmap(tokens.source, tokens.target, written)
            : report::Heatmap{
                  .rows = tokens.target, .columns = tokens.source, .weights = {}, .caption = ""};
  constexpr auto type = DType::f32;  // what the model computes in
  switch (o.format) {
    case AlignFormat::pharaoh:
      return report::pharaoh(report::argmax_links(map)) + "\n";
    case AlignFormat::tsv:
      return report::tsv(map, type) + "\n";
    case AlignFormat::json:
      return report::json(map, type) + "\n";
    case AlignFormat::npy:
      return report::npy(map, type);
    default: {
      if (!whole) return "\n";
      const bool terminal = o.out.empty() && isatty(STDOUT_FILENO);
      return report::terminal(map, {.colour = terminal, .width = terminal_width()}) + "\n";
    }
  }
}

}  // namespace

int align(const AlignArguments& o) {
  const Model model = Model::load(o.model);
  if (!models::attends(models::seq2seq_options_from(model.metadata()))) {
    fail(o.model.string(), "the model has no attention");
  }
  const std::vector<std::string> source = text::read_lines(text::LineReader(o.source));
  const std::vector<std::string> target = o.target.empty()
                                              ? std::vector<std::string>(source.size())
                                              : text::read_lines(text::LineReader(o.target));
  if (source.size() != target.size()) {
    fail(o.target, fmt::format("{} lines, but {} has {}", target.size(), o.source, source.size()));
  }
  std::vector<text::Pair> pairs;
  for (std::size_t i = 0; i < source.size(); ++i) {
    pairs.push_back({model.source().encode(source[i]), model.target().encode(target[i])});
    check_lengths(pairs.back(), o.source, o.target, std::ssize(pairs));
  }
  const std::vector<models::Hypothesis> written = hypotheses(model, pairs, o);
  std::string output;
  report::Page page("Where the model looks");
  for (std::size_t i = 0; i < written.size(); ++i) {
    const Tokens tokens{model.source().tokenizer.encode(source[i]),
                        o.target.empty() ? tokens_of(model, written[i])
                                         : model.target().tokenizer.encode(target[i])};
    if (o.format != AlignFormat::html) {
      output += form(o, tokens, written[i]);
    } else if (!tokens.source.empty() && !tokens.target.empty()) {
      page.figure(report::svg(heatmap(tokens.source, tokens.target, written[i])),
                  source[i] + " → " + model.target().decode(written[i].words));
    }
  }
  if (o.format == AlignFormat::html) output = page.html();
  if (o.out.empty()) {  // what is drawn has colours
    fmt::print("{}", o.format == AlignFormat::terminal ? output : for_output(output));
  } else {
    write_file(o.out, output);
  }
  return 0;
}

}  // namespace attune::translate
