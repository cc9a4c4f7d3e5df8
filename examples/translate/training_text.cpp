#include "training_text.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <attune/models/text/corpus.hpp>
#include <attune/models/text/token_words.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>

#include "line_lengths.hpp"
#include "support/output.hpp"
#include "training_reader.hpp"

namespace attune::translate {
namespace {

/// Where temporary files may be: in the directory of the run, or in the one it will be made in.
std::filesystem::path existing(std::filesystem::path directory) {
  std::error_code none;
  while (!directory.empty() && !std::filesystem::exists(directory, none)) {
    directory = directory.parent_path();
  }
  return directory.empty() ? "." : directory;
}

/// The links of each pair of a corpus, of those too that are not trained on.
class LinkReader {
 public:
  explicit LinkReader(const std::string& path) : lines_(path) {}

  /// Those of the pair that `reader` has read.
  text::Alignment next(const text::TextPair& pair, TrainingReader& reader) {
    const auto line = lines_.next();
    if (!line) {
      while (reader.next()) {  // to know how many there are
      }
      fail(fmt::format("{}:{}", lines_.name(), lines_.number() + 1),
           fmt::format("the file ends, but there are {} sentences", reader.number()));
    }
    return text::parse_links(*line, lengths_of(pair),
                             fmt::format("{}:{}", lines_.name(), lines_.number()));
  }

  void end() {
    const std::int64_t pairs = lines_.number();
    if (lines_.next()) lines_.fail(fmt::format("a line too many, there are {} sentences", pairs));
  }

 private:
  static text::SentenceLengths lengths_of(const text::TextPair& pair) {
    return {static_cast<int>(text::words(pair.source).size()),
            static_cast<int>(text::words(pair.target).size())};
  }

  text::LineReader lines_;
};

/// The links between tokens that follow from those between words.
text::Alignment links_of(const text::Alignment& words, const text::TextPair& lines,
                         std::span<const std::string> source, std::span<const std::string> target,
                         const TrainingReader& reader) {
  try {
    return models::token_links(words, text::words_of_tokens(lines.source, source),
                               text::words_of_tokens(lines.target, target));
  } catch (const Error&) {
    reader.fail("the model of sentencepiece changes words, so that --alignments cannot follow");
  }
}

}  // namespace

void TrainingText::Unknown::count(const text::Sentence& sentence) {
  all += std::ssize(sentence);
  unknown += std::ranges::count(sentence, text::Vocabulary::unknown);
}

void TrainingText::Unknown::report(const char* side, const std::string& vocabulary) const {
  if (unknown == 0) return;
  if (unknown == all) {
    fail(vocabulary.empty() ? "vocabulary" : vocabulary,
         fmt::format("none of the {}'s tokens is in it", side));
  }
  say("{:.2f} % of the {}'s tokens are unknown\n",
      100 * static_cast<double>(unknown) / static_cast<double>(all), side);
}

TrainingText::TrainingText(const TrainOptions& o, const Codecs& codecs)
    : options_(o), pairs_(existing(o.out)), links_(existing(o.out)), link_ends_(existing(o.out)) {
  const text::CorpusReport report = read(codecs);
  say("{}\n", to_string(report));
  if (pairs_.size() == 0) fail(o.source, "there is no sentence to train on");
  source_.report("source", o.source_vocabulary);
  target_.report("target", o.joint == Joint::yes ? o.source_vocabulary : o.target_vocabulary);
}

text::CorpusReport TrainingText::read(const Codecs& codecs) {
  const TrainOptions& o = options_;
  std::optional<LinkReader> alignments;
  if (!o.alignments.empty()) alignments.emplace(o.alignments);
  text::CorpusReport report{.longest = o.longest};
  TrainingReader reader(o, "numbering tokens");
  while (const auto lines = reader.next()) {
    const auto source = codecs.source.tokenizer.encode(lines->source),
               target = codecs.target.tokenizer.encode(lines->target);
    const auto words = alignments ? alignments->next(*lines, reader) : text::Alignment();
    if (!report.count(source.size(), target.size())) continue;
    const Index n_source = std::ssize(source), longest = longest_read(o.model.network, n_source);
    if (n_source > longest) reader.fail(too_long(n_source, longest));
    text::Pair pair{codecs.source.encode(source), codecs.target.encode(target)};
    if (const Index n = std::ssize(pair.target) + 1; o.batch_tokens > 0 && n > o.batch_tokens) {
      reader.fail(fmt::format("{} target words with </s>, expected at most --batch-tokens {}", n,
                              o.batch_tokens));
    }
    add(pair);
    if (alignments) add(links_of(words, *lines, source, target, reader));
  }
  if (alignments) alignments->end();
  return report;
}

void TrainingText::add(const text::Pair& pair) {
  pairs_.add(pair);
  source_.count(pair.source), target_.count(pair.target);
  hash_.add(pair.source), hash_.add(pair.target);
}

void TrainingText::add(const text::Alignment& links) {
  links_.append(links);
  link_ends_.append(links_.size());
  hash_.add(links.size());
  for (const auto& [source, target] : links) {
    hash_.add(static_cast<std::uint64_t>(source)), hash_.add(static_cast<std::uint64_t>(target));
  }
}

std::vector<std::vector<std::uint32_t>> TrainingText::batches(Index epoch) {
  return text::epoch_batches(pairs_.lengths(),
                             {.sentences = options_.batch, .tokens = options_.batch_tokens},
                             options_.seed, epoch);
}

text::Batch TrainingText::batch(std::span<const std::uint32_t> chosen) {
  std::vector<text::Pair> pairs;
  for (const std::uint32_t i : chosen) pairs.push_back(pairs_[i]);
  return text::make_batch(pairs);
}

models::Guide TrainingText::guide(std::span<const std::uint32_t> chosen, const text::Batch& batch) {
  if (options_.alignments.empty()) return {};
  const auto ends = link_ends_.values();
  std::vector<text::Alignment> some;
  for (const std::uint32_t i : chosen) {
    const std::uint64_t begin = i == 0 ? 0 : ends[i - 1];
    const auto links = links_.values().subspan(begin, ends[i] - begin);
    some.emplace_back(links.begin(), links.end());
  }
  return {models::alignment_guide(some, batch), options_.guided_alignment};
}

}  // namespace attune::translate
