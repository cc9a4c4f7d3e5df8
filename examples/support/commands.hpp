// A program's command line: commands, each with tables of options. CLI11 stays in commands.cpp.
#pragma once

#include <deque>
#include <filesystem>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "support/training_options.hpp"

namespace attune {

/// An option of a command, bound to the place that its value goes to.
struct Option {
  std::string name, help, type;
  std::function<std::string()> get;
  std::function<void(const std::string&)> set;  // throws an Error where it cannot be
  std::vector<std::string> choices = {};
  bool is_flag = false;
  std::string needs = {};  // what it has no effect without,
  std::function<bool()> has_effect = {};
  std::string group = {};  // a heading of --help; "" for none
  bool is_last = false;    // of add_last
};

/// One command of a program.
class Command {
 public:
  Command(std::string name, std::string what, std::string example, std::function<int()> run)
      : name_(std::move(name)),
        what_(std::move(what)),
        example_(std::move(example)),
        run_(std::move(run)) {}

  /// A table of options, but for those that are `left_out`. The options must outlive the command.
  template <class Options, class Table = Fields<Options>>
  Command& add(const Table& fields, Options& options, const std::string& group = {},
               const std::set<std::string>& left_out = {}) {
    for (const auto& field : fields) {
      if (left_out.contains(field.name)) continue;
      Option& one = options_.emplace_back(Option{
          field.name, field.help, field.type, [&options, get = field.get] { return get(options); },
          [&options, set = field.set](const std::string& text) { set(options, text); },
          field.choices, field.is_flag, field.needs, nullptr, group});
      if (field.has_effect)
        one.has_effect = [&options, has = field.has_effect] { return has(options); };
    }
    return *this;
  }
  /// The same of options that depend on what is read before: set from `set_last` on.
  template <class Options, class Table>
  Command& add_last(const Table& fields, Options& options, const std::string& group) {
    const std::size_t first = options_.size();
    add(fields, options, group);
    for (std::size_t i = first; i < options_.size(); ++i) options_[i].is_last = true;
    return *this;
  }
  /// --model, a checkpoint; a directory stands for the best.safetensors in it.
  Command& model(std::filesystem::path& path,
                 const std::string& help = "checkpoint, or the directory of its training");
  /// What is typed without a name: one, or as many as there are. With a name, such as "--model",
  /// `arguments` are an option that may be given several times.
  Command& argument(const std::string& name, const std::string& help, std::filesystem::path& path,
                    bool required = true);
  template <class Text>
  Command& arguments(const std::string& name, const std::string& help, std::vector<Text>& texts) {
    const auto set = [&texts](const auto& given) { texts.assign(given.begin(), given.end()); };
    return arguments_.push_back({name, help, set}), *this;
  }
  /// Shows only these options in --help; --help-all shows the others, too.
  Command& basic(std::set<std::string> names) { return basic_ = std::move(names), *this; }
  /// Its work is done by processes of their own: it has no --threads.
  Command& in_processes() { return threads_ = false, *this; }
  /// The same where `forks` says so once all is read.
  Command& in_processes(std::function<bool()> forks) { return forks_ = std::move(forks), *this; }
  /// Called once all is read: where it returns true it has changed the options, to those of a
  /// checkpoint or a file, and what was typed is set once more.
  Command& reread(std::function<bool()> changes) {
    return rereads_.push_back(std::move(changes)), *this;
  }
  /// After the calls of `reread` before this one, the options of `add_last` are set, too.
  Command& set_last() {
    return reread([this] { return sets_last_ = true; });
  }
  /// Where a training is to be resumed, the options are those of its last.safetensors.
  template <class Options>
  Command& resumes(Options& o, Options (*stored)(const std::filesystem::path&)) {
    return reread([&o, stored] {
      if (!o.resumes()) return false;
      o = stored(o.last());
      return true;
    });
  }

 private:
  friend class Commands;
  /// What is typed without a name, or may be typed several times.
  struct Argument {
    std::string name, help;
    std::function<void(const std::vector<std::string>&)> set;
    bool several = true, required = false;
  };

  std::string name_, what_, example_;
  std::function<int()> run_;
  std::vector<std::function<bool()>> rereads_;
  std::function<bool()> forks_;
  std::vector<Option> options_;
  std::vector<Argument> arguments_;
  std::set<std::string> basic_;
  bool threads_ = true, sets_last_ = false;
};

/// The commands of a program:
///
///     Commands commands("forecast", "Forecasts measurements.", "forecast train --csv ETTh1.csv");
///     commands.add("train", "train a model", "--csv ETTh1.csv", [&] { return train(o); })
///         .add(train_fields(), o, "Training")
///         .resumes(o, stored_options);
///     return commands.run(argc, argv);
class Commands {
 public:
  /// `example` is what --help ends with, as is that of each command.
  Commands(std::string name, std::string what, std::string example);

  Command& add(std::string name, std::string what, std::string example, std::function<int()> run);
  /// A program that has no commands.
  Command& only(std::string example, std::function<int()> run);

  /// Reads the command line, and runs the command that it names: its status, or 0 after --help or
  /// --version. Throws a line that says what is wrong, and what was perhaps meant.
  int run(int argc, char** argv);

 private:
  const Command* parse(const std::vector<std::string>& arguments, bool everything,
                       std::set<std::string>& typed);

  std::string name_, what_, example_;
  std::deque<Command> commands_;
  bool is_one_ = false;
  std::int64_t threads_ = 0;
};

/// A list with commas between its entries, text or whole numbers from `low` on.
template <class Options, class T>
models::OptionField<Options> list_field(std::string name, std::string help,
                                        std::vector<T> Options::*member, T low = {}) {
  const auto get = [=](const Options& o) { return fmt::format("{}", fmt::join(o.*member, ",")); };
  const auto set = [=](Options& o, const std::string& text) {
    std::vector<T> all;
    for (std::size_t begin = 0, end; begin <= text.size(); begin = end + 1) {
      end = std::min(text.find(',', begin), text.size());
      const std::string one = text.substr(begin, end - begin);
      if constexpr (std::is_integral_v<T>) {
        models::detail::parse(name, one, static_cast<double>(low), 1e9, all.emplace_back());
      } else {
        all.push_back(one);
      }
    }
    o.*member = std::move(all);
  };
  return {name, std::move(help), {}, "LIST", get, set};
}

/// --json
template <class Options>
models::OptionField<Options> json_field(bool Options::*member, std::string help) {
  return models::flag_field<Options, bool>("json", std::move(help), member, false, true);
}

/// --out, --resume and --no-report of a training.
template <class Options>
Fields<Options> run_fields() {
  return {
      models::text_field<Options>(
          "out", "directory for best.safetensors, last.safetensors and log.jsonl", &Options::out),
      models::flag_field<Options, bool>("resume",
                                        "continue from last.safetensors, where there is one",
                                        &Options::resume, false, true),
      models::flag_field<Options, bool>("no-report", "no report.html in the end", &Options::report,
                                        true, false)};
}

}  // namespace attune
