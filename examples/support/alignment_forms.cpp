#include "support/alignment_forms.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/models/report/alignment.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>
#include <attune/tensor/printable.hpp>

#include "support/letters.hpp"
#include "support/output.hpp"
#include "support/page.hpp"
#include "support/terminal.hpp"

namespace attune {
namespace {

constexpr auto type = DType::f32;  // what models compute in

/// Isolates (U+2068, U+2069) keep a text that runs from right to left from moving what stands
/// beside it. ASCII does not.
std::string isolated(const std::string& text) {
  const std::string shown = printable(text);
  const bool ascii = std::ranges::all_of(shown, [](unsigned char c) { return c < 0x80; });
  return ascii ? shown : "\u2068" + shown + "\u2069";
}

std::string caption(const AlignedPair& pair) {
  return fmt::format("{} → {}, log-probability {:.4f}", isolated(pair.source),
                     isolated(pair.target), pair.log_probability);
}

std::string drawn(const AlignedPair& pair, const report::TerminalOptions& how) {
  if (pair.map.rows.empty()) return "\n";
  return caption(pair) + "\n" + report::terminal(pair.map, how) + "\n";
}

/// One pair in every form but html.
std::string form(const AlignedPair& pair, AlignFormat format, const report::TerminalOptions& how) {
  switch (format) {
    case AlignFormat::pharaoh:
      return report::pharaoh(report::argmax_links(pair.map)) + "\n";
    case AlignFormat::tsv:
      return report::tsv(pair.map, type) + "\n";
    case AlignFormat::json:
      return report::json(pair.map, type) + "\n";
    case AlignFormat::npy:
      return report::npy(pair.map, type);
    case AlignFormat::svg:
      return report::svg(pair.map) + "\n";
    case AlignFormat::scores:
      return fmt::format("{}\t{}\t{:.6g}\t{:.6g}\n", pair.source, pair.target, pair.log_probability,
                         fmt::join(pair.token_log_probabilities, " "));
    default:
      return drawn(pair, how);
  }
}

std::string page_of(std::span<const AlignedPair> pairs, const std::string& title) {
  report::Page page(title);
  for (const AlignedPair& pair : pairs)
    if (!pair.map.rows.empty()) page.figure(report::svg(pair.map), caption(pair));
  return page.html();
}

}  // namespace

AlignFormat format_of(const AlignOutput& output, AlignFormat own) {
  if (output.format != AlignFormat::automatic) return output.format;
  const std::pair<const char*, AlignFormat> formats[] = {{"", own},
                                                         {".html", AlignFormat::html},
                                                         {".json", AlignFormat::json},
                                                         {".npy", AlignFormat::npy},
                                                         {".pharaoh", AlignFormat::pharaoh},
                                                         {".scores", AlignFormat::scores},
                                                         {".svg", AlignFormat::svg},
                                                         {".tsv", AlignFormat::tsv},
                                                         {".txt", own}};
  const std::string ending = text::lower_case(output.out.extension().string());
  for (const auto& [name, format] : formats)
    if (ending == name) return format;
  std::string names;
  for (const auto& [name, format] : formats) names += std::string(*name ? " " : "") + name;
  fail("--out", fmt::format("'{}' says no form, expected one of{}, or --format", ending, names));
}

void write_alignments(std::span<const AlignedPair> pairs, AlignFormat format,
                      const AlignOutput& output, const std::string& title) {
  if (format == AlignFormat::svg && pairs.size() > 1)
    fail("--format", fmt::format("svg draws one pair, not {}: html was expected", pairs.size()));
  const std::filesystem::path& out = output.out;
  const bool any_width = output.width == 0 && !out.empty();
  const report::TerminalOptions how{
      .colour = out.empty() && obeys_escapes(),
      .width = any_width ? std::numeric_limits<int>::max() : drawing_width(output.width)};
  std::string text;
  if (format == AlignFormat::html) {
    text = page_of(pairs, title);
  } else {
    for (const AlignedPair& pair : pairs) text += form(pair, format, how);
  }
  if (!out.empty()) return write_file(out, text);
  say("{}", format == AlignFormat::terminal ? text : for_output(text));  // drawings have colours
}

}  // namespace attune
