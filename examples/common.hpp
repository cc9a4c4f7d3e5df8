// Shared code of the example programs: error messages, command lines, progress.
#pragma once

#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <attune/models/options.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/errors.hpp>
#include <attune/tensor/safetensors.hpp>

namespace attune::examples {

/// One-line error message for the user.
std::string message_of(const std::exception& error);

/// Returns the exit status of `body`. An exception, or a failed write to standard output if the
/// status is 0, prints "NAME: what is wrong" to standard error, calls `failed`, and returns 1.
int run_program(
    const char* name, const std::function<int()>& body,
    const std::function<void()>& failed = [] {});

/// An option from the command line (`place` is empty), or from a config file (`place` is
/// "FILE:LINE: ").
struct Given {
  std::string name, value, place = {};
};

/// Command-line arguments: options with their values, and positional arguments in order.
struct Arguments {
  std::vector<Given> options;
  std::vector<std::string> others;
};

/// "; did you mean NAME?" for the name with the fewest edits from `typed`: at most two, and less than
/// half of its letters. If there is none, `otherwise`.
std::string did_you_mean(const std::string& typed, const std::vector<std::string>& names,
                         const std::string& otherwise);

/// Parses `--name value`, `--name=value`, and `--name` of a flag, whose value is "yes": an option
/// that is a flag, --help or --help-all. Other arguments, and all after `--`, are positional.
Arguments split_arguments(const std::vector<std::string>& arguments,
                          const models::OptionList& options);

/// A struct of any type that has options, and their table.
struct AnyOptions {
  template <class O>
  AnyOptions(const models::OptionTable<O>& options, O& o) : table(options), object(&o) {
    if constexpr (requires { o.arguments; }) arguments = &o.arguments;
  }
  template <class O>
  requires(!std::is_same_v<O, AnyOptions>) AnyOptions(O& o)
      : AnyOptions(models::options_of(o), o) {}

  const models::OptionList& table;
  void* object;
  std::vector<std::string>* arguments = nullptr;  ///< the field for positional arguments, if any
};

/// The text of --help: each option with its type, help, choices and its value.
std::string help_of(const AnyOptions& options);

/// Runs `set`, whose errors begin with the option's name, and prepends "--" or the place.
void naming(const Given& given, const std::function<void()>& set);

/// Sets an option. Throws for an unknown option, or an invalid value. `help` is the option that
/// lists all options.
void set_given(const AnyOptions& options, const Given& given, const char* help);

/// Throws for a given option without effect.
void check_effects(const AnyOptions& options, const std::vector<Given>& given);

/// Sets options from the command line, and returns the positional arguments, which are also stored
/// in the field for them. With --help, prints `usage` and the options, and exits. Throws for an
/// unknown option, an invalid value, or an option without effect.
std::vector<std::string> parse_command_line(int argc, char** argv, const std::string& usage,
                                            const AnyOptions& options);

/// Sets all options to the values a model was trained with, then those in `free` from the command
/// line. Throws if the command line changes another option.
template <class O>
void parse_for_model(int argc, char** argv, O& o, const std::string& model,
                     const std::map<std::string, std::string>& trained,
                     const std::set<std::string>& free) {
  try {
    models::set_from(o, trained);
  } catch (const Error& error) {
    fail(model, error.what());
  }
  const auto before = models::to_map(o);
  parse_command_line(argc, argv, "", o);
  for (const auto& [name, value] : models::to_map(o))
    if (value != before.at(name) && !free.contains(name))
      fail("--" + name, before.at(name).empty()
                            ? "has no effect with " + model
                            : model + " was trained with " + in_quotes(before.at(name)));
}

/// The checkpoint of a program's own model, for parse_for_model: copies of the parameters, and the
/// options as metadata, without the value of the option `path`, which may not be UTF-8.
Safetensors checkpoint_of(const nn::Parameters& parameters,
                          std::map<std::string, std::string> options, const std::string& path);

/// Throws if the file cannot be written, or is one of `others`, which the program also reads or
/// writes. Changes nothing. Call it before long computations.
void require_writable(const std::filesystem::path& path,
                      const std::vector<std::filesystem::path>& others = {});

/// Warns if most of the tokens are different.
void warn_of_rare_tokens(const std::string& what, const text::TokenCounts& counts);

/// A path quoted for a shell, if it contains blanks or other special characters. Bytes that are not
/// printable are written in octal, for printf.
std::string in_shell(const std::string& path);

/// The command that started this program, for a shell.
std::string program_in_shell();

double seconds_since(std::chrono::steady_clock::time_point then);

/// "1 min 05 s"
std::string duration(double seconds);

/// True if standard output is a terminal with escape sequences (colours, erasing a line): TERM is
/// not "dumb".
bool obeys_escapes();

/// Time limit of a run, in seconds.
struct TimeLimit {
  double passed = 0;
  double most = std::numeric_limits<double>::infinity();
};

/// Progress display: one line that is rewritten on a terminal, plain lines elsewhere.
class Progress {
 public:
  /// Starts at `done` of `total` steps (or other `unit`s).
  Progress(Index done, Index total, std::string unit = "step")
      : first_(done), total_(total), unit_(std::move(unit)) {}
  ~Progress();

  /// Shows `text`, the percentage done and the remaining time: of the steps, or of `limit` if that
  /// ends sooner. Terminal: at most ten times a second, truncated to its width; elsewhere: once a
  /// minute. `line`: prints a permanent line at once.
  void show(Index done, const std::string& text, bool line = false, const TimeLimit& limit = {});

 private:
  Index first_, total_;
  std::string unit_;
  bool open_ = false;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point shown_ =
      obeys_escapes() ? std::chrono::steady_clock::time_point() : start_;
};

}  // namespace attune::examples
