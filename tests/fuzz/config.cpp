// Configuration files of `translate train`.
#include "fuzz.hpp"
#include "translate/config_file.hpp"

namespace {

using namespace attune;
using fuzz::expect;

}  // namespace

void fuzz_one(std::string_view input) {
  const fuzz::MemoryFile file(input);
  const auto arguments = fuzz::accepted([&] { return translate::arguments_of_file(file.path()); });
  if (!arguments) return;
  std::string lines = "# again\n";
  for (std::size_t i = 0; i < arguments->size(); ++i) {
    const std::string& name = (*arguments)[i];
    expect(name.starts_with("--") && name.size() > 2, "not the name of an option");
    const bool is_flag = name == "--swap";
    expect(is_flag || i + 1 < arguments->size(), "an option without a value");
    const std::string value = is_flag ? "yes" : (*arguments)[++i];
    expect(value.find('\n') == value.npos, "a value of two lines");
    lines += fmt::format("{} = {}\r\n", name.substr(2), value);
  }
  const fuzz::MemoryFile again(lines);
  expect(translate::arguments_of_file(again.path()) == *arguments, "others come back");
}
