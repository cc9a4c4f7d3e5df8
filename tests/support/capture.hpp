// CAPTURE for structured bindings: clang 14 does not allow them in CAPTURE's lambda.
#pragma once

#include <doctest/doctest.h>

#define CAPTURE_BINDING(name)         \
  const auto& captured_##name = name; \
  INFO(#name " := ", captured_##name)
