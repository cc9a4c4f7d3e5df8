#include "command_line.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/tensor/check.hpp>
#include <attune/version.hpp>

#include "support/output.hpp"
#include "support/terminal.hpp"
#include "support/unexpected.hpp"

namespace attune::pairs {
namespace {

/// An option of any table, as the command line knows it.
struct Known {
  std::string name, help, type, initial;
  std::vector<std::string> choices;
  bool is_flag;
  std::string heading;
  bool rare;
};

template <class Options>
void add(std::vector<Known>& all, const models::OptionField<Options>& field, const Options& initial,
         std::string heading, bool rare) {
  all.push_back({field.name, field.help, field.type, field.get(initial), field.choices,
                 field.is_flag, std::move(heading), rare});
}

/// Sizes that are asked for first; the rest of the model's options is in --help-all.
bool is_rare(const std::string& name) {
  constexpr const char* first[] = {"embedding", "hidden", "score", "dropout"};
  return std::ranges::find(first, name) == std::end(first);
}

std::vector<Known> options_of(const Command& command) {
  std::vector<Known> all;
  if (command.bit == train_command) {
    const TrainOptions initial = train_options({}, true);
    const auto add_group = [&](const std::string& heading) {
      for (const auto& field : train_fields())
        if (field.heading == heading) add(all, field, initial, heading, field.rare);
    };
    add_group("Data");
    std::vector<std::string> names;
    std::string what;
    for (const models::ModelKind& kind : models::model_kinds()) {
      names.push_back(kind.name);
      what += fmt::format("\n{}: {}", kind.name, kind.what);
    }
    all.push_back({"model", "sizes are set to suit the data" + what, "NAME", initial.model.name,
                   names, false, "Model", false});
    for (const auto& field : models::all_model_fields()) {
      std::string value;  // where the initial model has it
      for (const auto& own : models::model_fields(initial.model.name))
        if (own.name == field.name) value = own.get(initial.model);
      all.push_back({field.name, field.help, field.type, value, field.choices, field.is_flag,
                     "Model", is_rare(field.name)});
    }
    for (const char* heading : {"Training", "Validation", "Run"}) add_group(heading);
  } else {
    for (const auto& field : use_fields())
      if ((field.commands & command.bit) != 0)
        add(all, field, UseOptions(), field.heading, field.rare);
  }
  all.push_back({"config",
                 "file with more of these options, NAME = VALUE on each line; the "
                 "command line wins",
                 "FILE",
                 "",
                 {},
                 false,
                 command.bit == train_command ? "Run" : "Output",
                 false});
  return all;
}

/// Breaks lines at spaces; later lines begin with so many.
std::string wrapped(const std::string& text, std::size_t width, std::size_t indent) {
  std::string result;
  std::size_t column = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", begin + 1), text.size());
    const bool line = text[begin] == '\n';
    if (line || (text[begin] == ' ' && column + (end - begin) > width)) {
      result += "\n" + std::string(indent, ' ');
      ++begin, column = 0;
    }
    result += text.substr(begin, end - begin), column += end - begin;
    begin = end;
  }
  return result;
}

void print_option(const Known& option, std::size_t width) {
  constexpr std::size_t indent = 28;
  std::string left = "  --" + option.name + (option.is_flag ? "" : " " + option.type);
  left += left.size() + 2 > indent ? "\n" + std::string(indent, ' ')
                                   : std::string(indent - left.size(), ' ');
  std::string help = option.help;
  if (!option.choices.empty() && option.name != "model" && !option.is_flag)
    help += fmt::format(": {}", fmt::join(option.choices, ", "));
  if (!option.initial.empty() && !option.is_flag && help.find("(default") == help.npos)
    help += fmt::format(" [{}]", option.initial);
  fmt::print("{}{}\n", left, wrapped(help, width - indent, indent));
}

void print_help(const Command& command, bool all) {
  const std::size_t width = static_cast<std::size_t>(std::clamp(drawing_width(0), 60, 100));
  std::string positional;
  for (const std::string& name : command.positional)
    positional += fmt::format(" [{}{}]", name, command.last_repeats ? "..." : "");
  fmt::print("Usage: attune {}{} [OPTION...]\n\n{}\n", command.name, positional,
             wrapped(command.what, width, 0));
  std::string heading;
  bool hidden = false;
  for (const Known& option : options_of(command)) {
    if (option.rare && !all) {
      hidden = true;
      continue;
    }
    if (option.heading != heading) fmt::print("\n{}\n", heading = option.heading);
    print_option(option, width);
  }
  if (hidden) fmt::print("\nMore options: attune {} --help-all\n", command.name);
  fmt::print("\nExample: attune {} {}\n", command.name, command.example);
}

void print_commands() {
  fmt::print(
      "Learns from pairs of texts, with attention: translations, pronunciations, dates.\n"
      "\nUsage: attune COMMAND [OPTION...]      attune COMMAND --help\n\n");
  for (const Command& command : commands()) fmt::print("  {:<10} {}\n", command.name, command.what);
  fmt::print("\nExample: attune train PAIRS.tsv && attune predict \"3 May 79\"\n");
}

std::string list_of_commands() {
  std::string list;
  for (const Command& command : commands())
    list += (list.empty()                     ? ""
             : &command == &commands().back() ? " or "
                                              : ", ") +
            std::string(command.name);
  return list + " was expected";
}

const Command& command_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : commands()) {
    if (command.name == name) return command;
    names.emplace_back(command.name);
  }
  const auto meant = nearest_name(name, names);
  throw Error(
      fmt::format("'{}' is not a command{}", name,
                  meant ? fmt::format("; did you mean {}?", *meant) : ": " + list_of_commands()));
}

const Known* find(const std::vector<Known>& options, const std::string& name) {
  const auto at = std::ranges::find(options, name, &Known::name);
  return at == options.end() ? nullptr : &*at;
}

std::string trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == text.npos ? std::string() : std::string(text.substr(begin, end + 1 - begin));
}

/// A file with NAME = VALUE on each line, and perhaps empty lines and those that begin with #.
std::vector<Given> given_in(const std::string& path, const std::vector<Known>& options) {
  std::vector<Given> given;
  text::LineReader reader{std::filesystem::path(path)};
  while (const auto line = reader.next()) {
    const std::string text = trimmed(*line);
    if (text.empty() || text.starts_with('#')) continue;
    const std::size_t equals = text.find('=');
    if (equals == text.npos) reader.fail("NAME = VALUE was expected");
    const std::string name = trimmed(std::string_view(text).substr(0, equals));
    if (name == "config" || !find(options, name))
      reader.fail(fmt::format("there is no option '{}'", name));
    given.push_back({name, trimmed(std::string_view(text).substr(equals + 1)),
                     fmt::format("{}:{}: ", reader.name(), reader.number())});
  }
  return given;
}

/// Reads the arguments of a command.
class ArgumentReader {
 public:
  ArgumentReader(const Command& command, std::vector<Known> options)
      : command_(command), options_(std::move(options)) {}

  void read(const std::string& argument, auto& next, auto end) {
    if (only_values_ || argument == "-" || !argument.starts_with("-")) return add_value(argument);
    if (argument == "--") return void(only_values_ = true);
    const std::size_t equals = argument.find('=');
    const Known* option =
        argument.starts_with("--") ? find(options_, argument.substr(2, equals - 2)) : nullptr;
    if (!option) refuse(argument.substr(0, equals));
    if (option->is_flag && equals == argument.npos) {
      given_.push_back({option->name, "yes", "--"});
    } else if (equals != argument.npos) {
      given_.push_back({option->name, argument.substr(equals + 1), "--"});
    } else {
      if (next == end) fail("--" + option->name, "a value was expected");
      given_.push_back({option->name, *next++, "--"});
    }
  }

  /// What config files say goes before what the command line says.
  std::vector<Given> given() && {
    std::vector<Given> all;
    for (const Given& one : given_) {
      if (one.name != "config") continue;
      for (Given& more : given_in(one.value, options_)) all.push_back(std::move(more));
    }
    std::erase_if(given_, [](const Given& one) { return one.name == "config"; });
    all.insert(all.end(), given_.begin(), given_.end());
    return all;
  }

 private:
  void add_value(const std::string& value) {
    const auto& names = command_.positional;
    if (taken_ == names.size() && !command_.last_repeats)
      throw Error(fmt::format("{}: '{}' is not expected", command_.name, value));
    given_.push_back({names[std::min(taken_, names.size() - 1)], value, ""});
    if (taken_ < names.size()) ++taken_;
  }

  [[noreturn]] void refuse(const std::string& argument) const {
    std::vector<std::string> names;
    for (const Known& option : options_) names.push_back("--" + option.name);
    const auto meant = nearest_name(argument, names);
    throw Error(fmt::format("{}: '{}' is not an option{}", command_.name, argument,
                            meant ? fmt::format("; did you mean {}?", *meant) : ""));
  }

  const Command& command_;
  std::vector<Known> options_;
  std::vector<Given> given_;
  std::size_t taken_ = 0;
  bool only_values_ = false;
};

}  // namespace

std::span<const Command> commands() {
  static const std::vector<Command> all = {
      {"train",
       train_command,
       "train a model on a TSV of pairs, or on two text files",
       "train.en train.de --valid val.en --valid-target val.de",
       {"train", "train-target"}},
      {"predict",
       predict_command,
       "write what belongs to each source",
       "\"3 May 79\" --best 3      attune predict --format text < test.en",
       {"source"},
       true},
      {"evaluate",
       evaluate_command,
       "measure a model: exact matches, token errors, BLEU, chrF",
       "test.tsv --json",
       {"file", "target"}},
      {"align",
       align_command,
       "show which source tokens the model attends to",
       "test.tsv --format html --out attention.html",
       {"file", "target"}},
      {"score",
       score_command,
       "print the log-probability of given targets",
       "test.tsv",
       {"file", "target"}},
      {"compare",
       compare_command,
       "print a table of models, measured on the same pairs",
       "test.tsv --model first-model --model second-model",
       {"file", "target"}},
      {"report",
       report_command,
       "write an HTML page: errors, learning curves, attention",
       "test.tsv --out test.html",
       {"file", "target"}},
      {"average",
       average_command,
       "write a model with the mean weights of several checkpoints",
       "a.safetensors b.safetensors --out mean.safetensors",
       {"model"},
       true},
      {"inspect", inspect_command, "print what is in a checkpoint", "attune-model", {"model"}}};
  return all;
}

std::optional<CommandLine> read_command_line(const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw Error("no command: " + list_of_commands());
  const auto asks = [](const std::string& a) {
    return a == "--help" || a == "-h" || a == "--help-all";
  };
  if (arguments.front() == "--version") {
    fmt::print("attune {}\n", ATTUNE_VERSION);
    return std::nullopt;
  }
  if (asks(arguments.front())) {
    print_commands();
    return std::nullopt;
  }
  const Command& command = command_named(arguments.front());
  const auto values = std::ranges::find(arguments, "--");
  if (const auto at = std::find_if(arguments.begin(), values, asks); at != values) {
    print_help(command, *at == "--help-all");
    return std::nullopt;
  }
  ArgumentReader reader(command, options_of(command));
  for (auto next = arguments.begin() + 1; next != arguments.end();) {
    const std::string& argument = *next++;
    reader.read(argument, next, arguments.end());
  }
  return CommandLine{&command, std::move(reader).given()};
}

}  // namespace attune::pairs
