#include "support/checkpoint.hpp"

#include <fmt/format.h>

#include <attune/nn/parameters.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/check.hpp>

namespace attune {

double seconds_in(const Metadata& metadata) {
  return nn::load_number(metadata, "seconds", 0, 1e10);
}

void require_format(const Safetensors& file, const std::string& format) {
  const auto kind = file.metadata.find("format");
  if (kind == file.metadata.end() || kind->second != format) {
    fail("checkpoint",
         fmt::format("not one of this program ('{}' was expected as its format)", format));
  }
}

void check_same(const char* operation, const std::filesystem::path& checkpoint,
                const Metadata& stored, const Metadata& given) {
  for (const auto& [name, value] : stored) {
    if (value == given.at(name)) continue;
    fail(operation, fmt::format("{} was trained with {} = '{}', not '{}'", checkpoint.string(),
                                name, value, given.at(name)));
  }
}

void compare_products(const Metadata& metadata) {
  const auto before = metadata.find("products");
  if (before == metadata.end() || before->second == products()) return;
  complain("the products were made by {} until now: results will differ in their last bits\n",
           printable(before->second));
}

}  // namespace attune
