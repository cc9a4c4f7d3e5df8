#include "support/commands.hpp"

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include <CLI/CLI.hpp>

#include <attune/models/metrics/error_rate.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/threads.hpp>
#include <attune/version.hpp>

#include "support/output.hpp"

namespace attune {
namespace {

constexpr std::size_t help_column = 32;  // of what an option does

/// Breaks lines that are wider than the terminal, or than 100 columns, at spaces.
std::string wrapped(const std::string& help) {
  const auto width = static_cast<std::size_t>(std::clamp(drawing_width(0), 60, 100));
  std::istringstream lines(help);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t indent = line.starts_with("  ") ? help_column : 0;
    while (line.size() > width && !line.starts_with("Example: ")) {
      const std::size_t at = line.rfind(' ', width);
      if (at == line.npos || at <= indent) break;
      result += line.substr(0, at) + "\n";
      line = std::string(indent, ' ') + line.substr(at + 1);
    }
    result += line + "\n";
  }
  return result;
}

/// CLI11 would split a word "[a,b]" of a list in two, but not when a character follows the bracket:
/// one is added here, and removed before any option sees it.
constexpr char bracket_guard = '\x1f';
std::string without_guard(std::string argument) {
  if (argument.ends_with(bracket_guard)) argument.pop_back();
  return argument;
}

/// Errors of our own become those of the command line.
void set_option(const Option& option, const std::string& text) {
  try {
    option.set(text);
  } catch (const Error& error) {
    throw CLI::ValidationError(std::string("--") + error.what());
  }
}

CLI::Option* add_option(CLI::App& app, const Option& option, bool sets = true) {
  const std::string name = "--" + option.name;
  const auto set = [&option, sets](const std::string& text) {
    if (sets) set_option(option, text);
  };
  if (option.is_flag)
    return app.add_flag_callback(
        name, [set] { set("yes"); }, option.help);
  const std::string choices =
      option.choices.empty() ? "" : fmt::format(": {}", fmt::join(option.choices, ", "));
  const bool help_says = option.help.find("(default") != option.help.npos;
  return app.add_option_function<std::string>(name, set, option.help + choices)
      ->default_str(help_says ? "" : option.get())
      ->run_callback_for_default(false)
      ->type_name(option.type);
}

bool share_a_word(const std::string& a, const std::string& b) {
  std::istringstream words(a);
  for (std::string word; std::getline(words, word, '-');)
    if (!word.empty() && fmt::format("-{}-", b).find(fmt::format("-{}-", word)) != b.npos)
      return true;
  return false;
}

/// The name that is nearest to what was given: few letters differ ("trian", train), or it has a
/// word of it ("--learning-rate", --rate). Nothing where none is near.
std::optional<std::string> nearest_name(const std::string& given,
                                        const std::vector<std::string>& names) {
  std::optional<std::string> nearest;
  std::int64_t fewest = 0;
  const auto letters = [](const std::string& text) {
    return std::vector<std::int32_t>(text.begin(), text.end());
  };
  for (const std::string& name : names) {
    const std::int64_t n = metrics::edits(letters(given), letters(name)).count();
    const bool near =
        n <= std::max<std::int64_t>(2, std::ssize(given) / 3) || share_a_word(given, name);
    if (near && (!nearest || n < fewest)) nearest = name, fewest = n;
  }
  return nearest;
}

/// Throws where an argument is left over, with what was perhaps meant, and where no command is.
void check_arguments(const CLI::App& app) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  const CLI::App& taker = given.empty() ? app : *given.front();
  const std::vector<std::string> left = app.remaining(true);
  std::vector<std::string> commands, options;
  for (const CLI::App* command : taker.get_subcommands({})) commands.push_back(command->get_name());
  for (const CLI::Option* option : taker.get_options())
    for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
  std::string expected;
  if (!commands.empty()) {
    const auto last = commands.end() - 1;
    expected = fmt::format("{} or {} was expected", fmt::join(commands.begin(), last, ", "), *last);
    if (left.empty()) throw Error("no command: " + expected);
  }
  if (left.empty()) return;
  const std::string first = without_guard(left.front());
  const bool is_option = first.starts_with("-");
  const auto meant = nearest_name(first.substr(0, first.find('=')), is_option ? options : commands);
  std::string help = is_option || commands.empty() ? "" : ": " + expected;
  if (meant) help = fmt::format("; did you mean {}?", *meant);
  throw Error(fmt::format("{}{} is not {}{}", given.empty() ? "" : taker.get_name() + ": ",
                          in_quotes(first),
                          is_option          ? "an option"
                          : commands.empty() ? "expected"
                                             : "a command",
                          help));
}

/// As many threads as were given; otherwise as ATTUNE_THREADS says, which is checked, as are the
/// variables of products: later, their errors would name the layer that computes first.
void use_threads(std::int64_t given) {
  given > 0 ? set_threads(static_cast<int>(given)) : void(threads());
  products();
}

}  // namespace

Command& Command::model(std::filesystem::path& path, const std::string& help) {
  const auto set = [&path](const std::string& text) {
    path = text;
    if (std::filesystem::is_directory(path)) path /= "best.safetensors";
  };
  options_.push_back({"model", help, "PATH", [&path] { return path.string(); }, set});
  return *this;
}

Command& Command::argument(const std::string& name, const std::string& help,
                           std::filesystem::path& path, bool required) {
  const auto set = [&path](const std::vector<std::string>& texts) { path = texts.front(); };
  arguments_.push_back({name, help, set, false, required});
  return *this;
}

Commands::Commands(std::string name, std::string what, std::string example)
    : name_(std::move(name)), what_(std::move(what)), example_(std::move(example)) {}

Command& Commands::add(std::string name, std::string what, std::string example,
                       std::function<int()> run) {
  return commands_.emplace_back(std::move(name), std::move(what), std::move(example),
                                std::move(run));
}

Command& Commands::only(std::string example, std::function<int()> run) {
  is_one_ = true;
  return add(name_, what_, std::move(example), std::move(run));
}

/// The command that was given, none after --help or --version; and the options that were typed.
const Command* Commands::parse(const std::vector<std::string>& arguments, bool everything,
                               std::set<std::string>& typed) {
  CLI::App app(what_, name_);
  app.option_defaults()->always_capture_default();
  // Of several times that an option is given the last one counts.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.get_formatter()->column_width(help_column);
  app.set_version_flag("--version", ATTUNE_VERSION, "print the version");
  app.footer(fmt::format("Example: {}", example_));
  if (!is_one_) app.require_subcommand(1);
  const Option threads{"threads", "threads (default: ATTUNE_THREADS, or all CPUs)", "NUMBER",
                       [] { return std::string(); },
                       [this](const std::string& text) {
                         models::detail::parse("threads", text, 1, 1024, threads_);
                       }};
  for (const Command& command : commands_) {
    CLI::App& sub = is_one_ ? app : *app.add_subcommand(command.name_, command.what_);
    const std::string shown = is_one_ ? name_ : name_ + " " + command.name_;
    const bool hides = !command.basic_.empty() && !everything;
    sub.footer((hides ? fmt::format("More options: {} --help-all\n", shown) : std::string()) +
               fmt::format("Example: {} {}", shown, command.example_));
    for (const auto& [name, help, set, several, required] : command.arguments_) {
      CLI::Option* added = sub.add_option_function<std::vector<std::string>>(name, set, help);
      const bool named = name.starts_with("--");
      if (named) added->type_name("PATH");
      if (several) added->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
      if (!several) added->expected(1);
      if (named || !several) added->allow_extra_args(false);
      added->required(required)->default_str("")->transform(without_guard);
    }
    for (const Option& option : command.options_) {
      CLI::Option* added = add_option(sub, option, command.sets_last_ || !option.is_last);
      const bool hidden = hides && !command.basic_.contains(option.name);
      if (hidden || !option.group.empty()) added->group(hidden ? "" : option.group);
      added->transform(without_guard);
    }
    if (command.threads_) add_option(sub, threads);
  }
  std::vector<std::string> guarded(arguments.rbegin(), arguments.rend());  // as CLI11 expects it
  for (std::string& argument : guarded)
    if (argument.starts_with('[') && argument.ends_with(']')) argument += bracket_guard;
  try {
    app.parse(guarded);
  } catch (const CLI::CallForHelp&) {
    std::string help = app.help();
    for (std::size_t at; (at = help.find("\n\n\n")) != help.npos;) help.erase(at, 1);
    return say("{}", wrapped(help)), nullptr;
  } catch (const CLI::CallForVersion&) {
    return say("attune {}\n", ATTUNE_VERSION), nullptr;
  } catch (const CLI::ConversionError& error) {  // "Could not convert: --json = VALUE"
    const std::string what = error.what();
    throw Error(in_quotes(what.substr(what.find(": ") + 2)) + ": a flag was expected");
  } catch (const CLI::ParseError&) {
    check_arguments(app);
    throw;
  }
  CLI::App& given = is_one_ ? app : *app.get_subcommands().front();
  const auto at = std::ranges::find(commands_, given.get_name(), &Command::name_);
  for (const Option& option : at->options_)
    if (given.count("--" + option.name) > 0) typed.insert(option.name);
  return &*at;
}

int Commands::run(int argc, char** argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const auto everything = std::ranges::find(arguments, "--help-all");
  if (everything != arguments.end()) *everything = "--help";
  std::set<std::string> typed;
  const auto read = [&] { return parse(arguments, everything != arguments.end(), typed); };
  const Command* const command = read();
  if (!command) return 0;
  for (const auto& changes : command->rereads_)
    if (changes()) read();
  for (const Option& option : command->options_) {
    if (typed.contains(option.name) && option.has_effect && !option.has_effect())
      fail("--" + option.name, fmt::format("it has no effect without {}", option.needs));
  }
  if (command->threads_ && !(command->forks_ && command->forks_())) use_threads(threads_);
  return command->run_();
}

}  // namespace attune
