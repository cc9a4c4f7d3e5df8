#include "support/checkpoint.hpp"

#include <tuple>

#include <fmt/format.h>

#include <attune/nn/parameters.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/check.hpp>

namespace attune {

double seconds_in(const Metadata& metadata) {
  return nn::load_number(metadata, "seconds", 0, 1e10);
}

void require_format(const Safetensors& file, const std::filesystem::path& path,
                    const std::string& format) {
  const auto entry = file.metadata.find("format");
  const std::string own = entry == file.metadata.end() ? "" : entry->second;
  if (own == format) return;
  const std::string expected = fmt::format("'{}' was expected as its format", format);
  for (const auto& [kind, program, command] : {std::tuple{"attune pairs ", "attune", "predict"},
                                               {"attune speech ", "speech", "recognise"},
                                               {"attune forecast ", "forecast", "predict"}}) {
    if (!own.starts_with(kind)) continue;
    if (format.starts_with(kind))
      fail("checkpoint", fmt::format("its format is '{}'; {}", printable(own), expected));
    fail("checkpoint", fmt::format("it is one of {1} (try: {1} {2} --model {0}); {3}",
                                   path.string(), program, command, expected));
  }
  fail("checkpoint", fmt::format("not one of this program; {}", expected));
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
