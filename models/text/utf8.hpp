// UTF-8 text as code points.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace attune::text {

/// The code points of a text, each as UTF-8. Throws an Error that names the first byte which is not
/// UTF-8.
std::vector<std::string> code_points(std::string_view text);

}  // namespace attune::text
