// What was perhaps meant by an argument that a program does not know.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace attune {

/// The name that is nearest to what was given: few letters differ ("trian", train), or it has a
/// word of it ("--learning-rate", --rate). Nothing where none is near.
std::optional<std::string> nearest_name(const std::string& given,
                                        const std::vector<std::string>& names);

}  // namespace attune
