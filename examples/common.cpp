#include "common.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <new>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include <attune/models/text/metrics.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/platform.hpp>

namespace attune::examples {

std::string message_of(const std::exception& error) {
  if (const auto* file = dynamic_cast<const std::filesystem::filesystem_error*>(&error))
    return file->path1().string() + ": " + file->code().message();
  // Containers throw length_error for a size that no memory could hold.
  if (dynamic_cast<const std::bad_alloc*>(&error) || dynamic_cast<const std::length_error*>(&error))
    return "there is not enough memory";
  return error.what();
}

int run_program(const char* name, const std::function<int()>& body,
                const std::function<void()>& failed) {
  std::string error = "standard output: cannot be written";
  platform::prepare_process();
  try {
    const int status = body();
    if (status != 0 || (std::cout.flush() && std::fflush(stdout) == 0 && !std::ferror(stdout)))
      return status;
  } catch (const std::exception& thrown) {
    error = message_of(thrown);
  }
  std::cerr << fmt::format("{}: {}\n", name, printable(error));  // in one write
  failed();
  return 1;
}

std::string did_you_mean(const std::string& typed, const std::vector<std::string>& names,
                         const std::string& otherwise) {
  const auto letters = [](const std::string& s) { return std::vector<int>(s.begin(), s.end()); };
  std::int64_t fewest = 3;
  std::string nearest;
  for (const std::string& name : names) {
    if (std::abs(std::ssize(typed) - std::ssize(name)) >= fewest) continue;
    const std::int64_t count = metrics::edits(letters(typed), letters(name)).count();
    if (count < fewest && 2 * count < std::ssize(name)) fewest = count, nearest = name;
  }
  return nearest.empty() ? otherwise : "; did you mean " + nearest + "?";
}

namespace {

std::string did_you_mean(const Given& given, const models::OptionList& options,
                         const std::string& otherwise) {
  const std::string dashes = given.place.empty() ? "--" : "";
  std::vector<std::string> names;
  for (const models::Option& one : options) names.push_back(dashes + one.name);
  return examples::did_you_mean(dashes + given.name, names, otherwise);
}

}  // namespace

Arguments split_arguments(const std::vector<std::string>& arguments,
                          const models::OptionList& options) {
  Arguments split;
  bool ended = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& one = arguments[i];
    const std::string name = one.substr(std::min<std::size_t>(2, one.size()));
    const models::Option* const option = models::find(options, name);
    if (!ended && one == "-h") {
      split.options.push_back({"help", "yes"});
    } else if (ended || !one.starts_with("--")) {
      split.others.push_back(one);
    } else if (one == "--") {
      ended = true;
    } else if (const std::size_t equals = one.find('='); equals != one.npos) {
      split.options.push_back({one.substr(2, equals - 2), one.substr(equals + 1)});
    } else if (name == "help" || name == "help-all" || (option && option->is_flag)) {
      split.options.push_back({name, "yes"});
    } else if (i + 1 < arguments.size() && !arguments[i + 1].starts_with("--")) {
      split.options.push_back({name, arguments[++i]});
    } else if (option) {
      fail(one, "the value is missing");
    } else {
      fail(in_quotes(one),
           "unknown option, or its value is missing" + did_you_mean({name, ""}, options, ""));
    }
  }
  return split;
}

std::string help_of(const AnyOptions& options) {
  std::string text, group;
  for (const models::Option& one : options.table) {
    if (one.group != group) text += "\n" + (group = one.group) + ":\n";
    std::string left = "  --" + one.name + (one.is_flag ? "" : " " + one.type);
    left.resize(std::max(left.size() + 2, std::size_t{32}), ' ');
    std::string right = one.help;
    for (std::size_t i = 0; i < one.choices.size() && !one.is_flag; ++i)
      right += (i == 0 ? "; one of " : ", ") + models::with_hyphens(one.choices[i]);
    const std::string value = one.is_flag ? "" : one.get(options.object);
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

void naming(const Given& given, const std::function<void()>& set) {
  try {
    set();
  } catch (const Error& error) {
    throw Error((given.place.empty() ? "--" : given.place) + error.what());
  }
}

void set_given(const AnyOptions& options, const Given& given, const char* help) {
  const models::Option* one = models::find(options.table, given.name);
  if (!one)
    throw Error(given.place + in_quotes((given.place.empty() ? "--" : "") + given.name) +
                " is not an option" +
                did_you_mean(given, options.table, fmt::format("; {} lists them", help)));
  naming(given, [&] {
    if (given.value.empty() && (one->type == "FILE" || one->type == "PATH"))
      fail(given.name, "the path is empty");
    one->set(options.object, given.value);
  });
}

void check_effects(const AnyOptions& options, const std::vector<Given>& given) {
  for (const Given& one : given) {
    const models::Option* option = models::find(options.table, one.name);
    if (option && !option->has_effect(options.object))
      naming(one, [&] { fail(one.name, "has no effect without " + option->needs); });
  }
}

std::vector<std::string> parse_command_line(int argc, char** argv, const std::string& usage,
                                            const AnyOptions& options) {
  const std::vector<std::string> typed(argv + std::min(argc, 1), argv + argc);
  if (std::ranges::count(typed, "--help") + std::ranges::count(typed, "-h") > 0) {
    std::cout << usage << "\n" << help_of(options);
    if (!std::cout.flush()) fail("standard output", "cannot be written");
    std::exit(0);
  }
  const Arguments split = split_arguments(typed, options.table);
  for (const Given& given : split.options) set_given(options, given, "--help");
  if (options.arguments) *options.arguments = split.others;
  check_effects(options, split.options);
  return split.others;
}

Safetensors checkpoint_of(const nn::Parameters& parameters,
                          std::map<std::string, std::string> options, const std::string& path) {
  Safetensors file{.tensors = {}, .metadata = std::move(options)};
  file.metadata[path] = "";
  for (const auto& [name, w] : parameters) file.add(name, w.value().clone());
  return file;
}

void require_writable(const std::filesystem::path& path,
                      const std::vector<std::filesystem::path>& others) {
  int error = path.empty() ? ENOENT : std::filesystem::is_directory(path) ? EISDIR : 0;
  // A regular file is replaced by a new one in its directory; a pipe or device is written directly.
  const bool itself = std::filesystem::exists(path) && !std::filesystem::is_regular_file(path);
  const std::filesystem::path directory = path.has_parent_path() ? path.parent_path() : ".";
  if (error == 0 && !platform::is_writable(itself ? path : directory)) error = errno;
  if (error != 0) fail(path.string(), fmt::format("cannot be written: {}", std::strerror(error)));
  std::error_code none;  // a missing input is reported when it is read
  for (const auto& other : others) {
    // A pipe or device may be both input and output.
    if (!itself && (path == other || std::filesystem::equivalent(path, other, none)))
      fail(path.string(), "is also read or written by this program, expected another file");
  }
}

void warn_of_rare_tokens(const std::string& what, const text::TokenCounts& counts) {
  std::int64_t all = 0;
  for (const auto& [token, count] : counts) all += count;
  if (2 * std::ssize(counts) <= all || all < 100) return;
  const char* const remedy =
      "separate smaller units by blanks, or use attune train --tokens characters";
  std::cerr << printable(fmt::format("warning: {}: {} of {} words are different: {}", what,
                                     counts.size(), all, remedy))
            << "\n";
}

std::string in_shell(const std::string& path) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) || c >= 0x80 ||
           std::string_view("_./-+:,@%=").find(c) != std::string::npos;
  };
  std::string quoted = "'";
  if (printable(path) != path) {
    for (const unsigned char c : path) quoted += fmt::format("\\{:03o}", c);
    return "\"$(printf " + quoted + "')\"";
  }
  if (!path.empty() && std::ranges::all_of(path, plain)) return path;
  for (const char c : path) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string program_in_shell() { return in_shell(platform::program_name()); }

double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

std::string duration(double seconds) {
  const long s = std::lround(seconds);
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

bool obeys_escapes() {
  const char* const terminal = std::getenv("TERM");
  return platform::is_terminal(platform::Stream::output) &&
         !(terminal && std::string_view(terminal) == "dumb");
}

Progress::~Progress() {
  if (open_) std::puts("");
}

void Progress::show(Index done, const std::string& text, bool line, const TimeLimit& limit) {
  const bool rewrites = obeys_escapes();
  if (!line && seconds_since(shown_) < (rewrites ? 0.1 : 60)) return;
  shown_ = std::chrono::steady_clock::now();
  const auto here = static_cast<double>(std::max<Index>(1, done - first_));
  const double steps_left = seconds_since(start_) / here * static_cast<double>(total_ - done);
  const double left = std::clamp(steps_left, 0.0, std::max(0.0, limit.most - limit.passed));
  const double steps_done = static_cast<double>(done) / static_cast<double>(total_);
  const double share = std::min(1.0, std::max(steps_done, limit.passed / limit.most));
  const std::string percent = fmt::format("{:3.0f} %", 100 * share),
                    count = fmt::format("  {} {}/{}", unit_, done, total_),
                    end = done == total_ ? "" : fmt::format("  {} left", duration(left));
  open_ = rewrites && !line;
  // The most important fields come first, since a narrow terminal truncates the line: a wrapped
  // line could not be rewritten by "\r".
  const int columns = platform::terminal_columns();
  std::string shown =
      printable(open_ ? percent + end + count + "  " + text : percent + count + "  " + text + end);
  if (open_ && columns > 1) shown = text::cut(shown, columns - 1);
  std::fputs(((rewrites ? "\r\x1b[K" : "") + shown + (open_ ? "" : "\n")).c_str(), stdout);
  std::fflush(stdout);
}

}  // namespace attune::examples
