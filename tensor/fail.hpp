// Errors with fmt format strings. Not installed: public headers do not include fmt.
#pragma once

#include <utility>

#include <fmt/format.h>

#include <attune/tensor/errors.hpp>
#include <attune/tensor/shape.hpp>

template <>
struct fmt::formatter<attune::Shape> : fmt::formatter<std::string_view> {
  auto format(const attune::Shape& shape, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(attune::to_string(shape), context);
  }
};

namespace attune {

/// Throws Error("operation: ...") with a formatted message: fail("matmul", "{} x {}", a, b).
template <class Argument, class... More>
[[noreturn]] void fail(std::string_view operation, fmt::format_string<Argument, More...> text,
                       Argument&& argument, More&&... more) {
  fail(operation, std::string_view(fmt::format(text, std::forward<Argument>(argument),
                                               std::forward<More>(more)...)));
}

}  // namespace attune
