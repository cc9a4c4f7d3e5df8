#include "codecs.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>

#include <fmt/format.h>

#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/random.hpp>

#include "support/letters.hpp"
#include "support/progress.hpp"
#include "training_reader.hpp"

namespace attune::translate {
namespace {

using Lines = std::vector<std::string>;

/// The next pair that has words on both sides.
std::optional<text::TextPair> next_with_words(TrainingReader& reader) {
  auto pair = reader.next();
  while (pair && (text::words(pair->source).empty() || text::words(pair->target).empty())) {
    pair = reader.next();
  }
  return pair;
}

/// Lines to learn subwords from: all, or of more so many that are drawn (Vitter's algorithm R).
struct Sample {
  Lines source, target;
};
Sample draw_lines(const TrainOptions& o) {
  TrainingReader reader(o, "reading");
  Random random(o.seed, "lines to learn subwords from");
  Sample sample;
  for (Index seen = 0; auto pair = next_with_words(reader); ++seen) {
    if (seen < o.learn_from) {
      sample.source.push_back(std::move(pair->source));
      sample.target.push_back(std::move(pair->target));
    } else if (const Index place = random.below(seen + 1); place < o.learn_from) {
      sample.source[static_cast<std::size_t>(place)] = std::move(pair->source);
      sample.target[static_cast<std::size_t>(place)] = std::move(pair->target);
    }
  }
  if (sample.source.empty()) fail(o.source, "there is no sentence to train on");
  return sample;
}

/// The case of each side's words; nothing where it was not asked for.
struct Truecasers {
  std::optional<text::Truecaser> source, target;
};
Truecasers learn_case(const TrainOptions& o) {
  if (o.truecase == Truecase::no) return {};
  TrainingReader reader(o, "learning the case of words");
  text::CaseCounts source, target;
  while (const auto pair = reader.next()) source.add(pair->source), target.add(pair->target);
  return {source.truecaser(), target.truecaser()};
}

Lines in_case(const std::optional<text::Truecaser>& truecaser, Lines lines) {
  if (!truecaser) return lines;
  for (std::string& line : lines) line = truecaser->encode(line);
  return lines;
}

text::SentencePiece learn_pieces(const Lines& lines, const char* of, const TrainOptions& o) {
  const Task task(
      fmt::format("learning {} subwords of {} from {} lines", o.pieces, of, lines.size()));
  const auto model = o.tokens == Tokens::bpe ? text::PieceModel::bpe : text::PieceModel::unigram;
  try {
    return text::SentencePiece::train(lines, {.model = model, .pieces = o.pieces});
  } catch (const Error& error) {
    const std::string what = error.what(), few = "smaller than required_chars. ", other = " vs ";
    // It advises options that are its own.
    const std::size_t at = what.find(few) == what.npos ? what.npos : what.find(other);
    fail(fmt::format("--pieces {}", o.pieces),
         at == what.npos ? what
                         : fmt::format("each character of {} is one of them, so that at least {} "
                                       "were expected",
                                       of, std::atol(what.c_str() + at + other.size())));
  }
}

/// Both sides' tokenizers; in a joint model they are one. Files that are given are read first.
struct Tokenizers {
  std::optional<text::Tokenizer> source, target;
};
Tokenizers make_tokenizers(const TrainOptions& o) {
  Tokenizers made;
  if (!o.source_pieces.empty()) made.source = text::SentencePiece::load(o.source_pieces);
  if (!o.target_pieces.empty()) made.target = text::SentencePiece::load(o.target_pieces);
  const bool joint = o.joint == Joint::yes,
             subwords = o.tokens == Tokens::bpe || o.tokens == Tokens::unigram;
  const Truecasers truecasers = learn_case(o);
  Sample sample;
  if (subwords && !(made.source && (joint || made.target))) sample = draw_lines(o);
  sample.source = in_case(truecasers.source, std::move(sample.source));
  sample.target = in_case(truecasers.target, std::move(sample.target));
  if (joint) std::ranges::move(sample.target, std::back_inserter(sample.source));
  const auto make = [&](const Lines& lines, const char* of) -> text::Tokenizer {
    if (subwords) return learn_pieces(lines, of, o);
    return o.tokens == Tokens::words ? text::Tokenizer(text::Words{}) : text::Characters{};
  };
  if (!made.source) made.source = make(sample.source, joint ? "both sides" : "the source");
  if (!made.target) made.target = joint ? *made.source : make(sample.target, "the target");
  if (truecasers.source)
    made.source = made.source->with(std::make_shared<text::Truecaser>(*truecasers.source));
  if (truecasers.target)
    made.target = made.target->with(std::make_shared<text::Truecaser>(*truecasers.target));
  return made;
}

struct Counts {
  text::TokenCounts source, target;
};
Counts count_tokens(const Tokenizers& tokenizers, const TrainOptions& o) {
  TrainingReader reader(o, "counting tokens");
  Counts counts;
  text::TokenCounts& target = o.joint == Joint::yes ? counts.source : counts.target;
  while (const auto pair = next_with_words(reader)) {
    text::count_tokens(counts.source, tokenizers.source->encode(pair->source));
    text::count_tokens(target, tokenizers.target->encode(pair->target));
  }
  return counts;
}

text::Vocabulary make_vocabulary(const text::TokenCounts& counts, const TrainOptions& o) {
  return text::make_vocabulary(
      counts, {.minimum_count = o.minimum_count, .maximum_size = o.maximum_vocabulary});
}

}  // namespace

Codecs make_codecs(const TrainOptions& o) {
  const bool joint = o.joint == Joint::yes;
  if (joint && !(o.target_pieces.empty() && o.target_vocabulary.empty())) {
    fail("--joint yes",
         "both sides have what is given for the source, expected nothing for the "
         "target alone");
  }
  std::optional<text::Vocabulary> source, target;
  if (!o.source_vocabulary.empty()) source = text::read_vocabulary(o.source_vocabulary);
  if (!o.target_vocabulary.empty()) target = text::read_vocabulary(o.target_vocabulary);
  const Tokenizers tokenizers = make_tokenizers(o);
  const bool known = source && (joint || target);
  const Counts counts = known ? Counts{} : count_tokens(tokenizers, o);
  if (!source) source = make_vocabulary(counts.source, o);
  if (!target) target = joint ? *source : make_vocabulary(counts.target, o);
  return {{*tokenizers.source, *source}, {*tokenizers.target, *target}};
}

}  // namespace attune::translate
