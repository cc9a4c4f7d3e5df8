// `attune align` and `attune score`.
#include <algorithm>
#include <cctype>
#include <fstream>
#include <iostream>
#include <limits>

#include <fmt/ranges.h>

#include <attune/tensor/file.hpp>
#include <attune/tensor/platform.hpp>

#include "commands.hpp"
#include "evaluation.hpp"
#include "letters.hpp"
#include "output.hpp"
#include "report.hpp"

namespace attune::pairs {
namespace {

struct AlignedPair {
  std::string source, target;
  report::Heatmap map;  // has no rows if a side is empty or the model has no attention
  models::Hypothesis written;
};

/// A target token that is not in the vocabulary is scored as <unk>: a warning for sentences, an
/// error for other data, where each token is one letter or phone.
void check_tokens(const Model& model, const TestPairs& pairs, const UseOptions& o) {
  UnknownTokens source, target;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    source.add(model.source(), model.source().tokenizer.encode(pairs.lines[i]));
    const auto tokens = model.target().tokenizer.encode(pairs.references[i].front());
    target.add(model.target(), tokens);
    for (const std::string& token : tokens) {
      if (!model.of_sentences() && model.target().vocabulary.id(token) == text::Vocabulary::unknown)
        fail(
            fmt::format("{}:{}", (o.target.empty() ? o.file : o.target).string(), pairs.numbers[i]),
            in_quotes(text::escaped(token)) + " is not in the target vocabulary");
    }
  }
  source.warn(pairs.name, "source"), target.warn(pairs.name, "target");
}

/// Converts a map of tokens to words: sums the weights over the tokens of a source word, and
/// averages the rows of a target word. Drops tokens without letters.
report::Heatmap by_words(const report::Heatmap& map, const std::string& source,
                         const std::string& target) {
  const std::vector<std::string> columns = text::Tokenizer().encode(source),
                                 rows = text::Tokenizer().encode(target);
  const std::vector<int> column_of = text::words_of_tokens(source, map.columns),
                         row_of = text::words_of_tokens(target, map.rows);
  std::vector<double> weights(rows.size() * columns.size());
  for (std::size_t t = 0; t < row_of.size(); ++t) {
    if (row_of[t] < 0) continue;
    const double share = 1.0 / std::ranges::count(row_of, row_of[t]);
    for (std::size_t s = 0; s < column_of.size(); ++s)
      if (column_of[s] >= 0)
        weights[row_of[t] * columns.size() + column_of[s]] +=
            share * map.weights[t * column_of.size() + s];
  }
  return {.rows = rows, .columns = columns, .weights = weights, .caption = ""};
}

/// The heat map of a pair. With --units words or --gold, subwords are joined to words.
report::Heatmap map_of(const Model& model, const UseOptions& o, const AlignedPair& pair,
                       const std::string& place, bool forced) {
  std::vector<std::string> from = model.source().tokenizer.encode(pair.source),
                           to = forced ? model.target().tokenizer.encode(pair.target)
                                       : tokens_of(model, pair.written);
  report::Heatmap map = heatmap(std::move(from), std::move(to), pair.written);
  const bool joins = !o.gold.empty() || o.units == AlignUnits::words ||
                     (o.units == AlignUnits::automatic && model.of_sentences());
  if (map.rows.empty() || !joins) return map;
  const std::string& unknown = model.target().vocabulary.token(text::Vocabulary::unknown);
  std::ranges::replace(map.rows, unknown, model.target().tokenizer.decode({&unknown, 1}));  // to ⁇
  try {
    return by_words(map, pair.source, pair.target);
  } catch (const Error&) {
    fail(place, "its tokens do not form the words between its blanks, expected --units tokens");
  }
}

/// Pairs of the file's sources and predicted targets.
std::vector<AlignedPair> written_by(Models models, const UseOptions& o) {
  const Model& model = models.front();
  const Index longest = longest_read(models, longest_of_pair);
  std::vector<AlignedPair> all;
  std::vector<text::Sentence> sources;
  UnknownTokens unknown;
  std::istringstream text(o.text.value_or(""));
  text::LineReader reader =
      o.text ? text::LineReader(text, o.file.string()) : text::LineReader(o.file);
  while (const auto line = reader.next()) {
    const std::string place = fmt::format("{}:{}", reader.name(), reader.number());
    all.push_back({source_of(*line, model, longest, place), "", {}, {}});
    const auto tokens = model.source().tokenizer.encode(all.back().source);
    unknown.add(model.source(), tokens);
    sources.push_back(model.source().encode(tokens));
  }
  unknown.warn(o.file.string(), "source");
  auto written = models::translate(network_of(models), sources, {.how = search_for(models, o)});
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].written = std::move(written[i].front());
    all[i].target = model.target().decode(all[i].written.words);
    all[i].map = map_of(model, o, all[i], fmt::format("{}:{}", o.file.string(), i + 1), false);
  }
  return all;
}

std::vector<AlignedPair> forced_by(Models models, const UseOptions& o) {
  const models::Model network = network_of(models);
  const TestPairs pairs = pairs_for(o, models, Sides::optional);
  check_tokens(models.front(), pairs, o);
  std::vector<AlignedPair> all;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    all.push_back({pairs.lines[i], pairs.references[i].front(), {}, {}});
    const text::Pair pair{pairs.sources[i], pairs.targets[i]};
    if (pair.source.empty() || pair.target.empty()) continue;
    all.back().written =
        std::move(models::force_decode(network, text::make_batch(std::span(&pair, 1)),
                                       {.output_tokens = o.search.output_tokens})
                      .front());
    const std::string place = fmt::format("{}:{}", o.file.string(), pairs.numbers[i]);
    all.back().map = map_of(models.front(), o, all.back(), place, true);
  }
  return all;
}

/// Links each target token to the source token with the largest weight (Luong et al., 2015, section
/// 5.4), the first one among equals. A row of zeros gives no link.
text::Alignment links_of(const report::Heatmap& map) {
  text::Alignment links;
  for (int i = 0; const auto& row : rows_of(map)) {
    const auto largest = std::ranges::max_element(row);
    if (*largest > 0) links.push_back({static_cast<int>(largest - row.begin()), i});
    ++i;
  }
  std::ranges::sort(links);
  return links;
}

std::string caption(const AlignedPair& pair) {
  return fmt::format("{} → {}, log-probability {:.4f}", isolated(pair.source),
                     isolated(pair.target), pair.written.log_probability);
}

/// One pair in every format except html and svg, without '\n' at the end.
std::string form(const AlignedPair& pair, AlignFormat format, const report::TerminalOptions& how) {
  const report::Heatmap& map = pair.map;
  if (format == AlignFormat::json) {
    report::Json fields{{"source", map.columns}, {"target", map.rows}, {"weights", rows_of(map)}};
    if (!map.rows.empty()) fields["log_probability"] = pair.written.log_probability;
    return report::json_line(fields);
  }
  if (format == AlignFormat::terminal)
    return map.rows.empty() ? "" : caption(pair) + "\n" + report::terminal(map, how);
  std::vector<std::string> links;  // SOURCE-TARGET from 0, the format of text::parse_links
  for (const auto& [source, target] : links_of(map))
    links.push_back(fmt::format("{}-{}", source, target));
  return fmt::format("{}", fmt::join(links, " "));
}

/// The output format. Throws for an unknown file extension.
AlignFormat format_of(const UseOptions& o) {
  if (o.align_format != AlignFormat::automatic) return o.align_format;
  const std::string ending = text::folded_case(o.out.extension().string());
  if (ending.empty() || ending == ".txt") return AlignFormat::terminal;
  for (const auto& [name, format] : {std::pair{".html", AlignFormat::html},
                                     {".json", AlignFormat::json},
                                     {".pharaoh", AlignFormat::pharaoh},
                                     {".svg", AlignFormat::svg}})
    if (ending == name) return format;
  fail("--out",
       "unknown extension '{}', expected .html, .json, .pharaoh, .svg or .txt, or --format",
       ending);
}

void write(const std::vector<AlignedPair>& pairs, AlignFormat format, const UseOptions& o) {
  const bool prints = o.out.empty();
  const report::TerminalOptions how{
      .colour = prints && obeys_escapes(),
      .width = prints ? drawing_width() : std::numeric_limits<int>::max()};
  std::string text;
  if (format == AlignFormat::html || format == AlignFormat::svg) {
    std::vector<report::Heatmap> maps;
    for (const AlignedPair& pair : pairs) {
      if (pair.map.rows.empty()) continue;
      maps.push_back(pair.map);
      maps.back().caption = caption(pair);
    }
    text = drawings(maps, format == AlignFormat::html);
  } else {
    for (const AlignedPair& pair : pairs) text += form(pair, format, how) + "\n";
  }
  if (!o.out.empty()) return write_file(o.out, text);
  put(format == AlignFormat::terminal ? text : for_output(text));  // keeps colours of drawings
}

/// Och and Ney (2003): see metrics::alignment_error_rate.
void say_error_rate(const std::vector<AlignedPair>& pairs, const UseOptions& o) {
  std::vector<text::PairLengths> lengths;
  std::vector<text::Alignment> found;
  for (const AlignedPair& pair : pairs) {
    lengths.push_back(words_of(pair.source, pair.target));
    found.push_back(links_of(pair.map));
  }
  const auto score =
      metrics::alignment_error_rate(found, text::read_gold_alignments(o.gold, lengths));
  say("alignment error rate {:.4f}, precision {:.4f}, recall {:.4f}  ({} pairs)\n",
      score.error_rate(), score.precision(), score.recall(), pairs.size());
}

}  // namespace

bool predicts_targets(const UseOptions& o) {
  if (!o.target.empty()) return false;
  std::istringstream text(o.text.value_or(""));
  if (!o.text && !std::filesystem::is_regular_file(o.file)) return true;  // is read later
  text::LineReader reader =
      o.text ? text::LineReader(text, o.file.string()) : text::LineReader(o.file);
  for (auto line = reader.next(); line; line = reader.next())
    if (!line->empty()) return line->find('\t') == line->npos;
  return true;
}

/// Reads PAIRS that is no regular file: standard input (-, or none), a pipe, or a sentence, whose
/// target may be TARGETS. A missing file is no sentence if its name has no blank, and an extension.
static void read_text(UseOptions& o, const Model& model) {
  const std::string name = o.file.string(), ending = o.file.extension().string();
  const bool is_input = name.empty() || name == "-";
  if (name.empty() && platform::is_terminal(platform::Stream::input))
    fail("PAIRS", "missing, expected a sentence, a file or standard input");
  if (is_input || (exists(o.file) && !is_regular_file(o.file) && !is_directory(o.file))) {
    std::ifstream pipe(o.file);
    o.text.emplace(std::istreambuf_iterator<char>((is_input ? std::cin : pipe).rdbuf()),
                   std::istreambuf_iterator<char>());
    if (is_input) o.file = "standard input";
  } else if (!exists(o.file) && (o.target.empty() || !exists(o.target)) &&
             (name.find(' ') != name.npos || ending.size() < 2 || !std::isalpha(ending[1]))) {
    const bool swaps = files_for(model, o).columns == text::Columns::target_first;
    const std::string target = std::exchange(o.target, "").string();
    o.text = target.empty() ? name : swaps ? target + "\t" + name : name + "\t" + target;
  }
}

int align(const UseOptions& given) {
  UseOptions o = given;
  const auto files = model_files(o.models);
  require_output(o, files);
  const std::vector<Model> models = load_models(files);
  const AlignFormat format = format_of(o);
  if (std::ranges::none_of(models, &Model::attends))
    fail(files.front().string(), "the model has no attention");
  read_text(o, models.front());
  const bool predicts = predicts_targets(o);
  if (predicts && !o.gold.empty())
    fail(o.file.string(), "has no targets, expected pairs for --gold");
  const auto pairs = predicts ? written_by(models, o) : forced_by(models, o);
  o.gold.empty() ? write(pairs, format, o) : say_error_rate(pairs, o);
  return 0;
}

// ---- score

static void print_scores(const models::Model& network, std::span<const text::TextPair> lines,
                         std::span<const text::Pair> pairs, const UseOptions& o) {
  if (pairs.empty()) return;
  const auto scores =
      models::force_decode(network, text::make_batch(pairs),
                           {.weights = false, .output_tokens = o.search.output_tokens});
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const models::Hypothesis& h = scores[i];
    const auto& [source, target] = lines[i];
    put(for_output(o.json ? report::json_line({{"source", source},
                                               {"target", target},
                                               {"log_probability", h.log_probability},
                                               {"tokens", h.word_log_probabilities}})
                          : fmt::format("{}\t{}\t{:.4f}", source, target, h.log_probability)) +
        "\n");
  }
}

int score(const UseOptions& o) {
  constexpr std::size_t most_tokens = 2048;  // per side of a batch, with padding
  if (o.file.empty()) fail("PAIRS", "missing, expected a file of pairs");
  const std::vector<Model> models = load_models(model_files(o.models));
  const models::Model network = network_of(models);
  PairReader reader(files_for(models.front(), o), "reading");
  const Index longest = longest_read(models, longest_of_pair);
  std::vector<text::TextPair> lines;
  std::vector<text::Pair> pairs;
  std::size_t width = 0;
  const auto& [source, target] = models.front().codecs;
  UnknownTokens unknown_source, unknown_target;
  const auto print = [&] {
    print_scores(network, lines, pairs, o);
    lines.clear(), pairs.clear(), width = 0;
  };
  while (const auto line = reader.next()) {
    const auto from = source.tokenizer.encode(line->source),
               to = target.tokenizer.encode(line->target);
    unknown_source.add(source, from), unknown_target.add(target, to);
    text::Pair pair{source.encode(from), target.encode(to)};
    check_lengths(pair.source, pair.target, reader, longest);
    const std::size_t size = std::max(pair.source.size(), pair.target.size() + 1);
    if (pair.source.empty() || std::max(width, size) * (lines.size() + 1) > most_tokens) print();
    if (pair.source.empty()) {
      say("{}\n", o.json ? "{}" : "");
      continue;
    }
    width = std::max(width, size);
    lines.push_back(*line), pairs.push_back(std::move(pair));
  }
  print();
  unknown_source.warn(o.file.string(), "source");
  unknown_target.warn((o.target.empty() ? o.file : o.target).string(), "target");
  return 0;
}

}  // namespace attune::pairs
