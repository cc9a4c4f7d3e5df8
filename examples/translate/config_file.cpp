#include "config_file.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <attune/models/text/corpus.hpp>
#include <attune/tensor/check.hpp>

#include "train.hpp"

namespace attune::translate {
namespace {

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == text.npos ? std::string() : std::string(text.substr(begin, end + 1 - begin));
}

/// Sets an option in a struct that is thrown away, to get its errors; false when there is none.
template <class Options>
bool try_field(std::span<const models::OptionField<Options>> fields, const std::string& name,
               const std::string& value) {
  Options options;
  for (const auto& field : fields) {
    if (field.name != name) continue;
    field.set(options, value);
    return true;
  }
  return false;
}

bool try_option(const std::string& name, const std::string& value) {
  if (name == "model") model_options(value);
  return name == "model" || name == "out" || try_field(train_fields(), name, value) ||
         try_field(models::seq2seq_fields(), name, value);
}

bool is_flag(const std::string& name) {
  return std::ranges::any_of(
      train_fields(), [&](const auto& field) { return field.name == name && field.is_flag; });
}

/// Errors get the line.
void check_option(const text::LineReader& reader, const std::string& name,
                  const std::string& value) {
  bool is_option = false;
  try {
    is_option = try_option(name, value);
  } catch (const Error& error) {
    reader.fail(error.what());
  }
  if (!is_option) reader.fail(fmt::format("there is no option '{}'", name));
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
    const std::string name = trimmed(std::string_view(text).substr(0, equals)),
                      value = trimmed(std::string_view(text).substr(equals + 1));
    check_option(reader, name, value);
    const bool flag = is_flag(name);
    if (!flag || value == "yes") arguments.push_back("--" + name);
    if (!flag) arguments.push_back(value);
  }
  return arguments;
}

}  // namespace attune::translate
