// Precompiled header of the tests.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/attune.hpp>
