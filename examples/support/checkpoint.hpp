// Reading checkpoints: metadata, and errors that begin with the file's path.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <attune/tensor/check.hpp>
#include <attune/tensor/safetensors.hpp>

#include "support/output.hpp"

namespace attune {

/// Runs `read`, which takes something from a checkpoint; whatever it throws becomes an Error that
/// begins with the checkpoint's path.
template <class F>
auto reading(const std::filesystem::path& checkpoint, F read) {
  try {
    return read();
  } catch (const std::exception& error) {
    throw Error(checkpoint.string() + ": " + message_of(error));
  }
}

/// An entry of a checkpoint's metadata, as text and as a number. Throw when it is missing, or not a
/// number.
const std::string& entry(const std::map<std::string, std::string>& metadata,
                         const std::string& name);
double number_in(const std::map<std::string, std::string>& metadata, const std::string& name);

/// Throws unless the file says that it has this format, that of one of our programs.
void require_format(const Safetensors& file, const std::string& format);

}  // namespace attune
