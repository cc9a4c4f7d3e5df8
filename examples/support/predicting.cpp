#include "support/predicting.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <unistd.h>

#include <attune/models/text/corpus.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/printable.hpp>

#include "support/output.hpp"
#include "support/standard_input.hpp"
#include "support/terminal.hpp"

namespace attune {
namespace {

constexpr std::size_t longest_source = 10000;

}  // namespace

void warn_of_unknown(const text::Vocabulary& vocabulary, std::span<const std::string> tokens) {
  static std::set<std::string> warned;
  for (const std::string& token : tokens) {
    if (vocabulary.id(token) != text::Vocabulary::unknown || !warned.insert(token).second) continue;
    complain("warning: '{}' was never seen in training and is read as <unk>\n", printable(token));
  }
}

int each_source(
    const char* program, const std::vector<std::string>& arguments,
    const std::function<void(const std::string& source, const std::string& place)>& answer,
    const std::function<void()>& answer_empty) {
  int status = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    try {
      answer(arguments[i], fmt::format("argument {}", i + 1));
    } catch (const Error& error) {
      complain("{}: {}\n", program, printable(error.what()));
      status = 1;
    }
  }
  if (!arguments.empty()) return status;
  StandardInput input;
  text::LineReader reader(input.stream(), "standard input");
  const auto answer_next = [&] {
    input.ask();
    const auto line = reader.next();
    if (!line) return false;
    line->empty() ? answer_empty()
                  : answer(*line, fmt::format("{}:{}", reader.name(), reader.number()));
    flush_output();
    return true;
  };
  for (bool more = true; more;) {
    try {
      more = answer_next();
    } catch (const Error& error) {
      if (!input.forgives(error, program)) throw;
    }
  }
  input.stop_asking();
  return status;
}

std::vector<std::string> source_tokens(const text::Codec& codec, const std::string& source,
                                       const std::string& place, const char* expected) {
  std::vector<std::string> tokens;
  std::size_t characters = 0;
  try {
    characters = text::code_points(source).size();
    tokens = codec.tokenizer.encode(source);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", place, error.what()));
  }
  if (text::words(source).empty())
    fail(place, fmt::format("it is empty, but {} was expected", expected));
  if (characters > longest_source) {
    fail(place, fmt::format("it has {} characters, but at most {} were expected", characters,
                            longest_source));
  }
  warn_of_unknown(codec.vocabulary, tokens);
  return tokens;
}

void add_attention(nlohmann::ordered_json& json, const report::Heatmap& map) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (std::size_t r = 0; r < map.rows.size(); ++r) {
    const auto first = map.weights.begin() + static_cast<std::ptrdiff_t>(r * map.columns.size());
    rows.push_back(
        std::vector<double>(first, first + static_cast<std::ptrdiff_t>(map.columns.size())));
  }
  json["rows"] = map.rows;
  json["columns"] = map.columns;
  json["attention"] = std::move(rows);
}

void draw(const report::Heatmap& map, const Drawing& how) {
  const bool terminal = isatty(STDOUT_FILENO);
  if (how.when == Show::never || (how.when == Show::automatic && !terminal) || map.rows.empty())
    return;
  fmt::print("{}\n",
             report::terminal(map, {.colour = obeys_escapes(), .width = drawing_width(how.width)}));
}

std::string probability_text(double probability) {
  return probability < 5e-5 ? fmt::format("{:.2g}", probability)
                            : fmt::format("{:.4f}", probability);
}

void print_mistakes(std::vector<Mistake> mistakes, std::size_t width) {
  constexpr std::size_t most = 10;
  if (mistakes.empty()) return;
  std::ranges::stable_sort(mistakes, std::ranges::greater(), &Mistake::probability);
  const std::string which =
      mistakes.size() > most
          ? fmt::format("; the {} that were written with the greatest probability", most)
          : "";
  fmt::print("\n{} mistake{}{}\nprobability  {:<{}}  {:<{}}  source\n", mistakes.size(),
             mistakes.size() == 1 ? "" : "s", which, "written", width, "expected", width);
  mistakes.resize(std::min(mistakes.size(), most));
  for (const Mistake& one : mistakes) {
    fmt::print("{:>11}  {:<{}}  {:<{}}  {}\n", probability_text(one.probability),
               printable(one.written), width, printable(one.expected), width,
               printable(one.source));
  }
}

}  // namespace attune
