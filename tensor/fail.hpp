// Errors whose message is a format. Not installed: fmt stays out of public headers.
#pragma once

#include <utility>

#include <fmt/format.h>

#include <attune/tensor/check.hpp>

template <>
struct fmt::formatter<attune::Shape> : fmt::formatter<std::string_view> {
  auto format(const attune::Shape& shape, fmt::format_context& context) const {
    return fmt::formatter<std::string_view>::format(attune::to_string(shape), context);
  }
};

namespace attune {

/// Throws Error("operation: ..."): fail("reshape", "{} cannot become {}", x.shape(), shape).
template <class Argument, class... More>
[[noreturn]] void fail(std::string_view operation, fmt::format_string<Argument, More...> text,
                       Argument&& argument, More&&... more) {
  fail(operation, std::string_view(fmt::format(text, std::forward<Argument>(argument),
                                               std::forward<More>(more)...)));
}

}  // namespace attune
