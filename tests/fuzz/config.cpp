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
  expect(arguments->size() % 2 == 0, "an option without a value");
  std::string lines = "# again\n";
  for (std::size_t i = 0; i + 1 < arguments->size(); i += 2) {
    const std::string &name = (*arguments)[i], &value = (*arguments)[i + 1];
    expect(name.starts_with("--") && name.size() > 2, "not the name of an option");
    expect(value.find('\n') == value.npos, "a value of two lines");
    lines += fmt::format("{} = {}\r\n", name.substr(2), value);
  }
  const fuzz::MemoryFile again(lines);
  expect(translate::arguments_of_file(again.path()) == *arguments, "others come back");
}
