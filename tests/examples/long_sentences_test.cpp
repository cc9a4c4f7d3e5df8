// End-to-end tests of `long_sentences`.
#include <sstream>

#include "program.hpp"

namespace attune::test {
namespace {

/// The accuracies of a row of the table, in percent.
std::vector<double> row_of(const std::string& table, const std::string& name) {
  std::istringstream row(table.substr(table.find("\n" + name + " ") + 1 + name.size()));
  std::vector<double> values;
  for (double value; row >> value;) values.push_back(value);
  return values;
}

TEST_CASE("long_sentences: trains; reuses saved weights; independent of the number of threads") {
  const Directory directory;
  const Arguments small = {
      "--models",       "luong-dot,encoder-decoder", "--steps", "150", "--longest", "4", "--out",
      directory / "one"};
  const std::string table = output_of(small);
  const std::vector<double> luong = row_of(table, "luong-dot");
  CHECK(luong.size() == 9);
  CHECK(luong[0] > 3 * luong[8]);  // trained only on short sentences
  const std::string file = directory / "one/luong-dot.safetensors";
  const auto written = std::filesystem::last_write_time(file);
  const std::string again = output_of(small);
  CHECK(table.ends_with(again));
  CHECK(std::filesystem::last_write_time(file) == written);
  const std::string three = output_of(small + Arguments{"--out", directory / "three"},
                                      {.environment = {{"ATTUNE_THREADS", "3"}}});
  CHECK(three.substr(three.find("\nCorrect")) == table.substr(table.find("\nCorrect")));
  check_same_tensors(file, directory / "three/luong-dot.safetensors");
  output_of(small + Arguments{"--steps", "1"});  // other options: trains again
  CHECK(std::filesystem::last_write_time(file) != written);
}

TEST_CASE("long_sentences: every model trains and is tested") {
  const Directory directory;
  const std::string table = output_of({"--steps", "1", "--hidden", "8", "--out", directory.path()});
  for (const char* name : {"encoder-decoder", "sutskever", "bahdanau", "nematus", "transformer",
                           "luong-location", "luong-local-p", "luong-sparsemax"})
    CHECK(row_of(table, name).size() == 9);
}

TEST_CASE("long_sentences: errors are one line and status 1") {
  const Directory directory;
  write(directory / "file", "mine");
  check_errors({{{"--steps", "0"}, "steps: '0' is not a whole number from 1"},
                {{"--hidden", "12"}, "--hidden: expected a multiple of 8"},
                {{"--models", "bahdanau,foo"},
                 "--models: expected different names of models, got 'bahdanau,foo'"},
                {{"--colour", "1"}, "--colour"},
                {{"words"}, "usage: long_sentences"},
                {{"--out", directory / "file"}, "file"}});
}

}  // namespace
}  // namespace attune::test
