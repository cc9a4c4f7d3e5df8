#include "codecs.hpp"

#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/random.hpp>

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

text::SentencePiece learn_pieces(const Lines& lines, const TrainOptions& o) {
  const auto model = o.tokens == Tokens::bpe ? text::PieceModel::bpe : text::PieceModel::unigram;
  return text::SentencePiece::train(lines, {.model = model, .pieces = o.pieces});
}

/// Both sides' tokenizers; in a joint model they are one.
struct Tokenizers {
  text::Tokenizer source, target;
};
Tokenizers make_tokenizers(const TrainOptions& o) {
  const bool joint = o.joint == Joint::yes,
             subwords = o.tokens == Tokens::bpe || o.tokens == Tokens::unigram;
  const bool learn_source = subwords && o.source_pieces.empty(),
             learn_target = subwords && !joint && o.target_pieces.empty();
  Sample sample = learn_source || learn_target ? draw_lines(o) : Sample{};
  if (joint) {
    sample.source.insert(sample.source.end(), sample.target.begin(), sample.target.end());
  }
  const auto make = [&](const std::string& pieces, const Lines& lines) -> text::Tokenizer {
    if (!pieces.empty()) return text::SentencePiece::load(pieces);
    if (subwords) return learn_pieces(lines, o);
    return o.tokens == Tokens::words ? text::Tokenizer(text::Words{}) : text::Characters{};
  };
  const text::Tokenizer source = make(o.source_pieces, sample.source);
  return {source, joint ? source : make(o.target_pieces, sample.target)};
}

struct Counts {
  text::TokenCounts source, target;
};
Counts count_tokens(const Tokenizers& tokenizers, const TrainOptions& o) {
  TrainingReader reader(o, "counting tokens");
  Counts counts;
  text::TokenCounts& target = o.joint == Joint::yes ? counts.source : counts.target;
  while (const auto pair = next_with_words(reader)) {
    text::count_tokens(counts.source, tokenizers.source.encode(pair->source));
    text::count_tokens(target, tokenizers.target.encode(pair->target));
  }
  return counts;
}

}  // namespace

Codecs make_codecs(const TrainOptions& o) {
  const bool joint = o.joint == Joint::yes;
  if (joint && !(o.target_pieces.empty() && o.target_vocabulary.empty())) {
    fail("--joint yes",
         "both sides have what is given for the source, expected nothing for the "
         "target alone");
  }
  const Tokenizers tokenizers = make_tokenizers(o);
  const bool count = o.source_vocabulary.empty() || (!joint && o.target_vocabulary.empty());
  const Counts counts = count ? count_tokens(tokenizers, o) : Counts{};
  const auto vocabulary = [&](const std::string& path, const text::TokenCounts& tokens) {
    if (!path.empty()) return text::read_vocabulary(path);
    return text::make_vocabulary(
        tokens, {.minimum_count = o.minimum_count, .maximum_size = o.maximum_vocabulary});
  };
  const text::Codec source{tokenizers.source, vocabulary(o.source_vocabulary, counts.source)};
  if (joint) return {source, source};
  return {source, {tokenizers.target, vocabulary(o.target_vocabulary, counts.target)}};
}

}  // namespace attune::translate
