#include "attune/alignment_forms.hpp"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <attune/models/metrics.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

#include "support/errors.hpp"

namespace {

using namespace attune::report;
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
    if (c == 'u') {
      word +=
          attune::text::utf8(static_cast<char32_t>(std::stoi(cell.substr(i + 1, 4), nullptr, 16)));
      i += 4;
      continue;
    }
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

TEST_CASE("tsv: numbers have the shortest form of f32, and read back as the same bits") {
  using Limits = std::numeric_limits<float>;
  const std::vector<double> weights = {1.f / 3, 0.1f,  Limits::denorm_min(), Limits::max(),
                                       1e-7f,   1e22f, 1 - Limits::epsilon()};
  const Heatmap map = matrix(1, weights.size(), weights);
  const Strings cells = split(split(tsv(map), '\n')[1], '\t');
  for (std::size_t i = 0; i < weights.size(); ++i)
    CHECK(std::strtof(cells[i + 1].c_str(), nullptr) == static_cast<float>(weights[i]));
  CHECK(cells[1] == "0.33333334");
  CHECK(cells[2] == "0.1");
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
  const Heatmap map{words, {"{}"}, {1. / 3, 1e-40, 1e-45, 0, 1, .1, .2, .3, 1e38}, {}};
  const std::string text = json(map);
  CHECK(text.find('\n') == std::string::npos);
  const auto object = nlohmann::json::parse(text);
  CHECK(object.size() == 3);
  CHECK(object["source"] == Strings{"{}"});
  CHECK(object["target"] == words);
  for (std::size_t i = 0; i < words.size(); ++i)
    CHECK(object["weights"][i][0].get<float>() == static_cast<float>(map.weights[i]));
}

TEST_CASE("json: bytes that are not UTF-8 do not spoil the rest") {
  const auto object = nlohmann::json::parse(json({{"\xFF|"}, {"s"}, {1}, {}}));
  CHECK(object["target"][0] == "\uFFFD|");
}

// ---- NPY ----------------------------------------------------------------------------------------

std::string hexadecimal(const std::string& bytes) {
  std::string out;
  for (const unsigned char c : bytes) {
    out += "0123456789abcdef"[c >> 4];
    out += "0123456789abcdef"[c & 15];
  }
  return out;
}

TEST_CASE("npy: the bytes are those that NumPy writes") {
  // `numpy.save` of kMap's weights as f32, from NumPy 1.24.
  const std::string bytes = npy(kMap), start("\x93NUMPY\x01\x00v\x00", 10),
                    shape = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  CHECK(bytes.substr(0, 128) ==
        start + shape + std::string(127 - start.size() - shape.size(), ' ') + "\n");
  CHECK(hexadecimal(bytes.substr(128)) == "000000000000803e0000403fcdcccc3d0000003f0000803f");
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
      CHECK(bytes.size() == 10 + header + 4 * rows * columns);
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
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL, -1e-9, 1e39}) {
    const Heatmap map = matrix(2, 3, {1, 0, 0, 0, bad, 1});
    CHECK_THROWS_AS(argmax_links(map), Error);
    CHECK_THROWS_AS(tsv(map), Error);
    CHECK_THROWS_AS(json(map), Error);
    CHECK_THROWS_AS(npy(map), Error);
  }
  CHECK_ERROR("json: weight (target 1, source 1) is inf, but a finite f32 >= 0 is needed",
              json(matrix(2, 3, {1, 0, 0, 0, HUGE_VAL, 1})));
}

}  // namespace
