// Configuration files of `attune train` and of the other commands.
#include "attune/options.hpp"
#include "fuzz.hpp"

namespace {

using namespace attune;
using fuzz::expect;

std::string lines_of(const Metadata& options) {
  std::string lines = "# again\n";
  for (const auto& [name, value] : options) lines += fmt::format(" {} = {}\r\n", name, value);
  return lines;
}

}  // namespace

void fuzz_one(std::string_view input) {
  const fuzz::MemoryFile file(input);
  const auto given = fuzz::accepted([&] { return pairs::read_config(file.path()); });
  if (!given) return;
  fuzz::accepted([&] {
    pairs::UseOptions use;
    return pairs::set_given(use, pairs::predict_command, *given), true;
  });
  pairs::TrainOptions options = pairs::train_options(true);
  if (!fuzz::accepted([&] { return pairs::set_given(options, *given), true; })) return;
  const Metadata map = pairs::to_metadata(options);
  const fuzz::MemoryFile again_file(lines_of(map));
  pairs::TrainOptions again = pairs::train_options(true);
  // Fails for paths that begin or end with blanks, which read_config removes.
  if (!fuzz::accepted(
          [&] { return pairs::set_given(again, pairs::read_config(again_file.path())), true; }))
    return;
  expect(pairs::to_metadata(again).at("model") == map.at("model"),
         "the model differs after reading");
}
