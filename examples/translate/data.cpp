#include "data.hpp"

#include <concepts>

#include <fmt/format.h>

#include <attune/models/text/corpus.hpp>
#include <attune/tensor/check.hpp>

#include "line_lengths.hpp"

namespace attune::translate {
namespace {

using Lines = std::vector<std::string>;

text::Tokenizer learn_tokenizer(const Lines& lines, const TrainOptions& o) {
  if (o.tokens == Tokens::words) return text::Words{};
  if (o.tokens == Tokens::characters) return text::Characters{};
  const auto model = o.tokens == Tokens::bpe ? text::PieceModel::bpe : text::PieceModel::unigram;
  return text::SentencePiece::train(lines, {.model = model, .pieces = o.pieces});
}

text::Codec learn_codec(const Lines& lines, const TrainOptions& o) {
  const text::Tokenizer tokenizer = learn_tokenizer(lines, o);
  text::TokenCounts counts;
  for (const std::string& line : lines) text::count_tokens(counts, tokenizer.encode(line));
  return {tokenizer, text::make_vocabulary(counts, {.minimum_count = o.minimum_count,
                                                    .maximum_size = o.maximum_vocabulary})};
}

}  // namespace

Codecs learn_codecs(const TrainOptions& o) {
  Lines source, target;
  for (auto& [s, t] : text::read_corpus(text::ParallelReader(o.source, o.target)).pairs) {
    source.push_back(std::move(s)), target.push_back(std::move(t));
  }
  if (source.empty()) fail(o.source, "there is no sentence to train on");
  if (o.joint == Joint::no) return {learn_codec(source, o), learn_codec(target, o)};
  source.insert(source.end(), target.begin(), target.end());
  const text::Codec both = learn_codec(source, o);
  return {both, both};
}

std::vector<text::Pair> training_pairs(const TrainOptions& o, const Codecs& codecs) {
  auto [pairs, report] = text::encode_corpus(text::ParallelReader(o.source, o.target),
                                             codecs.source, codecs.target, {.longest = o.longest});
  fmt::print("{}\n", to_string(report));
  if (pairs.empty()) fail(o.source, "there is no sentence to train on");
  return std::move(pairs);
}

std::string fingerprint(std::span<const text::Pair> pairs,
                        std::span<const metrics::Alignment> links) {
  std::uint64_t hash = 0xCBF29CE484222325;  // FNV-1a, of words instead of bytes
  const auto add = [&](std::integral auto number) {
    hash = (hash ^ static_cast<std::uint64_t>(number)) * 0x100000001B3;
  };
  for (const auto& [source, target] : pairs) {
    for (const text::Sentence* side : {&source, &target}) {
      add(side->size());
      for (const std::int32_t id : *side) add(id);
    }
  }
  for (const metrics::Alignment& alignment : links) {
    add(alignment.size());
    for (const auto& [s, t] : alignment) add(s), add(t);
  }
  return fmt::format("{:016x}", hash);
}

Validation validation_text(const std::string& source, const std::string& target,
                           const Codecs& codecs) {
  Validation validation;
  text::ParallelReader reader(source, target);
  while (const auto pair = reader.next()) {
    text::Pair encoded{codecs.source.encode(pair->source), codecs.target.encode(pair->target)};
    check_lengths(encoded, source, target, reader.number());
    if (encoded.source.empty()) continue;
    validation.pairs.push_back(std::move(encoded));
    validation.references.push_back(pair->target);
  }
  if (validation.pairs.empty()) fail(source, "there is no sentence to validate on");
  return validation;
}

}  // namespace attune::translate
