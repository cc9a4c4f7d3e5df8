// What command lines have in common.
#pragma once

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/models/option_field.hpp>
#include <attune/models/presets.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/threads.hpp>
#include <attune/version.hpp>

#include "support/model_options.hpp"
#include "support/commands.hpp"

namespace attune {

/// Accepts numbers from low to high, whole ones where these are; NaN is none of them.
template <class T>
CLI::Validator in_range(T low, T high) {
  const std::string range = fmt::format("{} to {}", low, high);
  const auto check = [=](const std::string& text) {
    T value{};
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    if (error == std::errc() && end == last && value >= low && value <= high) return std::string();
    return fmt::format("'{}' is not a {} from {}", text,
                       std::is_integral_v<T> ? "whole number" : "number", range);
  };
  return CLI::Validator(check, "");  // ranges would crowd --help; errors have them
}

/// Breaks lines at spaces.
inline std::string wrapped(const std::string& text, std::size_t width) {
  std::string result;
  std::size_t column = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", begin + 1), text.size());
    if (text[begin] == '\n') column = 0;
    const bool breaks = text[begin] == ' ' && column + (end - begin) > width;
    result +=
        breaks ? "\n" + text.substr(begin + 1, end - begin - 1) : text.substr(begin, end - begin);
    column = breaks ? end - begin - 1 : column + (end - begin);
    begin = end;
  }
  return result;
}

/// Help whose lines fit a terminal of 100 columns.
struct HelpFormatter : CLI::Formatter {
  HelpFormatter() { column_width(32); }
  std::string make_option_desc(const CLI::Option* option) const override {
    return wrapped(CLI::Formatter::make_option_desc(option), 66);
  }
};

/// Errors of our own become those of the command line.
template <class F>
auto setting(F set) {
  return [set](const std::string& text) {
    try {
      set(text);
    } catch (const Error& error) {
      throw CLI::ValidationError(std::string("--") + error.what());
    }
  };
}

/// Turns a directory into a file in it.
inline CLI::Validator file_of_directory(const std::string& name) {
  const auto change = [name](std::string& path) {
    if (std::filesystem::is_directory(path)) path = (std::filesystem::path(path) / name).string();
    return std::string();
  };
  return CLI::Validator(change, "");
}
inline CLI::Validator best_of_directory() { return file_of_directory("best.safetensors"); }

/// Of several times that an option is given the last one counts; those that are lists get them all.
inline void set_option_defaults(CLI::App& app) {
  app.option_defaults()->always_capture_default();
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

/// A program with commands. `example` is what --help ends with.
inline std::unique_ptr<CLI::App> make_app(const char* name, const char* what, const char* example) {
  auto app = std::make_unique<CLI::App>(what, name);
  app->require_subcommand(1);
  app->set_version_flag("--version", ATTUNE_VERSION, "print the version");
  set_option_defaults(*app);
  app->formatter(std::make_shared<HelpFormatter>());
  app->footer(fmt::format("Example: {}", example));
  return app;
}

/// A command of it; `example` is what its --help ends with.
inline CLI::App* add_command(CLI::App& app, const char* name, const char* what,
                             const char* example) {
  CLI::App* command = app.add_subcommand(name, what);
  command->footer(fmt::format("Example: {} {} {}", app.get_name(), name, example));
  return command;
}

/// A directory stands for the best.safetensors in it.
inline CLI::Option* add_checkpoint(CLI::App& app, std::filesystem::path& model,
                                   const std::string& what = "checkpoint") {
  return app.add_option("--model", model, what + ", or the directory of its training")
      ->transform(best_of_directory());
}

/// The directory of a training, and whether it is to go on.
template <class Options>
void add_run(CLI::App& app, Options& o) {
  app.add_option("--out", o.out, "directory for best.safetensors, last.safetensors and log.jsonl");
  app.add_flag("--resume", o.resume, "go on from last.safetensors, where there is one");
}

inline void add_threads(CLI::App& app, int& threads) {
  app.add_option("--threads", threads, "threads (default: ATTUNE_THREADS, or all CPUs)")
      ->check(in_range(1, 1024))
      ->default_str("");
}

inline void add_width(CLI::App& app, int& width) {
  app.add_option("--width", width,
                 "columns that a drawing in the terminal may have (default: the terminal's; any "
                 "number in a file)")
      ->check(in_range(10, 100000))
      ->default_str("");
}

/// CLI11 would split a word "[a,b]" of a list in two, but not when a character follows the bracket:
/// one is added here, and removed before any option sees it.
inline constexpr char bracket_guard = '\x1f';
inline std::string without_guard(std::string argument) {
  if (argument.ends_with(bracket_guard)) argument.pop_back();
  return argument;
}
inline void parse_arguments(CLI::App& app, std::vector<std::string> arguments) {
  for (CLI::App* command : app.get_subcommands({}))
    for (CLI::Option* option : command->get_options()) option->transform(without_guard);
  for (std::string& argument : arguments) {
    if (argument.starts_with('[') && argument.ends_with(']')) argument += bracket_guard;
  }
  std::ranges::reverse(arguments);  // as CLI11 expects it
  app.parse(arguments);
}

/// Throws where an argument is left over, with what was perhaps meant, and where no command is.
inline void check_arguments(const CLI::App& app) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  const CLI::App& taker = given.empty() ? app : *given.front();
  std::vector<std::string> commands, options;
  for (const CLI::App* command : taker.get_subcommands({})) commands.push_back(command->get_name());
  for (const CLI::Option* option : taker.get_options())
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  const std::vector<std::string> left = app.remaining(true);
  if (left.empty() && commands.empty()) return;
  const auto last = commands.empty() ? commands.end() : commands.end() - 1;
  const std::string list =
      commands.empty()
          ? ""
          : fmt::format("{} or {} was expected", fmt::join(commands.begin(), last, ", "), *last);
  if (left.empty()) throw Error("no command: " + list);
  const std::string first = without_guard(left.front());
  const bool is_option = first.starts_with("-");
  const auto meant = nearest_name(first.substr(0, first.find('=')), is_option ? options : commands);
  throw Error(fmt::format("{}'{}' is not {}{}", given.empty() ? "" : taker.get_name() + ": ", first,
                          is_option          ? "an option"
                          : commands.empty() ? "expected"
                                             : "a command",
                          meant ? fmt::format("; did you mean {}?", *meant)
                          : is_option || commands.empty() ? ""
                                                          : ": " + list));
}

/// Runs `parse`, of the App that is pointed to. False where help or the version was asked for,
/// which is then printed.
template <class AppPointer, class Parse>
bool parsed(const AppPointer& app, Parse parse) {
  try {
    parse();
    return true;
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app->help());
  } catch (const CLI::CallForVersion&) {
    fmt::print("attune {}\n", ATTUNE_VERSION);
  } catch (const CLI::ParseError&) {
    check_arguments(*app);
    throw;
  }
  return false;
}

/// Runs `parse`, which makes the App and sets `line`. To resume a run it runs again, from the
/// options of last.safetensors, as `stored_options` reads them, for what was not given. Returns
/// the command's name; none where help or the version was asked for, which is then printed.
template <class Parse, class CommandLine, class Stored>
std::string read_command(int argc, char** argv, Parse parse, CommandLine& line,
                         Stored stored_options) {
  std::unique_ptr<CLI::App> app;
  const auto read = [&] {
    parse(argc, argv, line, app);
    const std::filesystem::path last = line.train.out / "last.safetensors";
    if (!line.train.resume || !std::filesystem::exists(last)) return;
    auto stored = stored_options(last);
    line = {};
    line.train = std::move(stored);
    parse(argc, argv, line, app);
  };
  return parsed(app, read) ? app->get_subcommands().front()->get_name() : "";
}

/// An option of a struct of them.
template <class Options>
CLI::Option* add_field(CLI::App& app, const models::OptionField<Options>& field, Options& options) {
  const auto set = [&options, field](const std::string& text) { field.set(options, text); };
  if (field.is_flag)
    return app.add_flag_callback(
        "--" + field.name, [set] { set("yes"); }, field.help);
  const std::string choices =
      field.choices.empty() ? "" : fmt::format(": {}", fmt::join(field.choices, ", "));
  return app
      .add_option_function<std::string>("--" + field.name, setting(set), field.help + choices)
      ->default_str(field.get(options))
      ->run_callback_for_default(false)
      ->type_name(field.type);
}

/// All of them, in a group of --help.
template <class Options>
void add_fields(CLI::App& app, std::span<const models::OptionField<Options>> fields,
                Options& options, const char* group) {
  for (const auto& field : fields) add_field(app, field, options)->group(group);
}

/// Throws where an option was typed that has no effect with the others, wherever these are from.
template <class Options>
void check_effects(int argc, char** argv, std::span<const models::OptionField<Options>> fields,
                   const Options& options) {
  for (const auto& field : fields) {
    if (!field.has_effect || field.has_effect(options)) continue;
    const std::string name = "--" + field.name;
    if (std::any_of(argv + 1, argv + argc, [&](std::string_view argument) {
          return argument == name || argument.starts_with(name + "=");
        })) {
      fail(name, fmt::format("it has no effect without {}", field.needs));
    }
  }
}

/// Options of a comparison of variants with several seeds.
template <class Arguments>
void add_comparison(CLI::App& app, Arguments& o, const char* out,
                    const std::vector<std::string>& variants) {
  o.train.out = out;
  o.jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  app.add_option("--out", o.train.out, "directory, with one in it for each run");
  app.add_option("--variants", o.variants,
                 fmt::format("with commas between them: {}", fmt::join(variants, ", ")))
      ->delimiter(',')
      ->default_str("all")
      ->type_name("LIST");
  app.add_option("--seeds", o.seeds, "seeds from 1 on")->check(in_range(1, 1000));
  app.add_option("--jobs", o.jobs, "runs at once, each on one thread")->check(in_range(1, 1024));
}

/// The option --model, for add_field: a published model, whose name `get` reads and `set` sets.
template <class Options, class Get, class Set>
models::OptionField<Options> preset_field(Get get, Set set) {
  std::string help = "published model to start from; it decides the defaults of what follows";
  for (const models::Preset& preset : models::presets())
    help += fmt::format("\n- {}: {}", preset.name, preset.what);
  return {"model", help, {}, "NAME", get, set};
}

/// What the options from this field on are about; "" within a group.
inline std::string group_at(const std::string& field) {
  return field == "steps"          ? "Training"
         : field == "locales"      ? "Data"
         : field == "train"        ? "Data"
         : field == "embedding"    ? "Sizes"
         : field == "encoder-cell" ? "Wiring"
         : field == "score"        ? "Attention"
         : field == "readout-kind" ? "Output and regularisation"
                                   : "";
}

/// All of a struct of options, each in its group.
template <class Options>
void add_grouped_fields(CLI::App& app, std::span<const models::OptionField<Options>> fields,
                        Options& options) {
  std::string group;
  for (const auto& field : fields) {
    if (const std::string next = group_at(field.name); !next.empty()) group = next;
    add_field(app, field, options)->group(group);
  }
}

/// A published model first, in the sizes of `preset_options`, then changes to it: CLI11 sets
/// options in the order they are added in.
inline void add_model(CLI::App& app, ModelOptions& o,
                      ModelOptions (*preset_options)(std::string_view preset)) {
  const auto get = [](const ModelOptions& options) { return options.name; };
  const auto set = [&app, preset_options](ModelOptions& options, const std::string& name) {
    if (name == options.name) return;
    options = preset_options(name);
    for (const auto& field : models::seq2seq_fields())  // as --help shows them
      app.get_option("--" + field.name)->default_str(field.get(options.network));
  };
  add_field(app, preset_field<ModelOptions>(get, set), o)->group("Model");
  add_grouped_fields(app, models::seq2seq_fields(), o.network);
}

}  // namespace attune
