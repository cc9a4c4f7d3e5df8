#include "alignment_forms.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/tensor/check.hpp>

#include "log.hpp"

namespace attune::report {
namespace {

void check(const Heatmap& map, const char* operation) {
  const std::size_t rows = map.rows.size(), columns = map.columns.size();
  if (map.weights.size() != rows * columns) {
    fail(operation, fmt::format("weights has {} values, but {} target words x {} source words need "
                                "{}",
                                map.weights.size(), rows, columns, rows * columns));
  }
  for (std::size_t i = 0; i < map.weights.size(); ++i) {
    const double w = map.weights[i];
    if (std::isfinite(static_cast<float>(w)) && w >= 0) continue;
    fail(operation,
         fmt::format("weight (target {}, source {}) is {}, but a finite f32 >= 0 is needed",
                     i / columns, i % columns, w));
  }
}

/// The weights of a target word.
std::vector<float> row_of(const Heatmap& map, std::size_t target) {
  const auto n = static_cast<std::ptrdiff_t>(map.columns.size());
  const auto row = map.weights.begin() + static_cast<std::ptrdiff_t>(target) * n;
  return {row, row + n};
}

std::string cell(std::string_view word) {
  std::string out;
  for (const char c : word) out.append(c == '\\' ? 2 : 1, c);
  return printable(out);
}

template <class Unsigned>
void append_little_endian(std::string& out, Unsigned bits) {
  for (std::size_t i = 0; i < sizeof bits; ++i) out += static_cast<char>(bits >> 8 * i & 0xFF);
}

}  // namespace

text::Alignment argmax_links(const Heatmap& map) {
  check(map, "argmax_links");
  text::Alignment links;
  const auto columns = static_cast<std::ptrdiff_t>(map.columns.size());
  auto row = map.weights.begin();
  for (std::size_t i = 0; i < map.rows.size() && columns > 0; ++i, row += columns) {
    const auto largest = std::max_element(row, row + columns);  // the first of equals
    if (*largest > 0) links.push_back({static_cast<int>(largest - row), static_cast<int>(i)});
  }
  std::ranges::sort(links);
  return links;
}

std::string pharaoh(const text::Alignment& links) {
  std::string line;
  for (const auto& [source, target] : links)
    line += fmt::format("{}{}-{}", line.empty() ? "" : " ", source, target);
  return line;
}

std::string tsv(const Heatmap& map) {
  check(map, "tsv");
  std::string table;
  for (const std::string& word : map.columns) table.append("\t").append(cell(word));
  table += "\n";
  for (std::size_t i = 0; i < map.rows.size(); ++i) {
    table += cell(map.rows[i]);
    for (const float weight : row_of(map, i)) table += fmt::format("\t{}", weight);
    table += "\n";
  }
  return table;
}

std::string json(const Heatmap& map) {
  check(map, "json");
  const auto array = [](const std::vector<std::string>& words) {
    std::vector<std::string> quoted;
    for (const std::string& word : words) quoted.push_back(Json(word).text);
    return fmt::format("[{}]", fmt::join(quoted, ","));
  };
  std::vector<std::string> rows;
  for (std::size_t i = 0; i < map.rows.size(); ++i)
    rows.push_back(fmt::format("[{}]", fmt::join(row_of(map, i), ",")));
  return fmt::format(R"({{"source":{},"target":{},"weights":[{}]}})", array(map.columns),
                     array(map.rows), fmt::join(rows, ","));
}

std::string npy(const Heatmap& map) {
  check(map, "npy");
  constexpr std::string_view magic("\x93NUMPY\x01\x00", 8);  // format 1.0
  std::string header =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
                  map.rows.size(), map.columns.size());
  // Spaces and a line break, so that the data start at a multiple of 64.
  header.append(63 - (magic.size() + 2 + header.size()) % 64, ' ').append(1, '\n');
  std::string bytes(magic);
  append_little_endian(bytes, static_cast<std::uint16_t>(header.size()));
  bytes += header;
  for (const double w : map.weights)
    append_little_endian(bytes, std::bit_cast<std::uint32_t>(static_cast<float>(w)));
  return bytes;
}

}  // namespace attune::report
