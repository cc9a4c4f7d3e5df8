// Arguments and environment of new processes, for posix_spawn and exec.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace attune::test {

/// Pointers to the texts with a null at the end, as exec requires.
std::vector<char*> pointers(std::vector<std::string>& texts);

/// The environment of this process with changes, as NAME=VALUE.
std::vector<std::string> environment_with(const std::map<std::string, std::string>& changes);

}  // namespace attune::test
