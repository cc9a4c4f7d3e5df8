// What calls throw.
#pragma once

#include <string>

#include <attune/tensor/check.hpp>

namespace attune {

/// What a call throws: the message of its Error, or "no error".
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

/// A statement that throws an Error of this message.
#define CHECK_ERROR(message, ...) CHECK(::attune::error_of([&] { __VA_ARGS__; }) == message)

}  // namespace attune
