#include "reference_text.hpp"

#include <fmt/format.h>

#include <attune/models/text/corpus.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

#include "line_lengths.hpp"

namespace attune::translate {
namespace {

void require_words(const text::TextPair& lines, const text::ParallelReader& reader) {
  if (!text::words(lines.target).empty()) return;
  fail(fmt::format("{}:{}", reader.target_name(), reader.number()),
       "no words, expected the translation of a sentence");
}

void require_pairs(bool any, const std::string& source) {
  if (!any) fail(source, "there is no sentence pair to evaluate");
}

}  // namespace

void check_reference_text(const std::string& source, const std::string& target,
                          text::Columns columns) {
  text::ParallelReader reader = text::open_pairs(source, target, columns);
  bool any = false;
  while (const auto lines = reader.next()) {
    require_words(*lines, reader);
    any = any || !text::words(lines->source).empty();
  }
  require_pairs(any, source);
}

ReferenceText reference_text(const std::string& source, const std::string& target,
                             text::Columns columns, const Codecs& codecs, Index longest) {
  ReferenceText text;
  text::ParallelReader reader = text::open_pairs(source, target, columns);
  while (const auto lines = reader.next()) {
    text::Pair pair{codecs.source.encode(lines->source), codecs.target.encode(lines->target)};
    check_lengths(pair, reader.source_name(), reader.target_name(), reader.number(), longest);
    require_words(*lines, reader);
    text.lines.push_back(lines->source);
    text.references.push_back({lines->target});
    text.sources.push_back(pair.source);
    if (!pair.source.empty() && !pair.target.empty()) text.pairs.push_back(std::move(pair));
  }
  require_pairs(!text.pairs.empty(), source);
  return text;
}

void add_references(ReferenceText& text, const std::string& file) {
  std::vector<std::string> lines = text::read_lines(text::LineReader(file));
  if (lines.size() != text.references.size()) {
    fail(file, fmt::format("{} lines, expected one for each of {} sentences", lines.size(),
                           text.references.size()));
  }
  for (std::size_t i = 0; i < lines.size(); ++i) text.references[i].push_back(std::move(lines[i]));
}

std::vector<std::int64_t> source_lengths(const ReferenceText& text) {
  std::vector<std::int64_t> lengths;
  for (const std::string& line : text.lines) lengths.push_back(std::ssize(text::words(line)));
  return lengths;
}

}  // namespace attune::translate
