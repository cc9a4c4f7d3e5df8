// Parallel corpora: two files or a TSV file, read as lines, pairs and batches of ids.
#include <algorithm>
#include <vector>

#include <attune/models/text/batches.hpp>
#include <attune/models/text/corpus.hpp>
#include <attune/models/text/tokenizer.hpp>

#include "fuzz.hpp"

namespace {

using namespace attune;
using fuzz::expect;

void check_lines(const std::string& path, std::string_view input) {
  const auto lines = fuzz::accepted([&] { return text::read_lines(text::LineReader(path)); });
  if (!lines) return;
  auto ends = std::ranges::count(input, '\n');
  for (std::size_t i = 0; i < input.size(); ++i)
    ends += input[i] == '\r' && !input.substr(i + 1).starts_with('\n');
  const bool nothing = input.empty() || input == "\xEF\xBB\xBF";
  expect(std::ssize(*lines) == ends + !(nothing || input.ends_with('\n') || input.ends_with('\r')),
         "read_lines: wrong number of lines");
  std::string text;
  for (const std::string& line : *lines) text += line + "\r\n";
  const fuzz::MemoryFile again("\xEF\xBB\xBF" + text);
  expect(text::read_lines(text::LineReader(again.path())) == *lines,
         "read_lines: lines differ after writing and reading");
}

/// A codec of the characters that occur at least twice.
text::Codec codec_of(const std::vector<text::TextPair>& pairs, std::string text::TextPair::*side) {
  text::TokenCounts counts;
  const text::Tokenizer characters = text::Characters{};
  for (const auto& pair : pairs) text::count_tokens(counts, characters.encode(pair.*side));
  return {characters, text::make_vocabulary(counts, {.minimum_count = 2})};
}

void check_batches(const std::vector<text::Pair>& pairs, const text::BatchOptions& options) {
  const auto batches = fuzz::accepted([&] { return text::epoch_batches(pairs, options, 1, 0); });
  if (!batches) return;
  std::vector<std::uint32_t> all;
  for (const auto& batch : *batches) {
    all.insert(all.end(), batch.begin(), batch.end());
    const text::Batch tensors = text::make_batch(pairs, batch);
    expect(tensors.sentences() == std::ssize(batch), "make_batch: wrong number of sentences");
    expect(options.tokens == 0 || tensors.next.size() <= options.tokens, "a batch is too large");
  }
  std::ranges::sort(all);
  for (std::size_t i = 0; i < all.size(); ++i) expect(all[i] == i, "a pair is missing or repeated");
  expect(all.size() == pairs.size(), "the number of pairs differs");
}

void check_pairs(const auto& open, fuzz::Choices& choices) {
  const std::int64_t longest = choices.between(0, 20);
  const auto corpus = fuzz::accepted([&] { return text::read_corpus(open(), longest); });
  if (!corpus) return;
  const auto& report = corpus->report;
  expect(report.kept() == std::ssize(corpus->pairs), "read_corpus: wrong number of pairs");
  expect(printable(to_string(report)) == to_string(report), "report: not printable");
  const text::Codec source = codec_of(corpus->pairs, &text::TextPair::source),
                    target = codec_of(corpus->pairs, &text::TextPair::target);
  std::vector<text::Pair> numbers;
  for (const text::TextPair& pair : corpus->pairs)
    numbers.push_back({source.encode(pair.source), target.encode(pair.target)});
  check_batches(numbers, {.sentences = choices.between(0, 5),
                          .tokens = choices.between(0, 40),
                          .pool = choices.between(0, 9)});
}

}  // namespace

void fuzz_one(std::string_view input) {
  fuzz::Choices choices(input.substr(0, 5));
  input.remove_prefix(std::min<std::size_t>(5, input.size()));
  const std::string_view whole = input;
  const std::string_view first = fuzz::take(input, "\n---\n");
  const fuzz::MemoryFile both(whole), source(first), target(input);
  check_lines(both.path(), whole);
  check_pairs([&] { return text::ParallelReader(both.path()); }, choices);
  check_pairs([&] { return text::ParallelReader(source.path(), target.path()); }, choices);
}
