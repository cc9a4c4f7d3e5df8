// Checks of exceptions.
#pragma once

#include <string>

#include <attune/tensor/errors.hpp>

namespace attune {

/// The message of the Error that a call throws, or "no error".
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

/// Checks that a statement throws an Error with this message.
#define CHECK_ERROR(message, ...) CHECK(::attune::error_of([&] { __VA_ARGS__; }) == message)

}  // namespace attune
