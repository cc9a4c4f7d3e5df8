// Options of `translate train` from a file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace attune::translate {

/// A file with NAME = VALUE on each line, and perhaps empty lines and those that begin with #, as
/// arguments: {"--NAME", "VALUE", ...}. Throws an Error "FILE:LINE: what is wrong" for a line of
/// another form, for a name that is not of an option, and for a value that the option refuses.
std::vector<std::string> arguments_of_file(const std::filesystem::path& path);

}  // namespace attune::translate
