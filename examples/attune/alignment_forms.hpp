// Attention weights in the file forms that other programs read.
#pragma once

#include <string>

#include <attune/models/heatmap.hpp>
#include <attune/models/text/corpus.hpp>

namespace attune::report {

// All of these take weights (target, source), as in `Heatmap`: a row for each word written, a
// column for each word read. `</s>` is a word like any other: leave its row and column out where
// they are not wanted. Weights are written as f32, what models compute in: text has the shortest
// form that reads back as the same f32; JSON has null for NaN and infinities.

/// Each target word is linked to the source word with the largest weight in its row (Luong et al.,
/// 2015, section 5.4), the first one among equals. A row with nothing but zeros gives no link.
text::Alignment argmax_links(const Heatmap& map);

/// Links in the Pharaoh form, "0-0 1-2": SOURCE-TARGET, positions from 0, in the given order, with
/// one space between them and no line break; empty without links. text::parse_links reads a line
/// back.
std::string pharaoh(const text::Alignment& links);

/// A table with tabs between the cells: a header with an empty cell and the source words, then for
/// each target word a line with the word and its weights. Every line ends with `\n`. Words are
/// `printable`, and a backslash in them is written `\\`. Nothing is quoted: tell readers that
/// interpret quotes not to do so (pandas: quoting=csv.QUOTE_NONE).
std::string tsv(const Heatmap& map);

/// {"source": [words], "target": [words], "weights": [[a row per target word]]} on one line without
/// a line break. Bytes that are not UTF-8 become U+FFFD.
std::string json(const Heatmap& map);

/// The bytes of an .npy file (NPY format 1.0) with the matrix (target, source) in row-major order,
/// little-endian; numpy.load reads it. Words are not in it.
std::string npy(const Heatmap& map);

}  // namespace attune::report
