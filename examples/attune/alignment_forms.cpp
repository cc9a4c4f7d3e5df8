#include "alignment_forms.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/tensor/check.hpp>

namespace attune::report {
namespace {

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
  using FloatJson = nlohmann::basic_json<nlohmann::ordered_map, std::vector, std::string, bool,
                                         std::int64_t, std::uint64_t, float>;
  FloatJson object{{"source", map.columns}, {"target", map.rows}};
  object["weights"] = FloatJson::array();
  for (std::size_t i = 0; i < map.rows.size(); ++i) object["weights"].push_back(row_of(map, i));
  return printable(
      object.dump(-1, ' ', /*ensure_ascii=*/false, FloatJson::error_handler_t::replace));
}

std::string npy(const Heatmap& map) {
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
