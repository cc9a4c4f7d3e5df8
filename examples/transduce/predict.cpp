#include <cmath>

#include <fmt/format.h>

#include <attune/tensor/printable.hpp>

#include "commands.hpp"
#include "support/terminal.hpp"

namespace attune::transduce {
namespace {

nlohmann::ordered_json json_of(const text::Codec& target, const std::string& source,
                               const models::Translation& written, const report::Heatmap& map) {
  nlohmann::ordered_json best = nlohmann::ordered_json::array();
  for (const models::Hypothesis& h : written)
    best.push_back(
        {{"target", target.decode(h.words)}, {"probability", std::exp(h.log_probability)}});
  nlohmann::ordered_json json = {{"source", source}, {"best", best}};
  add_attention(json, map);
  return json;
}

}  // namespace

int predict(const PredictArguments& options) {
  const std::vector<Model> models = load_models(options.models);
  const Model& first = models.front();
  const auto answer = [&](const std::string& source, const std::string& place) {
    if (!options.json && source.find_first_of("\t\r\n") != source.npos)
      fail(place, "it has a TAB or a line break, which ends a column: --json was expected");
    std::vector<std::string> tokens =
        source_tokens(first.source(), source, place, "something to read");
    const text::Sentence sentence = first.source().encode(tokens);
    const models::Translation written = write(models, std::span(&sentence, 1), options.how).front();
    const report::Heatmap map = heatmap(first, std::move(tokens), written.front());
    if (options.json) {
      fmt::print("{}\n", for_output(json_of(first.target(), source, written, map).dump()));
      return;
    }
    for (const models::Hypothesis& h : written) {
      fmt::print("{}\t{}\t{}\n", for_output(source), for_output(first.target().decode(h.words)),
                 probability_text(std::exp(h.log_probability)));
    }
    draw(map, options.attention);
  };
  const char* nothing = options.json ? R"({"source":"","best":[]})" : "";
  return each_source("transduce", options.sources, answer, [&] { fmt::print("{}\n", nothing); });
}

}  // namespace attune::transduce
