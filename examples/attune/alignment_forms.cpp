#include "alignment_forms.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/tensor/check.hpp>

namespace attune::report {
namespace {

using Json = nlohmann::json;

void check(const Heatmap& map, const char* operation, DType type = DType::f64) {
  if (!is_floating(type)) fail(operation, "weights are f32 or f64, not i32");
  const std::size_t rows = map.rows.size(), columns = map.columns.size();
  if (map.weights.size() != rows * columns) {
    fail(operation, fmt::format("weights has {} values, but {} target words x {} source words need "
                                "{}",
                                map.weights.size(), rows, columns, rows * columns));
  }
  for (std::size_t i = 0; i < map.weights.size(); ++i) {
    const double w = map.weights[i];
    if (!(std::isfinite(w) && w >= 0)) {
      fail(operation,
           fmt::format("weight (target {}, source {}) is {}, but a finite number >= 0 is needed",
                       i / columns, i % columns, w));
    }
    if (type == DType::f32 && !std::isfinite(static_cast<float>(w))) {
      fail(operation, fmt::format("weight (target {}, source {}) is {}, too large for f32",
                                  i / columns, i % columns, w));
    }
  }
}

std::string number(double weight, DType type) {
  return type == DType::f32 ? fmt::format("{}", static_cast<float>(weight))
                            : fmt::format("{}", weight);
}

std::string cell(std::string_view word) {
  std::string out;
  for (const char c : word) {
    switch (c) {
      case '\t':
        out += "\\t";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\\':
        out += "\\\\";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string array(const std::vector<std::string>& words) {
  return Json(words).dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

template <class Unsigned>
void append_little_endian(std::string& out, Unsigned bits) {
  for (std::size_t i = 0; i < sizeof bits; ++i) out += static_cast<char>(bits >> 8 * i & 0xFF);
}

}  // namespace

text::Alignment argmax_links(const Heatmap& map, AlignedWord aligned) {
  check(map, "argmax_links");
  text::Alignment links;
  const auto columns = static_cast<std::ptrdiff_t>(map.columns.size());
  const std::size_t first = aligned == AlignedWord::current ? 0 : 1;  // the row of word 0
  for (std::size_t i = first; i < map.rows.size() && columns > 0; ++i) {
    const auto row = map.weights.begin() + static_cast<std::ptrdiff_t>(i) * columns;
    const auto largest = std::max_element(row, row + columns);  // the first of equals
    if (*largest > 0)
      links.push_back({static_cast<int>(largest - row), static_cast<int>(i - first)});
  }
  std::ranges::sort(links);
  return links;
}

std::string pharaoh(const text::Alignment& links) {
  std::string line;
  for (const auto& [source, target] : links) {
    if (source < 0 || target < 0) {
      fail("pharaoh",
           fmt::format("a link is ({}, {}), but positions count from 0", source, target));
    }
    fmt::format_to(std::back_inserter(line), "{}{}-{}", line.empty() ? "" : " ", source, target);
  }
  return line;
}

std::string tsv(const Heatmap& map, DType type) {
  check(map, "tsv", type);
  std::string table;
  for (const std::string& word : map.columns) table.append("\t").append(cell(word));
  table += "\n";
  for (std::size_t i = 0, at = 0; i < map.rows.size(); ++i) {
    table += cell(map.rows[i]);
    for (std::size_t j = 0; j < map.columns.size(); ++j)
      table.append("\t").append(number(map.weights[at++], type));
    table += "\n";
  }
  return table;
}

std::string json(const Heatmap& map, DType type) {
  check(map, "json", type);
  std::string weights;
  for (std::size_t i = 0, at = 0; i < map.rows.size(); ++i) {
    weights += i == 0 ? "[" : ",[";
    for (std::size_t j = 0; j < map.columns.size(); ++j) {
      if (j > 0) weights += ",";
      weights += number(map.weights[at++], type);
    }
    weights += "]";
  }
  return fmt::format(R"({{"source":{},"target":{},"weights":[{}]}})", array(map.columns),
                     array(map.rows), weights);
}

std::string npy(const Heatmap& map, DType type) {
  check(map, "npy", type);
  constexpr std::string_view kMagic("\x93NUMPY\x01\x00", 8);  // format 1.0
  std::string header =
      fmt::format("{{'descr': '<f{}', 'fortran_order': False, 'shape': ({}, {}), }}",
                  type == DType::f32 ? 4 : 8, map.rows.size(), map.columns.size());
  // Spaces and a line break, so that the data start at a multiple of 64.
  const std::size_t before = kMagic.size() + 2;
  header.append(63 - (before + header.size()) % 64, ' ');
  header += '\n';
  std::string bytes(kMagic);
  append_little_endian(bytes, static_cast<std::uint16_t>(header.size()));
  bytes += header;
  for (const double w : map.weights) {
    if (type == DType::f32)
      append_little_endian(bytes, std::bit_cast<std::uint32_t>(static_cast<float>(w)));
    else
      append_little_endian(bytes, std::bit_cast<std::uint64_t>(w));
  }
  return bytes;
}

}  // namespace attune::report
