// Errors that say where in a model they came up. Not installed.
#pragma once

#include <string>

#include <attune/tensor/check.hpp>

namespace attune::nn::detail {

/// f(); an Error gets the path of the layer or parameter at its end: "..., in encoder.forward".
template <class F>
decltype(auto) in_layer(const std::string& path, F f) {
  try {
    return f();
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    if (path.empty()) throw;
    throw Error(std::string(error.what()) + ", in " + path);
  }
}

}  // namespace attune::nn::detail
