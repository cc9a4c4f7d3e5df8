// Reports as one HTML page, and what pages about a model have in common.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <attune/tensor/safetensors.hpp>

namespace attune::report {

/// A report: one HTML document with nothing to fetch, no script or font either, so that it can be
/// opened from disk, mailed and archived. It follows the reader's light or dark setting and fits a
/// phone. All text is escaped here; only `figure` takes markup.
class Page {
 public:
  explicit Page(std::string title);

  Page& heading(std::string_view text);
  Page& paragraph(std::string_view text);

  /// Columns that hold nothing but numbers are aligned to the right.
  /// Throws Error when a row is not as long as the header.
  Page& table(const std::vector<std::string>& header,
              const std::vector<std::vector<std::string>>& rows);

  /// The same under a heading that unfolds it.
  Page& folded(std::string_view summary, const std::vector<std::string>& header,
               const std::vector<std::vector<std::string>>& rows);

  /// Names and values as tiles: the few figures a reader looks for first.
  Page& definitions(const std::vector<std::pair<std::string, std::string>>& items);

  /// Inserts `svg(heatmap)` or `svg(chart)` as it is. Up to three figures in succession, or two
  /// wide ones, stand side by side where the window has room for them; one from 600 pixels has the
  /// full width. Omits an empty caption. Throws Error when `svg` is not an `<svg>` element.
  Page& figure(std::string_view svg, std::string_view caption);

  std::string html() const;

 private:
  std::string title_;
  std::string body_;
};

}  // namespace attune::report

namespace attune {

/// 12,345: a count, with its digits in groups of three.
std::string grouped(Index count);

/// "99.50 %: 1,990 of 2,000".
std::string share(Index part, Index whole);

/// A field of the log, its name in a chart, and what it is multiplied by.
struct LoggedField {
  std::string field, name;
  double scale = 1;
};

/// A chart of learning curves, where there is a log.
void add_learning_curves(report::Page& page, const std::filesystem::path& log,
                         const std::string& y_label, const std::vector<LoggedField>& fields,
                         bool log_y = false);

/// A table of the checkpoint's metadata without vocabularies and tokenizers.
void add_card(report::Page& page, const Metadata& metadata);

/// The numbers of `count` of some examples, evenly from the shortest to the longest, or of all.
std::vector<std::size_t> from_short_to_long(std::span<const std::size_t> lengths,
                                            std::size_t count);

/// A text for a caption: printable, and between isolates (U+2068, U+2069), which keep one that is
/// read from right to left from moving what stands beside it. ASCII needs none.
std::string isolated(const std::string& text);

/// The path of a page about a model: `out`, or report.html in the model's directory. Throws, before
/// the work, where it cannot be written, and where something else than a page would be lost.
std::filesystem::path page_path(const std::filesystem::path& out,
                                const std::filesystem::path& directory);
/// Writes it, and prints where, and whether it replaces one. Only the first worker does.
void write_page(const report::Page& page, const std::filesystem::path& path);

}  // namespace attune
