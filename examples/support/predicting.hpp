// What programs have in common that write something for each source.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <attune/models/option_field.hpp>
#include <attune/models/report/heatmap.hpp>
#include <attune/models/text/codec.hpp>

namespace attune {

/// When to draw attention in the terminal.
enum class Show { automatic, always, never };

template <class Options>
models::OptionField<Options> show_field() {
  return models::choice_field<Options, Show>(
      "attention", "when to draw the attention (auto: on a terminal)", &Options::attention,
      {{Show::always, "always"}, {Show::automatic, "auto"}, {Show::never, "never"}});
}

/// Calls `answer` for each argument or, where there is none, for each line of standard input;
/// `place` says where it stands, for errors. `answer_empty` is for an empty line, so that lines in
/// and lines out stay together. `prompt` asks for each line where standard input is a terminal.
/// Returns the exit status: 1 after an Error about an argument, which does not stop the rest;
/// `program` is what its message begins with.
int each_source(
    const char* program, const std::vector<std::string>& arguments,
    const std::function<void(const std::string& source, const std::string& place)>& answer,
    const std::function<void()>& answer_empty, const std::string& prompt = "");

/// The tokens of a source; warns of each that the model has not seen, once in a program's run.
/// Throws an Error that begins with `place` where it is no text or empty, and `expected` (such as
/// "a date") was expected, or where it is very long.
std::vector<std::string> source_tokens(const text::Codec& codec, const std::string& source,
                                       const std::string& place, const char* expected);

/// Entries rows, columns and attention.
void add_attention(nlohmann::ordered_json& json, const report::Heatmap& map);

/// Draws it where that was asked for, and there is something to draw.
void draw(const report::Heatmap& map, Show when);

/// What is wrong in an evaluation.
struct Mistake {
  double probability;
  std::string written, expected, source;
};

/// The ten that the model was surest of; `width` is that of the columns written and expected.
/// Nothing where there is none.
void print_mistakes(std::vector<Mistake> mistakes, std::size_t width);

}  // namespace attune
