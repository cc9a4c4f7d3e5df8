// When each token of a transcript was heard.
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

#include "speech.hpp"
#include "support/frames.hpp"
#include "support/log.hpp"
#include "support/output.hpp"
#include "support/run_directory.hpp"

namespace attune::speech {
namespace {

/// The ends of the stretches with the largest sum of weights.
std::vector<Index> ends_with_most_weight(const Tensor& weights, Index tokens) {
  const Index places = weights.dim(1);
  const float* w = weights.data<float>();
  const auto at = [=](Index u, Index s) { return u * (places + 1) + s; };
  // The most weight of the first u tokens in the first s places; whether place s - 1 begins one.
  std::vector<double> best(at(tokens, places) + 1, -1);
  std::vector<char> begins(best.size(), 0);
  best[0] = 0;
  for (Index u = 1; u <= tokens; ++u) {
    for (Index s = u; s <= places; ++s) {
      const double before = best[at(u - 1, s - 1)], same = best[at(u, s - 1)];
      begins[at(u, s)] = s == u || before > same;
      best[at(u, s)] = std::max(before, same) + static_cast<double>(w[(u - 1) * places + s - 1]);
    }
  }
  std::vector<Index> ends(tokens);
  Index s = places;
  for (Index u = tokens; u > 0; --u) {
    ends[u - 1] = s;
    while (!begins[at(u, s)]) --s;
    --s;
  }
  return ends;
}

/// For each token the mean place, from 0 to S, of its weights within its own stretch.
std::vector<double> centres(const Tensor& weights, const std::vector<Index>& ends) {
  const float* w = weights.data<float>();
  std::vector<double> all;
  Index begin = 0;
  for (const Index end : ends) {
    double sum = 0, places = 0;
    for (Index s = begin; s < end; ++s) {
      sum += static_cast<double>(w[s]);
      places += static_cast<double>(w[s]) * (static_cast<double>(s) + 0.5);
    }
    all.push_back(sum > 0 ? places / sum : static_cast<double>(begin + end) / 2);
    begin = end;
    w += weights.dim(1);
  }
  return all;
}

}  // namespace

std::vector<std::pair<Index, Index>> stretches(const Tensor& weights, Index tokens) {
  const Index places = weights.dim(1);
  if (tokens > places)
    fail("align", fmt::format("{} tokens do not fit into {} annotations", tokens, places));
  if (tokens == 0) return {};
  const std::vector<double> c = centres(weights, ends_with_most_weight(weights, tokens));
  const double before = c.front(), after = static_cast<double>(places) - c.back();
  std::vector<std::pair<Index, Index>> all{{0, places}};
  for (Index u = 1; u < tokens; ++u) {
    const double cut = c[u - 1] + (c[u] - c[u - 1]) * after / (before + after);
    all.back().second =
        std::clamp<Index>(std::lround(cut), all.back().first + 1, places - (tokens - u));
    all.emplace_back(all.back().second, places);
  }
  return all;
}

std::vector<Timed> timed(const Model& model, const models::Hypothesis& h, double seconds) {
  if (!std::isfinite(h.log_probability)) fail("align", "the model's scores are not numbers");
  const auto places = stretches(h.weights, std::ssize(h.words));
  std::vector<Timed> all;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto [begin, end] = places[i];
    all.push_back({model.codec.vocabulary.token(h.words[i]), model.time(begin), model.time(end),
                   std::exp(h.word_log_probabilities[i])});
  }
  // The last annotation may stand for more frames than there are.
  if (!all.empty()) all.back().end = seconds;
  return all;
}

report::JsonText json_of(std::span<const Timed> tokens) {
  std::vector<report::LogValue> all;
  for (const auto& [token, begin, end, probability] : tokens)
    all.push_back(report::JsonText{report::log_line(
        {{"token", token}, {"begin", begin}, {"end", end}, {"probability", probability}})});
  return report::json_list(all);
}

std::vector<Timed> align(const Model& model, const Utterance& utterance) {
  const Tensor heard = model.hear(utterance.samples);
  const Batch batch{frames::make_batch(std::span(&heard, 1)), {utterance.tokens}};
  return timed(model, model.force(batch).front(), model.seconds(utterance.samples.size()));
}

namespace {

std::string tsv_of(const std::string& file, std::span<const Timed> tokens) {
  std::string text;
  for (const auto& [token, begin, end, probability] : tokens)
    text += fmt::format("{}\t{:.3f}\t{:.3f}\t{}\t{:.4f}\n", file, begin, end, token, probability);
  return text;
}

std::string line_of(const std::string& file, std::span<const Timed> tokens) {
  return report::log_line(
             {{"file", file}, {"seconds", tokens.back().end}, {"tokens", json_of(tokens)}}) +
         "\n";
}

/// Praat's long text format: one tier of intervals. In its strings, quotes are doubled.
std::string textgrid_of(std::span<const Timed> tokens) {
  std::string text = fmt::format(
      "File type = \"ooTextFile\"\nObject class = \"TextGrid\"\n\nxmin = 0\nxmax = {0}\n"
      "tiers? <exists>\nsize = 1\nitem []:\n    item [1]:\n        class = \"IntervalTier\"\n"
      "        name = \"tokens\"\n        xmin = 0\n        xmax = {0}\n"
      "        intervals: size = {1}\n",
      tokens.back().end, tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    std::string token = tokens[i].token;
    for (std::size_t at = 0; (at = token.find('"', at)) != token.npos; at += 2)
      token.insert(at, 1, '"');
    text += fmt::format(
        "        intervals [{}]:\n            xmin = {}\n            xmax = {}\n"
        "            text = \"{}\"\n",
        i + 1, tokens[i].begin, tokens[i].end, token);
  }
  return text;
}

std::vector<Timed> align(const Model& model, const Listed& listed) {
  const Utterance utterance = read_utterance(listed, model.codec, model.rate());
  if (std::ranges::count(utterance.tokens, text::Vocabulary::unknown) > 0)
    fail(listed.where, fmt::format("'{}' is not all in the model's vocabulary", listed.transcript));
  return reading(listed.where, [&] { return align(model, utterance); });
}

/// Each utterance in a file of its own.
void write_textgrids(const Model& model, const Arguments& options) {
  if (options.out.empty()) fail("--out", "a directory for the TextGrid files was expected");
  const std::vector<Listed> list = read_list(options.list);
  std::map<std::filesystem::path, const Listed*> files;
  for (const Listed& listed : list) {
    const auto file = options.out / listed.file.filename().replace_extension(".TextGrid");
    const auto [at, is_new] = files.emplace(file, &listed);
    if (!is_new)
      fail(listed.where,
           fmt::format("{} would be written for {}, too", file.string(), at->second->where));
  }
  make_directories(options.out);
  for (const auto& [file, listed] : files) write_file(file, textgrid_of(align(model, *listed)));
}

}  // namespace

int align(const Arguments& options) {
  const bool grids = options.format == AlignFormat::textgrid;
  if (!options.out.empty() && !grids) {
    std::vector<std::filesystem::path> inputs = {options.model, options.list};
    for (const Listed& listed : read_list(options.list)) inputs.push_back(listed.file);
    require_writable(options.out, inputs);
  }
  const Model model = Model::load(options.model);
  if (!model.options.attends)
    fail(options.model.string(), "it has no attention, which alignment needs");
  if (grids) {
    write_textgrids(model, options);
    return 0;
  }
  const bool tsv = options.format == AlignFormat::tsv;
  std::string text = tsv ? "file\tbegin\tend\ttoken\tprobability\n" : "";
  for (const Listed& listed : read_list(options.list))
    text += (tsv ? tsv_of : line_of)(listed.file.string(), align(model, listed));
  options.out.empty() ? say("{}", text) : write_file(options.out, text);
  return 0;
}

}  // namespace attune::speech
