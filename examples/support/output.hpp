// Standard output.
#pragma once

#include <cstdio>

#include <attune/tensor/check.hpp>

namespace attune {

/// What was printed must have been written: a full disk is an error like any other.
inline void flush_output() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    fail("standard output", "it cannot be written");
  }
}

}  // namespace attune
