// Reading checkpoints: metadata, and errors that begin with the file's path.
#pragma once

#include <filesystem>
#include <string>

#include <attune/tensor/check.hpp>
#include <attune/tensor/safetensors.hpp>

#include "support/output.hpp"

namespace attune {

/// Runs `read`; whatever it throws becomes an Error that begins with what is read: the path of a
/// checkpoint, or the name of an entry.
template <class F>
auto reading(const std::filesystem::path& what, F read) {
  try {
    return read();
  } catch (const std::exception& error) {
    throw Error(what.string() + ": " + message_of(error));
  }
}

/// How long it was trained for. Throws when it does not say.
double seconds_in(const Metadata& metadata);

/// Throws unless the checkpoint at this path has this format. The Error names the program that made
/// it, where that is one of ours.
void require_format(const Safetensors& file, const std::filesystem::path& path,
                    const std::string& format);

/// What `make` makes of a checkpoint of that format. Errors begin with its path.
template <class F>
auto from_checkpoint(const std::filesystem::path& path, const char* format, F make) {
  const Safetensors file = load_safetensors(path);
  return reading(path, [&] {
    require_format(file, path, format);
    return make(file);
  });
}

/// Throws an Error for the first option that was another in the run of that checkpoint.
/// `operation` is what the error begins with.
void check_same(const char* operation, const std::filesystem::path& checkpoint,
                const Metadata& stored, const Metadata& given);

/// Warns where the run used another engine of matrix products until now than products(). A
/// checkpoint keeps the engine's name as "products".
void compare_products(const Metadata& metadata);

}  // namespace attune
