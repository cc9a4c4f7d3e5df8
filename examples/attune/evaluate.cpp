// `attune evaluate` and `attune compare`.
#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/models/metrics.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

#include "commands.hpp"
#include "evaluation.hpp"
#include "log.hpp"
#include "output.hpp"
#include "run_directory.hpp"

namespace attune::pairs {
namespace {

using report::json_line, report::Json;

/// BLEU TAB chrF TAB prediction, a line for each pair.
std::string scores_of(std::span<const std::string> lines, const Measured& m) {
  std::string scores;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto references = std::span(m.pairs.references).subspan(i, 1);
    scores += fmt::format("{:.2f}\t{:.2f}\t{}\n",
                          metrics::sentence_bleu(lines[i], references.front(), m.bleu).bleu,
                          metrics::corpus_chrf(lines.subspan(i, 1), references), lines[i]);
  }
  return scores;
}

/// The ten mistakes that the model was surest of.
void print_mistakes(const TestPairs& pairs, const Evaluation& result) {
  constexpr std::size_t most = 10;
  std::vector<std::size_t> wrong;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    if (!result.written[i].right) wrong.push_back(i);
  if (wrong.empty()) return;
  std::ranges::stable_sort(wrong, std::ranges::greater(),
                           [&](std::size_t i) { return result.written[i].log_probability; });
  say("\n{} mistake{}{}\n", wrong.size(), wrong.size() == 1 ? "" : "s",
      wrong.size() > most ? fmt::format("; the {} with the greatest probability", most) : "");
  wrong.resize(std::min(wrong.size(), most));
  TableRows rows = {{"probability", "written", "expected", "source"}};
  for (const std::size_t i : wrong) {
    rows.push_back({fmt::format("{:.4g}", std::exp(result.written[i].log_probability)),
                    printable(result.written[i].text), printable(pairs.references[i].front()),
                    printable(pairs.lines[i])});
  }
  print_rows(rows, 4);
}

Json json_of(const Counts& c) {
  return {{"pairs", c.examples},
          {"right", c.right},
          {"tokens", c.edits.expected},
          {"token_error", c.edits.rate()},
          {"substitutions", c.edits.substitutions},
          {"deletions", c.edits.deletions},
          {"insertions", c.edits.insertions}};
}

void print_result(const Measured& m) {
  say("{}\n{}  ({} pairs, {:.1f} a second)\n", m.pairs.name, summary(m.result, m.sentences()),
      m.pairs.size(), static_cast<double>(m.pairs.size()) / m.seconds);
  if (m.sentences()) return;
  say("\n");
  TableRows rows = rows_by_length(m.result.counts);
  rows.insert(rows.begin(), {"tokens", "pairs", "exact match, %", "token error, %", "substitutions",
                             "deletions", "insertions"});
  rows.push_back(row_of("all", m.result.total()));
  print_rows(rows);
  TableRows confusions = most_frequent(m.result.confusions, m.first().target().vocabulary, 10);
  for (auto& row : confusions) row = {printable(row[0]), printable(row[1]), row[2]};
  if (!confusions.empty()) {
    say("\n");
    confusions.insert(confusions.begin(), {"expected", "written", "times"});
    print_rows(confusions, 2);
  }
  print_mistakes(m.pairs, m.result);
}

void print_json(const Measured& m) {
  const Counts all = m.result.total();
  Json confusions = Json::array(), by_length = Json::object();
  for (const auto& [length, some] : m.result.counts)
    by_length[std::to_string(length)] = json_of(some);
  for (const auto& row : most_frequent(m.result.confusions, m.first().target().vocabulary, 100))
    confusions.push_back({{"expected", row[0]}, {"written", row[1]}, {"times", std::stol(row[2])}});
  say("{}\n", json_line({{"data", m.pairs.name},
                         {"models", std::ssize(m.models)},
                         {"pairs", std::ssize(m.pairs.lines)},
                         {"exact_match", all.share_right()},
                         {"word_error", 1 - all.share_right()},
                         {"token_error", all.edits.rate()},
                         {"bleu", m.result.bleu},
                         {"chrf", m.result.chrf},
                         {"perplexity", m.result.perplexity()},
                         {"seconds", m.seconds},
                         {"all", json_of(all)},
                         {"by_length", by_length},
                         {"confusions", confusions}}));
}

}  // namespace

int evaluate_pairs(const UseOptions& o) {
  const auto files = model_files(o.models);
  using std::filesystem::weakly_canonical;
  require_outputs(o, files, {o.out, o.sentences});
  if (!o.out.empty() && weakly_canonical(o.out) == weakly_canonical(o.sentences))
    fail("--sentences", o.out.string() + " is written by --out: another file was expected");
  const Measured m(o, files);
  if (m.result.cut() > 0) {
    complain("warning: {} of {} predictions are cut at --max-length {}\n", m.result.cut(),
             m.pairs.size(), m.search.max_length);
  }
  const std::vector<std::string> lines = m.result.lines();
  if (!o.out.empty()) write_file(o.out, fmt::format("{}\n", fmt::join(lines, "\n")));
  if (!o.sentences.empty()) write_file(o.sentences, scores_of(lines, m));
  o.json ? print_json(m) : print_result(m);
  return 0;
}

// ---- compare

namespace {

struct Row {
  std::string name;
  Index parameters = 0;
  Evaluation result;
  std::vector<metrics::BleuStatistics> statistics;  // of each pair
  std::vector<metrics::LengthBucket> by_length;
  metrics::BleuOptions bleu;
  std::string pairs;  // which they were
};

Row row_of(const std::filesystem::path& path, const std::string& name, const UseOptions& o) {
  const Measured m(o, {path});
  return {name,   m.first().parameters().count(), m.result, m.statistics(), m.by_length(o.lengths),
          m.bleu, m.pairs.fingerprint().text()};
}

std::string range_of(const metrics::LengthBucket& bucket) {
  if (bucket.longest == bucket.shortest) return std::to_string(bucket.shortest);
  return bucket.longest ? fmt::format("{}-{}", bucket.shortest, *bucket.longest)
                        : fmt::format("{}-", bucket.shortest);
}

void print_table(const std::vector<Row>& models) {
  const Row& first = models.front();
  TableRows rows = {{"model", "parameters", "exact match, %", "token error, %", "perplexity",
                     "BLEU", "change", "p"},
                    {"pairs", "", "", "", "", "", "", ""}};
  for (const auto& bucket : first.by_length) {
    rows[0].push_back(range_of(bucket));
    rows[1].push_back(std::to_string(bucket.sentences));
  }
  for (const Row& row : models) {
    auto& texts = rows.emplace_back(
        std::vector{row.name, std::to_string(row.parameters),
                    fmt::format("{:.2f}", 100 * row.result.exact_match()),
                    fmt::format("{:.2f}", 100 * row.result.token_error()),
                    fmt::format("{:.2f}", row.result.perplexity()),
                    fmt::format("{:.2f}", row.result.bleu), std::string(), std::string()});
    if (&row != &first) {
      const auto paired =
          metrics::paired_bootstrap(row.statistics, first.statistics, {}, first.bleu);
      texts[6] = fmt::format("{:+.2f}", paired.difference);
      texts[7] = fmt::format("{:.3f}", paired.p_value);
    }
    for (const auto& bucket : row.by_length)
      texts.push_back(bucket.sentences > 0 ? fmt::format("{:.2f}", bucket.score.bleu) : "-");
  }
  print_rows(rows);
  say("The last columns are BLEU by the number of words of the source.\n");
}

void print_row_json(const Row& row) {
  Json by_length = Json::object();
  for (const auto& bucket : row.by_length)
    by_length[range_of(bucket)] = bucket.sentences > 0 ? bucket.score.bleu : std::nan("");
  say("{}\n", json_line({{"model", row.name},
                         {"parameters", row.parameters},
                         {"exact_match", row.result.exact_match()},
                         {"token_error", row.result.token_error()},
                         {"perplexity", row.result.perplexity()},
                         {"bleu", row.result.bleu},
                         {"by_length", by_length}}));
}

}  // namespace

int compare(const UseOptions& o) {
  std::vector<Row> rows;
  const auto files = model_files(o.models);
  const std::vector<std::string> names = run_names(files);
  if (files.size() > 1)
    for (const std::filesystem::path& path : {o.file, o.target}) require_regular(path);
  for (std::size_t i = 0; i < names.size(); ++i) {
    rows.push_back(row_of(files[i], names[i], o));
    if (rows[i].pairs != rows[0].pairs)
      fail(files[i].string(),
           fmt::format("its pairs are not those of {}, expected the same", names[0]));
  }
  if (o.json)
    std::ranges::for_each(rows, print_row_json);
  else
    print_table(rows);
  return 0;
}

}  // namespace attune::pairs
