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

/// The indices of all mistakes, those with the highest probability first.
std::vector<std::size_t> mistakes_of(const Evaluation& result) {
  std::vector<std::size_t> wrong;
  for (std::size_t i = 0; i < result.written.size(); ++i)
    if (!result.written[i].right) wrong.push_back(i);
  std::ranges::stable_sort(wrong, std::ranges::greater(),
                           [&](std::size_t i) { return result.written[i].log_probability; });
  return wrong;
}

void print_mistakes(const TestPairs& pairs, const Evaluation& result) {
  constexpr std::size_t most = 10;
  std::vector<std::size_t> wrong = mistakes_of(result);
  if (wrong.empty()) return;
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

void print_result(const Measured& m, const UseOptions& o) {
  say("{}\n{}  ({} pairs, {:.1f} a second)\n", m.pairs.name, summary(m.result, m.sentences()),
      m.pairs.size(), m.pairs.size() / m.seconds);
  if (!m.sentences() && (o.bleu != BleuChoice::trained || !o.references.empty()))
    say("{}\n", summary(m.result, /*sentences=*/true));
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
  Json confusions = Json::array(), mistakes = Json::array(), by_length = Json::object();
  for (const auto& [length, some] : m.result.counts)
    by_length[std::to_string(length)] = json_of(some);
  for (const auto& [expected, written, times] : m.confusions(100))
    confusions.push_back({{"expected", expected}, {"written", written}, {"times", times}});
  for (const std::size_t i : mistakes_of(m.result))
    mistakes.push_back({{"log_probability", m.result.written[i].log_probability},
                        {"written", m.result.written[i].text},
                        {"expected", m.pairs.references[i].front()},
                        {"source", m.pairs.lines[i]}});
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
                         {"confusions", confusions},
                         {"mistakes", mistakes}}));
}

}  // namespace

int evaluate_pairs(const UseOptions& o) {
  const auto files = model_files(o.models);
  require_output(o, files);
  const Measured m(o, files);
  if (!o.out.empty() && is_first_worker())
    write_file(o.out, fmt::format("{}\n", fmt::join(m.result.lines(), "\n")));
  o.json ? print_json(m) : print_result(m, o);
  return 0;
}

// ---- compare

namespace {

std::string range_of(const metrics::LengthBucket& bucket) {
  if (bucket.longest == bucket.shortest) return std::to_string(bucket.shortest);
  return bucket.longest ? fmt::format("{}-{}", bucket.shortest, *bucket.longest)
                        : fmt::format("{}-", bucket.shortest);
}

/// The row of a model, with the change of its metric from the first model.
Json row_of(const std::string& name, const Measured& m, const Measured& first,
            std::span<const Index> lengths) {
  Json bleu = Json::object(), pairs = Json::object();
  for (const auto& bucket : m.by_length(lengths)) {
    bleu[range_of(bucket)] = bucket.sentences > 0 ? Json(bucket.bleu) : Json();
    pairs[range_of(bucket)] = bucket.sentences;
  }
  const bool is_first = &m == &first;
  const auto paired = m.change_from(first);
  return {{"model", name},
          {"parameters", m.first().parameters->count()},
          {"exact_match", m.result.exact_match()},
          {"token_error", m.result.token_error()},
          {"perplexity", m.result.perplexity()},
          {"bleu", m.result.bleu},
          {"metric", m.sentences() ? "BLEU" : "exact match, %"},
          {"change", is_first ? Json() : Json(paired.difference)},
          {"p", is_first ? Json() : Json(paired.p_value)},
          {"by_length", bleu},
          {"pairs_by_length", pairs}};
}

void print_table(const std::vector<Json>& all) {
  TableRows rows = {{"model", "parameters", "exact match, %", "token error, %", "perplexity",
                     "BLEU", "change", "p"},
                    {"pairs", "", "", "", "", "", "", ""}};
  const auto number = [](const Json& value, double unit, const char* format = "{:.2f}") {
    return value.is_null() ? "" : fmt::format(fmt::runtime(format), unit * value.get<double>());
  };
  for (const auto& [range, pairs] : all.front().at("pairs_by_length").items())
    rows[0].push_back(range), rows[1].push_back(pairs.dump());
  for (const Json& m : all) {
    auto& texts = rows.emplace_back(std::vector<std::string>{
        m.at("model"), m.at("parameters").dump(), number(m.at("exact_match"), 100),
        number(m.at("token_error"), 100), number(m.at("perplexity"), 1), number(m.at("bleu"), 1),
        number(m.at("change"), 1, "{:+.2f}"), number(m.at("p"), 1, "{:.3f}")});
    for (const Json& bleu : m.at("by_length"))
      texts.push_back(bleu.is_null() ? "-" : number(bleu, 1));
  }
  print_rows(rows);
  say("change and p: of {}, from the first model. The last columns are BLEU by source length in "
      "words.\n",
      all.front().at("metric").get<std::string>());
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
      fail(file.string(), "its pairs differ from those of {}, expected the same", names[0]);
    if (all.back().bleu != all.front().bleu)
      fail("--bleu", "{} and {} were trained with different ones, expected 13a or none", names[0],
           names[all.size() - 1]);
  }
  std::vector<Json> rows;
  for (std::size_t i = 0; i < names.size(); ++i)
    rows.push_back(row_of(names[i], all[i], all.front(), o.lengths));
  if (!o.json) return print_table(rows), 0;
  for (const Json& row : rows) say("{}\n", json_line(row));
  return 0;
}

}  // namespace attune::pairs
