#include "attune/alignment_forms.hpp"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tools.hpp"

namespace {

using namespace attune::report;
using attune::test::lines_of;
using attune::text::Alignment;
using attune::text::parse_links;
using Strings = std::vector<std::string>;

/// Three source words and two target words, so that no axis can be exchanged unnoticed.
const Heatmap kMap = {.rows = {"a", "house"},
                      .columns = {"ein", "Haus", "."},
                      .weights = {0, 0.25, 0.75, 0.1, 0.5, 1},
                      .caption = {}};

Heatmap matrix(std::size_t rows, std::size_t columns, std::vector<double> weights) {
  return {Strings(rows, "t"), Strings(columns, "s"), std::move(weights), {}};
}

TEST_CASE("argmax_links: each target word is linked to the source word it read most, or to none") {
  CHECK(argmax_links(kMap) == Alignment{{2, 0}, {2, 1}});
  CHECK(argmax_links(matrix(3, 2, {.4, .6, .9, .1, .2, .8})) == Alignment{{0, 1}, {1, 0}, {1, 2}});
  CHECK(argmax_links(matrix(2, 4, {.1, .4, .4, .1, .25, .25, .25, .25})) ==
        Alignment{{0, 1}, {1, 0}});  // the first of equals
  CHECK(argmax_links(matrix(3, 2, {0, 0, 0, 1e-300, 0, 0})) == Alignment{{1, 1}});
  CHECK(argmax_links(matrix(3, 0, {})).empty());
}

TEST_CASE("pharaoh: source-target from 0 on, which is read back") {
  CHECK(pharaoh({{0, 0}, {1, 2}, {10, 3}}) == "0-0 1-2 10-3");
  for (const Alignment& links : {Alignment{}, Alignment{{0, 7}, {3, 0}, {3, 12}, {2147483647, 1}}})
    CHECK(parse_links(pharaoh(links)) == links);
}

TEST_CASE(
    "tsv: source words along the top, then a line for each target word, whatever is in them") {
  CHECK(tsv(kMap) == "\tein\tHaus\t.\na\t0\t0.25\t0.75\nhouse\t0.1\t0.5\t1\n");
  CHECK(tsv(matrix(2, 0, {})) == "\nt\nt\n");
  const Strings words = {"", "\t", "\r\n", "\\", "\\t", "日本語", " end "};
  CHECK(tsv({words, {"s"}, std::vector<double>(words.size(), 1.f / 3), {}}) ==
        "\ts\n\t0.33333334\n\\t\t0.33333334\n\\r\\n\t0.33333334\n\\\\\t0.33333334\n"
        "\\\\t\t0.33333334\n日本語\t0.33333334\n end \t0.33333334\n");
}

TEST_CASE("json: an object with source, target and a row of weights per target word, in one line") {
  CHECK(json(kMap) == R"({"source":["ein","Haus","."],"target":["a","house"],)"
                      R"("weights":[[0.0,0.25,0.75],[0.1,0.5,1.0]]})");
  CHECK(json(matrix(2, 0, {})) == R"({"source":[],"target":["t","t"],"weights":[[],[]]})");
  const Strings words = {"\"", "\\", "\n", std::string("\0", 1), "\x7F", "日本語", "😀", ""};
  const Heatmap map{words, {"{}"}, {1. / 3, 1e-40, 1e-45, 0, 1, .1, .2, 1e38}, {}};
  CHECK(lines_of(json(map)).size() == 1);
  const auto object = nlohmann::json::parse(json(map));
  CHECK(object["target"] == words);
  for (std::size_t i = 0; i < words.size(); ++i)
    CHECK(object["weights"][i][0].get<float>() == static_cast<float>(map.weights[i]));
  CHECK(nlohmann::json::parse(json({{"\xFF|"}, {"s"}, {1}, {}}))["target"][0] == "\uFFFD|");
}

TEST_CASE("npy: the bytes are those that NumPy writes, the data at a multiple of 64") {
  // `numpy.save` of kMap's weights as f32, from NumPy 1.24.
  const std::string bytes = npy(kMap), start("\x93NUMPY\x01\x00v\x00", 10),
                    shape = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  CHECK(bytes.substr(0, 128) ==
        start + shape + std::string(127 - start.size() - shape.size(), ' ') + "\n");
  CHECK(bytes.substr(128) ==
        std::string("\0\0\0\0\0\0\x80>\0\0@?\xcd\xcc\xcc=\0\0\0?\0\0\x80?", 24));
  for (const std::size_t rows : {0, 9, 101}) {
    for (const std::size_t columns : {0, 10, 99, 1000}) {
      const std::string other = npy(matrix(rows, columns, std::vector<double>(rows * columns, 2)));
      CHECK((other.size() - 4 * rows * columns) % 64 == 0);
    }
  }
}

}  // namespace
