// Files of dates: source TAB target TAB spans, and what is made of them.
#include "dates/tsv.hpp"

#include <vector>

#include <attune/models/text/utf8.hpp>

#include "dates/evaluation.hpp"
#include "fuzz.hpp"

namespace {

using namespace attune;
using fuzz::expect;

std::string written(const std::vector<dates::Row>& rows) {
  std::string text;
  for (const dates::Row& row : rows) {
    text += row.source + "\t" + row.target + "\t";
    for (const dates::Span& span : row.spans) {
      text += fmt::format("{}{}:{}-{}", text.ends_with('\t') ? "" : " ", span.field, span.begin,
                          span.end);
    }
    text += "\n";
  }
  return text;
}

void check_row(const dates::Row& row) {
  expect(!row.source.empty() && !row.target.empty() && row.line > 0, "an empty side, or no line");
  const auto length = static_cast<int>(text::code_points(row.source).size());
  for (const dates::Span& span : row.spans) {
    expect(0 <= span.begin && span.begin < span.end && span.end <= length, "a span beyond it");
    expect(span.field == 'y' || span.field == 'm' || span.field == 'd', "a span of no field");
  }
}

const dates::Model& small_model() {
  static const dates::Model model = [] {
    ModelOptions options = dates::model_options("bahdanau");
    options.network.embedding = options.network.hidden = options.network.readout = 2;
    options.network.score.attention = 2;
    const std::vector<std::string> characters = text::code_points("0123456789- May");
    return dates::Model(options, text::Vocabulary(characters), text::Vocabulary(characters), 1);
  }();
  return model;
}

/// Attention on the spans of the shortest rows, which take some milliseconds.
void check_attention(std::vector<dates::Row> rows) {
  std::erase_if(rows, [](const dates::Row& row) {
    return row.spans.empty() || row.source.size() + row.target.size() > 24;
  });
  if (rows.empty()) return;
  rows.resize(1);
  const dates::Evaluation evaluation = dates::evaluate(small_model(), rows, 1, true);
  const double mass = evaluation.gold_attention.value_or(0);
  expect(mass >= 0 && mass <= 1 + 1e-4, "gold attention is not a share");
}

}  // namespace

void fuzz_one(std::string_view input) {
  const bool attends = fuzz::Choices(input).byte() == '!';  // not for every input: it takes long
  const fuzz::MemoryFile file(input);
  const auto rows = fuzz::accepted([&] { return dates::read_tsv(file.path()); });
  if (!rows) return;
  expect(!rows->empty(), "no rows");
  for (const dates::Row& row : *rows) check_row(row);
  // A mark of the file's own, so that what the first row begins with is not taken for one.
  const fuzz::MemoryFile again("\xEF\xBB\xBF" + written(*rows));
  expect(written(dates::read_tsv(again.path())) == written(*rows), "other rows come back");
  if (attends) check_attention(*rows);
}
