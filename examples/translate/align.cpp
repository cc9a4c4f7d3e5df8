#include <algorithm>

#include <fmt/format.h>

#include <attune/models/forced.hpp>
#include <attune/models/report/heatmap.hpp>
#include <attune/models/text/corpus.hpp>
#include <attune/models/text/token_words.hpp>
#include <attune/models/translate.hpp>
#include <attune/tensor/check.hpp>

#include "commands.hpp"
#include "line_lengths.hpp"
#include "model.hpp"

namespace attune::translate {
namespace {

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

/// A map whose rows and columns are words instead of their tokens: a word of the source has the sum
/// of its tokens' weights, one of the target the mean of its tokens' rows. Tokens without letters
/// have none.
report::Heatmap by_words(const report::Heatmap& map, const std::string& source,
                         const std::string& target) {
  const std::vector<std::string> columns = text::Tokenizer().encode(source),
                                 rows = text::Tokenizer().encode(target);
  const std::vector<int> column_of = text::words_of_tokens(source, map.columns),
                         row_of = text::words_of_tokens(target, map.rows);
  std::vector<double> weights(rows.size() * columns.size());
  for (std::size_t t = 0; t < row_of.size(); ++t) {
    if (row_of[t] < 0) continue;
    const double share = 1.0 / static_cast<double>(std::ranges::count(row_of, row_of[t]));
    for (std::size_t s = 0; s < column_of.size(); ++s) {
      if (column_of[s] < 0) continue;
      weights[static_cast<std::size_t>(row_of[t]) * columns.size() +
              static_cast<std::size_t>(column_of[s])] +=
          share * map.weights[t * column_of.size() + s];
    }
  }
  return {.rows = rows, .columns = columns, .weights = weights, .caption = ""};
}

AlignedPair aligned(const Model& model, const AlignArguments& o, const std::string& source,
                    const std::string& target, const models::Hypothesis& written) {
  AlignedPair pair{.source = source,
                   .target = o.target.empty() ? model.target().decode(written.words) : target,
                   .map = {},
                   .log_probability = written.log_probability,
                   .token_log_probabilities = written.word_log_probabilities};
  const std::vector<std::string> from = model.source().tokenizer.encode(source),
                                 to = o.target.empty() ? tokens_of(model, written)
                                                       : model.target().tokenizer.encode(target);
  if (from.empty() || to.empty() || !written.weights.defined()) return pair;
  pair.map = heatmap(from, to, written);
  if (o.units == AlignUnits::words) pair.map = by_words(pair.map, pair.source, pair.target);
  return pair;
}

}  // namespace

int align(const AlignArguments& o) {
  if (!o.output.out.empty()) require_writable(o.output.out, {o.model, o.source, o.target});
  const Model model = Model::load(o.model);
  const AlignFormat format = format_of(o.output, AlignFormat::terminal);
  if (format != AlignFormat::scores &&
      !models::attends(models::seq2seq_options_from(model.metadata()))) {
    fail(o.model.string(), "the model has no attention: --format scores was expected");
  }
  const std::vector<std::string> source = text::read_lines(text::LineReader(o.source));
  const std::vector<std::string> target = o.target.empty()
                                              ? std::vector<std::string>(source.size())
                                              : text::read_lines(text::LineReader(o.target));
  if (source.size() != target.size()) {
    fail(o.target, fmt::format("{} lines, but {} has {}", target.size(), o.source, source.size()));
  }
  const Index longest = longest_read(std::span(&model, 1), longest_of_pair);
  std::vector<text::Pair> pairs;
  for (std::size_t i = 0; i < source.size(); ++i) {
    pairs.push_back({model.source().encode(source[i]), model.target().encode(target[i])});
    check_lengths(pairs.back(), o.source, o.target, std::ssize(pairs), longest);
    if (source[i].find('\t') != std::string::npos)
      fail(fmt::format("{}:{}", o.source, i + 1), "a TAB, expected a source alone");
  }
  const std::vector<models::Hypothesis> written = hypotheses(model, pairs, o);
  std::vector<AlignedPair> aligned_pairs;
  for (std::size_t i = 0; i < written.size(); ++i)
    aligned_pairs.push_back(aligned(model, o, source[i], target[i], written[i]));
  write_alignments(aligned_pairs, format, o.output, "Where the model looks");
  return 0;
}

}  // namespace attune::translate
