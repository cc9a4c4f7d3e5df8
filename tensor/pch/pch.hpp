// Precompiled once per layer: parsing these headers is half of the time that most sources take.
// Every source still includes what it uses; -Db_pch=false builds without.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include <fmt/format.h>
