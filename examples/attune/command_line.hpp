// The command line: a command, its options by name, and what stands without a name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "options.hpp"

namespace attune::pairs {

struct Command {
  const char* name;
  unsigned bit;
  const char* what;
  const char* example;
  std::vector<std::string> positional;  // options that arguments without a name are values of
  bool last_repeats = false;            // the last of these takes all that are left
};

/// The commands, in the order of --help.
std::span<const Command> commands();

struct CommandLine {
  const Command* command;
  std::vector<Given> given;  // those of --config first
};

/// Nothing where help or the version was asked for, which is then printed. Throws for what is no
/// option or no command, with what was perhaps meant, and for a line of a config file
/// "FILE:LINE: what is wrong".
std::optional<CommandLine> read_command_line(const std::vector<std::string>& arguments);

}  // namespace attune::pairs
