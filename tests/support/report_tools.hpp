// Common helpers for tests of reports, independent of the code under test.
#pragma once

#include <cstddef>
#include <limits>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <attune/models/text/heatmap.hpp>

namespace attune::test {

using report::Heatmap;
using Strings = std::vector<std::string>;

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

inline const std::string kNasty = "<a href=\"x\">&amp; 'b' ]]> \x01\x7F \xFF\xC3 </svg>";

/// An alignment in which row i attends to column i * columns / rows.
inline Heatmap diagonal(Strings rows, Strings columns) {
  Heatmap map{std::move(rows), std::move(columns), {}, {}};
  map.weights.resize(map.rows.size() * map.columns.size());
  for (std::size_t i = 0; i < map.rows.size() && !map.columns.empty(); ++i) {
    map.weights[i * map.columns.size() + i * map.columns.size() / map.rows.size()] = 1;
  }
  return map;
}

inline Strings lines(const std::string& text) {
  std::istringstream in(text);
  Strings out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

inline std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

inline bool contains(const std::string& text, const std::string& part) {
  return count(text, part) > 0;
}

/// The first error in `xml`, or empty: tags that do not match, attributes without quotes or
/// duplicated, a bare & or <, invalid characters.
inline std::string xml_error(const std::string& xml) {
  static const std::regex tag(R"re(^<(/?)([a-zA-Z][\w-]*)((?:\s+[\w:-]+="[^"<]*")*)\s*(/?)>)re");
  static const std::regex name(R"re(([\w:-]+)="[^"]*")re");
  static const std::regex entity("^&(amp|lt|gt|quot|#39);");
  Strings open;
  for (std::size_t i = 0; i < xml.size(); ++i) {
    const auto c = static_cast<unsigned char>(xml[i]);
    if (c < 0x20 && c != '\t' && c != '\n') return "control character";
    const std::string rest = xml.substr(i, 4000);
    std::smatch match;
    if (c == '&' && !std::regex_search(rest, match, entity))
      return "bare & at " + rest.substr(0, 30);
    if (c != '<') continue;
    if (!std::regex_search(rest, match, tag)) return "bad tag at " + rest.substr(0, 60);
    const std::string attributes = match[3];
    Strings seen;
    for (std::sregex_iterator a(attributes.begin(), attributes.end(), name), end; a != end; ++a) {
      for (const std::string& other : seen) {
        if (other == (*a)[1]) return "attribute given twice: " + other;
      }
      seen.push_back((*a)[1]);
    }
    if (match[1].length() > 0) {
      if (open.empty() || open.back() != match[2]) return "unexpected </" + match[2].str() + ">";
      open.pop_back();
    } else if (match[4].length() == 0) {
      open.push_back(match[2]);
    }
    i += static_cast<std::size_t>(match.length()) - 1;
  }
  return open.empty() ? "" : "<" + open.back() + "> is not closed";
}

}  // namespace attune::test
