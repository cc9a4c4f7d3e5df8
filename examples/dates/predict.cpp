#include <cmath>

#include <fmt/format.h>

#include <attune/tensor/printable.hpp>

#include "commands.hpp"
#include "model.hpp"
#include "support/terminal.hpp"

namespace attune::dates {
namespace {

void print(const PredictArguments& options, const std::string& source, const std::string& date,
           double probability, const report::Heatmap& map) {
  if (options.json) {
    nlohmann::ordered_json json = {
        {"source", source}, {"prediction", date}, {"probability", probability}};
    add_attention(json, map);
    fmt::print("{}\n", for_output(json.dump()));
    return;
  }
  fmt::print("{}  {:.4f}\n", printable(date), probability);
  draw(map, options.attention);
}

}  // namespace

int predict(const PredictArguments& options) {
  const Model model = Model::load(options.model);
  const auto answer = [&](const std::string& source, const std::string& place) {
    std::vector<std::string> points = source_tokens(model.source(), source, place, "a date");
    const text::Sentence sentence = model.source().encode(points);
    const models::Hypothesis h = model.predict(std::span(&sentence, 1), options.beam).front();
    print(options, source, model.decode(h.words), std::exp(h.log_probability),
          heatmap(model, std::move(points), h));
  };
  const char* nothing = options.json ? R"({"source":"","prediction":null,"probability":null})" : "";
  each_source(options.sources, answer, [&] { fmt::print("{}\n", nothing); });
  return 0;
}

}  // namespace attune::dates
