// `attune evaluate` and `attune compare`.
#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include <attune/tensor/file.hpp>

#include "commands.hpp"
#include "evaluation.hpp"
#include "output.hpp"
#include "run_directory.hpp"

namespace attune::pairs {
namespace {

using report::json_line, report::Json;

/// Prints the ten mistakes with the highest probability.
void print_mistakes(const TestPairs& pairs, const Evaluation& result) {
  constexpr std::size_t most = 10;
  std::vector<std::size_t> wrong;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    if (!result.written[i].right) wrong.push_back(i);
  if (wrong.empty()) return;
  std::ranges::stable_sort(wrong, std::ranges::greater(),
                           [&](std::size_t i) { return result.written[i].log_probability; });
  say("\n{} mistake{}{}\n", wrong.size(), wrong.size() == 1 ? "" : "s",
      wrong.size() > most ? fmt::format("; the {} with the highest probability", most) : "");
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
      m.pairs.size(), m.pairs.size() / m.seconds);
  if (m.sentences()) return;
  say("\n");
  TableRows rows = rows_by_length(m.result.counts);
  rows.push_back(row_of("all", m.result.total()));
  print_rows(rows);
  TableRows confusions = {{"expected", "written", "times"}};
  for (const auto& [expected, written, times] : m.confusions(10))
    confusions.push_back({printable(expected), printable(written), std::to_string(times)});
  if (confusions.size() > 1) say("\n"), print_rows(confusions, 2);
  print_mistakes(m.pairs, m.result);
}

void print_json(const Measured& m) {
  const Counts all = m.result.total();
  Json confusions = Json::array(), by_length = Json::object();
  for (const auto& [length, some] : m.result.counts)
    by_length[std::to_string(length)] = json_of(some);
  for (const auto& [expected, written, times] : m.confusions(100))
    confusions.push_back({{"expected", expected}, {"written", written}, {"times", times}});
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
  require_output(o, files);
  const Measured m(o, files);
  if (!o.out.empty() && is_first_worker())
    write_file(o.out, fmt::format("{}\n", fmt::join(m.result.lines(), "\n")));
  o.json ? print_json(m) : print_result(m);
  return 0;
}

// ---- compare

namespace {

std::string range_of(const metrics::LengthBucket& bucket) {
  if (bucket.longest == bucket.shortest) return std::to_string(bucket.shortest);
  return bucket.longest ? fmt::format("{}-{}", bucket.shortest, *bucket.longest)
                        : fmt::format("{}-", bucket.shortest);
}

void print_table(std::span<const std::string> names, std::span<const Measured> all,
                 std::span<const Index> lengths) {
  TableRows rows = {{"model", "parameters", "exact match, %", "token error, %", "perplexity",
                     "BLEU", "change", "p"},
                    {"pairs", "", "", "", "", "", "", ""}};
  for (const auto& bucket : all.front().by_length(lengths)) {
    rows[0].push_back(range_of(bucket));
    rows[1].push_back(std::to_string(bucket.sentences));
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Measured& m = all[i];
    auto& texts = rows.emplace_back(
        std::vector{names[i], std::to_string(m.first().parameters->count()),
                    fmt::format("{:.2f}", 100 * m.result.exact_match()),
                    fmt::format("{:.2f}", 100 * m.result.token_error()),
                    fmt::format("{:.2f}", m.result.perplexity()),
                    fmt::format("{:.2f}", m.result.bleu), std::string(), std::string()});
    if (i > 0) {
      const auto paired = metrics::paired_bootstrap(m.statistics(), all.front().statistics());
      texts[6] = fmt::format("{:+.2f}", paired.difference);
      texts[7] = fmt::format("{:.3f}", paired.p_value);
    }
    for (const auto& bucket : m.by_length(lengths))
      texts.push_back(bucket.sentences > 0 ? fmt::format("{:.2f}", bucket.bleu) : "-");
  }
  print_rows(rows);
  say("The last columns are BLEU by source length in words.\n");
}

void print_json(const std::string& name, const Measured& m, std::span<const Index> lengths) {
  Json by_length = Json::object();
  for (const auto& bucket : m.by_length(lengths))
    by_length[range_of(bucket)] = bucket.sentences > 0 ? bucket.bleu : std::nan("");
  say("{}\n", json_line({{"model", name},
                         {"parameters", m.first().parameters->count()},
                         {"exact_match", m.result.exact_match()},
                         {"token_error", m.result.token_error()},
                         {"perplexity", m.result.perplexity()},
                         {"bleu", m.result.bleu},
                         {"by_length", by_length}}));
}

}  // namespace

int compare(const UseOptions& o) {
  const auto files = model_files(o.models);
  if (std::ranges::adjacent_find(o.lengths, std::greater_equal()) != o.lengths.end())
    fail("--lengths", "expected ascending lengths");
  const std::vector<std::string> names = run_names(files);
  if (files.size() > 1)
    for (const std::filesystem::path& path : {o.file, o.target}) require_regular(path);
  std::vector<Measured> all;
  for (const std::filesystem::path& file : files) {
    all.emplace_back(o, std::vector{file});
    if (all.back().pairs.fingerprint().text() != all.front().pairs.fingerprint().text())
      fail(file.string(),
           fmt::format("its pairs differ from those of {}, expected the same", names[0]));
    if (all.back().bleu != all.front().bleu)
      fail("--bleu", fmt::format("{} and {} were trained with different ones, expected 13a or none",
                                 names[0], names[all.size() - 1]));
  }
  if (!o.json) return print_table(names, all, o.lengths), 0;
  for (std::size_t i = 0; i < names.size(); ++i) print_json(names[i], all[i], o.lengths);
  return 0;
}

}  // namespace attune::pairs
