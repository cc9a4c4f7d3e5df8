// Precompiled for the tests of each layer.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/attune.hpp>
