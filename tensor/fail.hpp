// Errors with fmt format strings. Not installed: public headers do not include fmt.
#pragma once

#include <cmath>
#include <type_traits>
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

namespace detail {
/// The value; NaN without its sign, which depends on the CPU and would print as "-nan".
template <class T>
decltype(auto) shown(T&& value) {
  if constexpr (std::is_floating_point_v<std::remove_cvref_t<T>>)
    return value != value ? std::abs(value) : value;
  else
    return std::forward<T>(value);
}
}  // namespace detail

/// Throws Error("operation: ...") with a formatted message: fail("matmul", "{} x {}", a, b).
template <class Argument, class... More>
[[noreturn]] void fail(std::string_view operation, fmt::format_string<Argument, More...> text,
                       Argument&& argument, More&&... more) {
  fail(operation, std::string_view(fmt::format(fmt::runtime(fmt::string_view(text)),
                                               detail::shown(std::forward<Argument>(argument)),
                                               detail::shown(std::forward<More>(more))...)));
}

}  // namespace attune
