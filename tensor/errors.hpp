// Errors, whose messages are one line.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include <attune/tensor/utf8.hpp>

namespace attune {

/// The base of all exceptions of the library. Its message is one line: "operation: what is wrong".
class Error : public std::runtime_error {
 public:
  /// Escapes the message with `printable`, as it may quote a file from an untrusted source.
  explicit Error(std::string_view message);
};

/// Allocation failed; the program may continue. The message is for example "matmul: there is no
/// memory for (100000, 100000) f32, 40 GB".
class OutOfMemory : public Error {
 public:
  /// `what` describes what was to be allocated, "(2, 3) f32", or is empty. `operation` may be
  /// empty: a caller can add it with throw_as.
  OutOfMemory(std::string_view operation, std::string what, std::size_t bytes);
  /// Rethrows inside a catch block, with this operation if the error does not name one yet.
  [[noreturn]] void throw_as(std::string_view operation) const;

 private:
  std::string what_;
  std::size_t bytes_;
  bool named_;
};

/// Throws Error("operation: message"). While a layer with a path is running in this thread, the
/// message ends with ", in PATH", for example ", in encoder.forward".
[[noreturn]] void fail(std::string_view operation, std::string_view message);

}  // namespace attune
