// HTML pages about a model.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include <attune/models/text/heatmap.hpp>

namespace attune::pairs {

/// A row of heat maps, as report::figure writes them, below their legend.
std::string figures_with_legend(const std::string& figures);

/// An HTML page, or an SVG file, of heat maps.
std::string drawings(std::span<const report::Heatmap> maps, bool html);

/// Text for a caption: printable and, unless it is ASCII, enclosed in isolates (U+2068, U+2069), so
/// that right-to-left text does not reorder the text next to it.
std::string isolated(const std::string& text);

/// The report in the directory of a model.
inline constexpr const char* report_file = "report.html";
/// Throws if the page cannot be written, or would replace a file that is not an HTML page.
void require_page(const std::filesystem::path& path);

}  // namespace attune::pairs
