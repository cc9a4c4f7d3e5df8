// CAPTURE of a structured binding, which clang 14 does not let the lambda of CAPTURE see.
#pragma once

#include <doctest/doctest.h>

#define CAPTURE_BINDING(name)         \
  const auto& captured_##name = name; \
  INFO(#name " := ", captured_##name)
