// HTML pages about a model. Their style sheet is report.css.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <attune/models/text/heatmap.hpp>

namespace attune::pairs {

struct Drawing {
  report::Heatmap map;
  std::string caption;
};
/// An HTML page of heat maps without external resources, scripts or fonts: it can be opened from
/// disk, mailed and archived.
std::string drawings_page(const std::string& title, const std::vector<Drawing>& drawings);

/// Text for a caption: printable and, unless it is ASCII, enclosed in isolates (U+2068, U+2069), so
/// that right-to-left text does not reorder the text next to it.
std::string isolated(const std::string& text);

/// The report in the directory of a model.
inline constexpr const char* report_file = "report.html";
/// Throws if the page cannot be written, if it is `input`, or if it would replace a file that is
/// not an HTML page.
void require_page(const std::filesystem::path& path, const std::filesystem::path& input = {});

}  // namespace attune::pairs
