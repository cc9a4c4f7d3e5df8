// What HTML pages about a model have in common: report.html, which has their structure and style.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace attune::pairs {

struct Drawing {
  std::string svg, caption;
};
/// A page of drawings: one HTML document with nothing to fetch, no script or font either, so that it
/// can be opened from disk, mailed and archived.
std::string drawings_page(const std::string& title, const std::vector<Drawing>& drawings);

/// A text for a caption: printable, and between isolates (U+2068, U+2069), so that
/// right-to-left text does not reorder the text next to it. ASCII needs none.
std::string isolated(const std::string& text);

/// The path of a page about a model: `out`, or report.html in the model's directory. Throws, before
/// the work, where it cannot be written, and where something else than a page would be lost.
std::filesystem::path page_path(const std::filesystem::path& out,
                                const std::filesystem::path& directory);

}  // namespace attune::pairs
