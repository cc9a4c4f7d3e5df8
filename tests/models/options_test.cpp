// Options as text: each kind is set, read back, and refuses what it cannot be.
#include <cmath>

#include <doctest/doctest.h>

#include <attune/models/options.hpp>

#include "support/errors.hpp"

namespace attune::models {
namespace {

struct Chosen {
  Index size = 3;
  double rate = 0.5;
  std::string name = "a";
  std::filesystem::path file = "b";
  std::vector<Index> sizes = {1};
  bool fast = false;
  std::uint64_t seed = 0;
};

OptionList fields_of(Chosen& o) {
  return {option("size", "elements", o.size, 1, 10),   option("rate", "per step", o.rate, 0, 1),
          option("name", "of it", o.name, "NAME"),     option("file", "to read", o.file, "FILE"),
          option("sizes", "of each", o.sizes, 1, 1e9), flag("fast", "or not", o.fast),
          option("seed", "of all", o.seed, 0, 1e18)};
}

TEST_CASE("options: values as text, and back") {
  Chosen o;
  const std::map<std::string, std::string> values = {{"size", "10"},
                                                     {"rate", "0.25"},
                                                     {"name", "x y"},
                                                     {"file", "c/d"},
                                                     {"sizes", "4,5"},
                                                     {"fast", "yes"},
                                                     {"seed", "1000000000000000000"}};
  set_from(o, values);
  CHECK(to_map(o) == values);
  CHECK(o.sizes == std::vector<Index>{4, 5});
  CHECK(o.file == "c/d");
  options_of(o).set(o, *find(options_of(o), "rate"), "-0");
  CHECK_FALSE(std::signbit(o.rate));
}

TEST_CASE("options: what a value cannot be is an error that leaves it as it was") {
  Chosen o;
  const auto set = [&](const char* name, const char* value) {
    options_of(o).set(o, *find(options_of(o), name), value);
  };
  CHECK_ERROR("size: '11' is not a whole number from 1 to 10", set("size", "11"));
  CHECK_ERROR("rate: 'x' is not a number from 0 to 1", set("rate", "x"));
  CHECK_ERROR("sizes: '' is not a whole number from 1 to 1000000000", set("sizes", "2,"));
  CHECK_ERROR("seed: '1000000000000000001' is not a whole number from 0 to 1000000000000000000",
              set("seed", "1000000000000000001"));
  CHECK_ERROR("fast: 'maybe' is not one of no, yes", set("fast", "maybe"));
  CHECK(o.size == 3);
  CHECK(o.sizes == std::vector<Index>{1});
}

}  // namespace
}  // namespace attune::models
