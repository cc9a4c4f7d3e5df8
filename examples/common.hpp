// What the example programs share: errors in one line, command lines, progress.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include <attune/models/options.hpp>
#include <attune/tensor/check.hpp>

namespace attune::examples {

/// The exit status that `body` returns. What it throws becomes one line on standard error,
/// "NAME: what is wrong", and status 1; so does a standard output that cannot be written.
inline int run_program(const char* name, const std::function<int()>& body) {
  std::string error;
  try {
    const int status = body();
    if (std::cout.flush() && std::fflush(stdout) == 0) return status;
    error = "standard output: it cannot be written";
  } catch (const std::bad_alloc&) {
    error = "there is not enough memory";
  } catch (const std::exception& thrown) {
    error = thrown.what();
  }
  std::cerr << name << ": " << printable(error) << "\n";
  return 1;
}

/// Arguments as they were typed: options with their values, and the others in their order.
struct Arguments {
  std::vector<std::pair<std::string, std::string>> options;
  std::vector<std::string> others;
};

/// Splits `--name value`, `--name=value`, and `--name` alone where `is_flag(name)`, whose value is
/// "yes", from the others. After `--` there are no options.
inline Arguments split_arguments(const std::vector<std::string>& arguments,
                                 const std::function<bool(const std::string&)>& is_flag) {
  Arguments split;
  bool options = true;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& one = arguments[i];
    if (!options || !one.starts_with("--")) {
      split.others.push_back(one);
    } else if (one == "--") {
      options = false;
    } else if (const std::size_t equals = one.find('='); equals != one.npos) {
      split.options.emplace_back(one.substr(2, equals - 2), one.substr(equals + 1));
    } else if (is_flag(one.substr(2))) {
      split.options.emplace_back(one.substr(2), "yes");
    } else if (i + 1 < arguments.size()) {
      split.options.emplace_back(one.substr(2), arguments[++i]);
    } else {
      fail(in_quotes(one), "a value was expected");
    }
  }
  return split;
}

/// The lines of --help: each option with its type, help, choices and default.
inline std::string help_of(const models::OptionList& options) {
  std::string text, group;
  for (const models::Option& one : options) {
    if (one.group != group) text += "\n" + (group = one.group) + ":\n";
    std::string left = "  --" + one.name + (one.is_flag ? "" : " " + one.type);
    left.resize(std::max<std::size_t>(left.size() + 2, 32), ' ');
    std::string right = one.help;
    for (std::size_t i = 0; i < one.choices.size() && !one.is_flag; ++i)
      right += (i == 0 ? ": " : ", ") + one.choices[i];
    const std::string value = one.is_flag ? "" : one.get();
    if (!value.empty() && right.find("(default") == right.npos) right += " [" + value + "]";
    std::istringstream words(right);
    std::size_t column = left.size();
    text += left;
    for (std::string word; words >> word; column += word.size() + 1) {
      if (column + word.size() > 100) text.back() = '\n', text += std::string(column = 32, ' ');
      text += word + " ";
    }
    text.back() = '\n';
  }
  return text;
}

/// Sets the options that are typed, and returns the other arguments. With --help it prints `usage`
/// and the options, and ends the program. Throws on an option that is none of these, or as its
/// `set` does.
inline std::vector<std::string> parse_command_line(int argc, char** argv, const std::string& usage,
                                                   const models::OptionList& options) {
  const std::vector<std::string> typed(argv + std::min(argc, 1), argv + argc);
  if (std::ranges::find(typed, "--help") != typed.end()) {
    std::cout << usage << "\n" << help_of(options);
    std::exit(0);
  }
  const Arguments split = split_arguments(typed, [&](const std::string& name) {
    const models::Option* one = models::find(options, name);
    return one && one->is_flag;
  });
  for (const auto& [name, value] : split.options) {
    const models::Option* one = models::find(options, name);
    if (!one) fail(in_quotes("--" + name), "there is no such option; --help lists them");
    try {
      one->set(value);
    } catch (const Error& error) {
      throw Error("--" + std::string(error.what()));
    }
  }
  return split.others;
}

/// Progress to a number of steps, with rate and time left: on a terminal one line that is rewritten
/// at most ten times a second, elsewhere a line a minute.
class Progress {
 public:
  /// The rate is of `unit`: "words" for words/s.
  Progress(Index steps, std::string unit) : steps_(steps), unit_(std::move(unit)) {}
  ~Progress() {
    if (open_) std::cout << std::endl;
  }

  /// After `step` steps, the last of which took `size` units; `status` may have the loss. A
  /// `lasting` line is always shown, and stays.
  void show(Index step, double size, const std::string& status, bool lasting = false) {
    units_ += size;
    const auto now = Clock::now();
    const bool terminal = isatty(STDOUT_FILENO) == 1;
    const std::chrono::duration<double> pause = now - shown_, passed = now - start_;
    if (!lasting && pause.count() < (terminal ? 0.1 : 60)) return;
    shown_ = now;
    std::ostringstream line;
    line << "step " << step << " of " << steps_ << "  " << status << "  "
         << std::lround(units_ / passed.count()) << " " << unit_ << "/s  "
         << std::lround(passed.count() / static_cast<double>(step) *
                        static_cast<double>(steps_ - step))
         << " s left";
    std::cout << (terminal ? "\r\x1b[K" : "") << line.str();
    open_ = terminal && !lasting;
    open_ ? std::cout.flush() : std::cout << std::endl;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Index steps_;
  std::string unit_;
  double units_ = 0;
  bool open_ = false;
  Clock::time_point start_ = Clock::now(), shown_ = start_;
};

}  // namespace attune::examples
