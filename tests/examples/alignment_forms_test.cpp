#include "attune/alignment_forms.hpp"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <attune/models/metrics/error_rate.hpp>
#include <attune/tensor/check.hpp>

#include "support/errors.hpp"

namespace {

using namespace attune::report;
using attune::DType;
using attune::Error;
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

Strings split(const std::string& text, char at) {
  Strings parts(1);
  for (const char c : text) {
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

/// The word that a cell of the table stands for.
std::string unescaped(const std::string& cell) {
  std::string word;
  for (std::size_t i = 0; i < cell.size(); ++i) {
    if (cell[i] != '\\') {
      word += cell[i];
      continue;
    }
    const char c = cell.at(++i);
    word += c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c;
  }
  return word;
}

// ---- Links --------------------------------------------------------------------------------------

TEST_CASE("argmax_links: each target word is linked to the source word it read most") {
  CHECK(argmax_links(kMap) == Alignment{{2, 0}, {2, 1}});
  CHECK(argmax_links(matrix(3, 2, {.4, .6, .9, .1, .2, .8})) == Alignment{{0, 1}, {1, 0}, {1, 2}});
}

TEST_CASE("argmax_links: of equal weights the first counts") {
  CHECK(argmax_links(matrix(2, 4, {.1, .4, .4, .1, .25, .25, .25, .25})) ==
        Alignment{{0, 1}, {1, 0}});
}

TEST_CASE("argmax_links: a word that read nothing has no link") {
  CHECK(argmax_links(matrix(3, 2, {0, 0, 0, 1e-300, 0, 0})) == Alignment{{1, 1}});
  CHECK(argmax_links(matrix(3, 0, {})).empty());
  CHECK(argmax_links(matrix(0, 3, {})).empty());
}

TEST_CASE("argmax_links: a row may speak of the word before, the row of </s> of the last word") {
  // Rows of three words and </s>: the first says nothing, and the third read nothing.
  const Heatmap map = matrix(4, 3, {.9, .1, 0, .2, .1, .7, 0, 0, 0, .1, .6, .3});
  CHECK(argmax_links(map, AlignedWord::previous) == Alignment{{1, 2}, {2, 0}});
  CHECK(argmax_links(map, AlignedWord::current) == Alignment{{0, 0}, {1, 3}, {2, 1}});
  CHECK(argmax_links(map) == argmax_links(map, AlignedWord::current));
}

TEST_CASE("argmax_links: by the word before, no words and their </s> give no link") {
  CHECK(argmax_links(matrix(1, 2, {.5, .5}), AlignedWord::previous).empty());
  CHECK(argmax_links(matrix(0, 2, {}), AlignedWord::previous).empty());
}

TEST_CASE("pharaoh: source-target from 0 on, with a space between the links") {
  CHECK(pharaoh({{0, 0}, {1, 2}, {10, 3}}) == "0-0 1-2 10-3");
  CHECK(pharaoh({{5, 0}, {1, 2}}) == "5-0 1-2");
  CHECK(pharaoh({}) == "");
  CHECK(pharaoh(argmax_links(kMap)) == "2-0 2-1");
}

TEST_CASE("pharaoh: what is written is read back") {
  for (const Alignment& links :
       {Alignment{}, Alignment{{0, 0}}, Alignment{{0, 7}, {3, 0}, {3, 12}, {2147483647, 1}}}) {
    CHECK(parse_links(pharaoh(links)) == links);
  }
}

TEST_CASE("pharaoh: a negative position is an error") {
  CHECK_ERROR("pharaoh: a link is (-1, 2), but positions count from 0", pharaoh({{0, 0}, {-1, 2}}));
}

// ---- Tables -------------------------------------------------------------------------------------

TEST_CASE("tsv: source words along the top, then a line for each target word") {
  CHECK(tsv(kMap) == "\tein\tHaus\t.\na\t0\t0.25\t0.75\nhouse\t0.1\t0.5\t1\n");
  CHECK(tsv(matrix(0, 2, {})) == "\ts\ts\n");
  CHECK(tsv(matrix(2, 0, {})) == "\nt\nt\n");
}

TEST_CASE("tsv: whatever is in the words, the cells stay where they are") {
  const Strings words = {"",     "\t",       "\n",      "\r\n",   "\\",     "\\t",
                         "a\tb", "\\\\\n\\", "\"q\" ,", "日本語", "\u2028", " end "};
  Heatmap map{words, words, std::vector<double>(words.size() * words.size(), 0.5), {}};
  const std::string table = tsv(map);
  CHECK(table.find('\r') == std::string::npos);
  const Strings rows = split(table, '\n');
  REQUIRE(rows.size() == words.size() + 2);  // the header, and nothing after the last line
  CHECK(rows.back().empty());
  const Strings header = split(rows[0], '\t');
  REQUIRE(header.size() == words.size() + 1);
  CHECK(header[0].empty());
  for (std::size_t i = 0; i < words.size(); ++i) {
    CAPTURE(i);
    const Strings row = split(rows[i + 1], '\t');
    REQUIRE(row.size() == words.size() + 1);
    CHECK(unescaped(row[0]) == words[i]);
    CHECK(unescaped(header[i + 1]) == words[i]);
    CHECK(row.back() == "0.5");
  }
}

TEST_CASE("tsv: numbers have the shortest form of their type, and read back as the same bits") {
  using Limits = std::numeric_limits<double>;
  const std::vector<double> weights = {1. / 3, 0.1,  Limits::denorm_min(), Limits::max(),
                                       1e-7,   1e22, 1 - Limits::epsilon()};
  const Heatmap map = matrix(1, weights.size(), weights);
  const Strings cells = split(split(tsv(map), '\n')[1], '\t');
  for (std::size_t i = 0; i < weights.size(); ++i)
    CHECK(std::strtod(cells[i + 1].c_str(), nullptr) == weights[i]);
  CHECK(cells[2] == "0.1");

  const float third = 1.f / 3;
  const Heatmap narrow = matrix(1, 3, {0.1f, third, 0.7f});
  CHECK(tsv(narrow, DType::f32) == "\ts\ts\ts\nt\t0.1\t0.33333334\t0.7\n");
  CHECK(std::stof("0.33333334") == third);
  CHECK(tsv(narrow).find("0.10000000149011612") != std::string::npos);
}

// ---- JSON ---------------------------------------------------------------------------------------

TEST_CASE("json: an object with source, target and a row of weights per target word") {
  CHECK(json(kMap) == R"({"source":["ein","Haus","."],"target":["a","house"],)"
                      R"("weights":[[0,0.25,0.75],[0.1,0.5,1]]})");
  CHECK(json(matrix(2, 0, {})) == R"({"source":[],"target":["t","t"],"weights":[[],[]]})");
  CHECK(json(matrix(0, 1, {})) == R"({"source":["s"],"target":[],"weights":[]})");
}

TEST_CASE("json: it is one line that a parser reads back, whatever is in the words") {
  const Strings words = {"\"", "\\", "\n", "\t", std::string("\0", 1), "\x7F", "日本語", "😀", ""};
  const Heatmap map{words, {"{}"}, {1. / 3, 1e-300, 5e-324, 0, 1, .1, .2, .3, 1e308}, {}};
  const std::string text = json(map);
  CHECK(text.find('\n') == std::string::npos);
  const auto object = nlohmann::json::parse(text);
  CHECK(object.size() == 3);
  CHECK(object["source"] == Strings{"{}"});
  CHECK(object["target"] == words);
  for (std::size_t i = 0; i < words.size(); ++i)
    CHECK(object["weights"][i][0].get<double>() == map.weights[i]);
}

TEST_CASE("json: bytes that are not UTF-8 do not spoil the rest") {
  const auto object = nlohmann::json::parse(json({{"\xFF|"}, {"s"}, {1}, {}}));
  CHECK(object["target"][0] == "\uFFFD|");
}

TEST_CASE("json: weights of f32 are as short as f32 allows") {
  CHECK(json(matrix(1, 2, {0.1f, 0.9f}), DType::f32) ==
        R"({"source":["s","s"],"target":["t"],"weights":[[0.1,0.9]]})");
}

// ---- NPY ----------------------------------------------------------------------------------------

/// `numpy.save` of kMap's weights, from NumPy 1.24: the first 128 bytes, with the given type.
std::string numpy_header(const std::string& type) {
  const std::string description =
      "{'descr': '" + type + "', 'fortran_order': False, 'shape': (2, 3), }";
  const std::string start("\x93NUMPY\x01\x00v\x00", 10);
  return start + description + std::string(127 - start.size() - description.size(), ' ') + "\n";
}

std::string hexadecimal(const std::string& bytes) {
  std::string out;
  for (const unsigned char c : bytes) {
    out += "0123456789abcdef"[c >> 4];
    out += "0123456789abcdef"[c & 15];
  }
  return out;
}

TEST_CASE("npy: the bytes are those that NumPy writes") {
  const std::string narrow = npy(kMap, DType::f32), wide = npy(kMap);
  CHECK(narrow.substr(0, 128) == numpy_header("<f4"));
  CHECK(hexadecimal(narrow.substr(128)) == "000000000000803e0000403fcdcccc3d0000003f0000803f");
  CHECK(wide.substr(0, 128) == numpy_header("<f8"));
  CHECK(hexadecimal(wide.substr(128)) ==
        "0000000000000000000000000000d03f000000000000e83f"
        "9a9999999999b93f000000000000e03f000000000000f03f");
}

TEST_CASE("npy: the data begin at a multiple of 64 and are complete for any shape") {
  for (const std::size_t rows : {0, 1, 9, 10, 101}) {
    for (const std::size_t columns : {0, 1, 10, 99, 100, 1000}) {
      CAPTURE(rows);
      CAPTURE(columns);
      const std::string bytes = npy(matrix(rows, columns, std::vector<double>(rows * columns, 2)));
      const std::size_t header =
          static_cast<unsigned char>(bytes[8]) + 256u * static_cast<unsigned char>(bytes[9]);
      CHECK((10 + header) % 64 == 0);
      CHECK(bytes[10 + header - 1] == '\n');
      CHECK(bytes.find("'shape': (" + std::to_string(rows) + ", " + std::to_string(columns) +
                       "), }") != std::string::npos);
      CHECK(bytes.size() == 10 + header + 8 * rows * columns);
    }
  }
}

// ---- All forms ----------------------------------------------------------------------------------

TEST_CASE("alignment forms: weights that do not fill the matrix are an error") {
  const Heatmap map = matrix(2, 3, {1, 2, 3, 4, 5});
  const std::string rest = ": weights has 5 values, but 2 target words x 3 source words need 6";
  CHECK_ERROR("argmax_links" + rest, argmax_links(map));
  CHECK_ERROR("tsv" + rest, tsv(map));
  CHECK_ERROR("json" + rest, json(map));
  CHECK_ERROR("npy" + rest, npy(map));
}

TEST_CASE("alignment forms: a weight that is none is an error that says where") {
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL, -1e-9}) {
    const Heatmap map = matrix(2, 3, {1, 0, 0, 0, bad, 1});
    CHECK_THROWS_AS(argmax_links(map), Error);
    CHECK_THROWS_AS(tsv(map), Error);
    CHECK_THROWS_AS(json(map), Error);
    CHECK_THROWS_AS(npy(map), Error);
  }
  CHECK_ERROR("json: weight (target 1, source 1) is inf, but a finite number >= 0 is needed",
              json(matrix(2, 3, {1, 0, 0, 0, HUGE_VAL, 1})));
}

TEST_CASE("alignment forms: a weight too large for f32 does not become infinite") {
  const Heatmap map = matrix(1, 2, {1, 1e39});
  CHECK_ERROR("tsv: weight (target 0, source 1) is 1e+39, too large for f32", tsv(map, DType::f32));
  CHECK_THROWS_AS(json(map, DType::f32), Error);
  CHECK_THROWS_AS(npy(map, DType::f32), Error);
  CHECK(tsv(map) == "\ts\ts\nt\t1\t1e+39\n");
}

}  // namespace
