// What command lines have in common.
#pragma once

#include <charconv>
#include <string>
#include <type_traits>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace attune {

/// Accepts numbers from low to high, whole ones where these are; NaN is none of them.
template <class T>
CLI::Validator in_range(T low, T high) {
  const std::string range = fmt::format("{} to {}", low, high);
  const auto check = [=](const std::string& text) {
    T value{};
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    if (error == std::errc() && end == last && value >= low && value <= high) return std::string();
    return fmt::format("'{}' is not a {} from {}", text,
                       std::is_integral_v<T> ? "whole number" : "number", range);
  };
  return CLI::Validator(check, "");  // ranges would crowd --help; errors have them
}

}  // namespace attune
