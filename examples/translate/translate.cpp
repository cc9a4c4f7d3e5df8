#include <iostream>
#include <optional>

#include <fmt/format.h>

#include <attune/models/text/corpus.hpp>
#include <attune/models/translate.hpp>
#include <attune/tensor/check.hpp>

#include "commands.hpp"
#include "model.hpp"

namespace attune::translate {

int translate(const TranslateOptions& o) {
  const Model model = Model::load(o.model);
  text::LineReader reader = o.file.empty() ? text::LineReader(std::cin, "standard input")
                                           : text::LineReader(std::filesystem::path(o.file));
  const auto read = [&]() -> std::optional<text::Sentence> {
    const auto line = reader.next();
    return line ? std::optional(model.source().encode(*line)) : std::nullopt;
  };
  bool first = true;
  const auto write = [&](const models::Translation& translation) {
    if (o.search.best > 1 && !std::exchange(first, false)) fmt::print("\n");
    for (const models::Hypothesis& hypothesis : translation) {
      if (o.scores) fmt::print("{:.4f}\t", hypothesis.score);
      fmt::print("{}\n", model.target().decode(hypothesis.words));
    }
    if (std::fflush(stdout) != 0) fail("standard output", "it cannot be written");
  };
  models::translate_stream(model.network(), read, write,
                           {.how = o.search, .sentences = o.batch, .look_ahead = 20 * o.batch});
  return 0;
}

}  // namespace attune::translate
