#include "config_file.hpp"

#include <fmt/format.h>

#include <attune/models/text/corpus.hpp>

#include "train.hpp"

namespace attune::translate {
namespace {

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == text.npos ? std::string() : std::string(text.substr(begin, end + 1 - begin));
}

bool is_option(const std::string& name) {
  const auto has = [&](const auto& fields) {
    return std::ranges::any_of(fields, [&](const auto& field) { return field.name == name; });
  };
  return name == "model" || name == "out" || has(train_fields()) || has(models::seq2seq_fields());
}

}  // namespace

std::vector<std::string> arguments_of_file(const std::filesystem::path& path) {
  std::vector<std::string> arguments;
  text::LineReader reader(path);
  while (const auto line = reader.next()) {
    const std::string text = trimmed(*line);
    if (text.empty() || text.starts_with('#')) continue;
    const std::size_t equals = text.find('=');
    if (equals == text.npos) reader.fail("NAME = VALUE was expected");
    const std::string name = trimmed(std::string_view(text).substr(0, equals));
    if (!is_option(name)) reader.fail(fmt::format("there is no option '{}'", name));
    arguments.push_back("--" + name);
    arguments.push_back(trimmed(std::string_view(text).substr(equals + 1)));
  }
  return arguments;
}

}  // namespace attune::translate
