// One clear message where C++20 is not on, and not hundreds that follow from it.
#pragma once

#if __cplusplus < 202002L
#error "attune needs C++20: compile with -std=c++20, by g++ 12 or clang 14 or newer ones"
#include <attune/stop>  // There is no such file, and without it no compiler goes on.
#endif
