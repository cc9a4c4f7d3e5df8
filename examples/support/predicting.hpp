// What programs have in common that write something for each source.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <attune/models/option_field.hpp>
#include <attune/models/report/heatmap.hpp>
#include <attune/models/text/codec.hpp>

namespace attune {

/// Whether attention is drawn in the terminal, and how wide.
enum class Show { automatic, always, never };
struct Drawing {
  Show when = Show::automatic;
  int width = 0;  // columns; 0: those of the terminal
};

template <class Options>
models::OptionField<Options> show_field() {
  return models::choice_field<Options, Show>(
      "attention", "when to draw the attention (auto: on a terminal)",
      [](auto& options) -> auto& { return options.attention.when; },
      {{Show::always, "always"}, {Show::automatic, "auto"}, {Show::never, "never"}});
}

/// Calls `answer` for each argument or, where there is none, for each line of standard input;
/// `place` says where it stands, for errors. `answer_empty` is for an empty line, so that lines in
/// and lines out stay together. Returns the exit status: 1 after an Error about an argument, which
/// does not stop the rest; `program` is what its message begins with.
int each_source(
    const char* program, const std::vector<std::string>& arguments,
    const std::function<void(const std::string& source, const std::string& place)>& answer,
    const std::function<void()>& answer_empty);

/// Warns of each token that is not in the vocabulary, once in a program's run.
void warn_of_unknown(const text::Vocabulary& vocabulary, std::span<const std::string> tokens);

/// The tokens of a source; warns of those that the model has not seen.
/// Throws an Error that begins with `place` where it is no text or empty, and `expected` (such as
/// "a date") was expected, or where it is very long.
std::vector<std::string> source_tokens(const text::Codec& codec, const std::string& source,
                                       const std::string& place, const char* expected);

/// Entries rows, columns and attention.
void add_attention(nlohmann::ordered_json& json, const report::Heatmap& map);

/// Draws it where that was asked for, and there is something to draw.
void draw(const report::Heatmap& map, const Drawing& how);

/// Four decimals or, where these would be zeros alone, three digits: "0.9312", "3.1e-06".
std::string probability_text(double probability);

/// What is wrong in an evaluation.
struct Mistake {
  double probability;
  std::string written, expected, source;
};

/// The ten that the model was surest of; `width` is that of the columns written and expected.
/// Nothing where there is none.
void print_mistakes(std::vector<Mistake> mistakes, std::size_t width);

}  // namespace attune
