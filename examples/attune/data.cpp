#include "data.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include <attune/models/text/utf8.hpp>
#include <attune/tensor/random.hpp>

#include "letters.hpp"
#include "output.hpp"

namespace attune::pairs {
namespace {

/// File size, at least 1; 1 if it is unknown.
double megabytes(const std::filesystem::path& path) {
  std::error_code none;
  const auto bytes = std::filesystem::file_size(path, none);
  return none ? 1 : std::max(1.0, bytes / 1e6);
}

bool has_words(const text::TextPair& pair) { return !pair.source.empty() && !pair.target.empty(); }

/// Hash by which pairs are held out. Checkpoints depend on it: on the pairs of training and
/// validation, whose fingerprints they contain.
std::uint64_t hash_of(const std::string& text) {
  const std::uint64_t stream = Random(/*seed=*/0, text).state()[1];  // a hash of the name
  return stream ^ (stream >> 29);
}

/// Selects held-out sources in the order of their hashes, skipping those with more pairs than are
/// still wanted: about `most` pairs in total. Only the smallest hashes are kept in memory.
class HeldOut {
 public:
  explicit HeldOut(Index most) : kept_(2 * most) {}
  void add(const std::string& source) {
    const std::uint64_t hash = hash_of(source);
    if (counts_.size() >= kept_ && (kept_ == 0 || hash > counts_.rbegin()->first)) return;
    ++counts_[hash];
    if (counts_.size() > kept_) counts_.erase(std::prev(counts_.end()));
  }
  /// If every source has more than `most` pairs: the rarest source, if half of the `all` pairs
  /// remain.
  std::set<std::uint64_t> chosen(Index most, Index all) const {
    std::set<std::uint64_t> hashes;
    Index left = most;
    for (const auto& [hash, count] : counts_)
      if (count <= left) hashes.insert(hash), left -= count;
    const auto rarest = std::ranges::min_element(counts_, {}, [](auto& one) { return one.second; });
    if (hashes.empty() && most > 0 && rarest != counts_.end() && rarest->second <= all / 2)
      hashes.insert(rarest->first);
    return hashes;
  }

 private:
  const std::size_t kept_;
  std::map<std::uint64_t, Index> counts_;  // number of pairs by source hash
};

/// Uniform random sample of the added pairs: Algorithm R (Vitter, 1985).
class Sampler {
 public:
  explicit Sampler(Index size) : size_(size) {}
  void add(text::TextPair pair) {
    if (seen_++ < size_) {
      sample.push_back(std::move(pair));
    } else if (const Index index = random_.below(seen_); index < size_) {
      sample[index] = std::move(pair);
    }
  }
  std::vector<text::TextPair> sample;

 private:
  const Index size_;
  Random random_{/*seed=*/0, "sample of the pairs"};  // the same for all models of an ensemble
  Index seen_ = 0;
};

using Side = std::string text::TextPair::*;
constexpr std::array<Side, 2> sides = {&text::TextPair::source, &text::TextPair::target};
template <class T>
using OfBoth = std::array<T, 2>;  // source, target

/// Statistics of one side of a sample, which determine the tokenisation.
struct Lines {
  double words = 0;         // mean words per line
  double characters = 0;    // mean characters per word
  double letters = 0;       // mean characters per line, without blanks
  std::size_t kinds = 0;    // number of different words
  double unspaced = 0;      // fraction of characters of scripts without blanks between words
  bool decomposes = false;  // canonical decomposition changes a line

  Lines(const std::vector<text::TextPair>& sample, Side side) {
    text::TokenCounts counts;
    for (const text::TextPair& pair : sample) {
      for (const std::string_view word : text::words(pair.*side)) {
        ++counts[std::string(word)], ++words;
        for (const std::string& letter : text::code_points(word)) {
          ++characters;
          unspaced += letter >= "\u0E00" && letter < "\uAC00";  // Thai to Han; Hangul has blanks
        }
      }
      decomposes = decomposes || text::decomposed(pair.*side) != pair.*side;
    }
    const double n = std::max<std::size_t>(1, sample.size());
    kinds = counts.size();
    unspaced /= std::max(1.0, characters);
    letters = characters / n, characters /= std::max(1.0, words), words /= n;
  }
  /// True for symbols separated by blanks, such as phones.
  bool are_symbols() const { return words > 1.5 && characters <= 2.5; }
  bool are_sentences() const { return words >= 4 && !are_symbols(); }
  /// Sentences of Chinese, Japanese, Thai, ...
  bool are_long_without_blanks() const { return words < 2 && letters >= 8 && unspaced > 0.5; }
};

constexpr std::size_t few_words = 1000;  // different words in the sample: subwords are not needed

/// Resolves `automatic`: the tokenisation, and the reason as text.
std::pair<Tokens, std::string> chosen_tokens(const Lines& lines, bool sentences, bool source) {
  if (lines.are_symbols())
    return {Tokens::words, fmt::format("they have {:.1f} characters on average", lines.characters)};
  if (sentences && lines.kinds <= few_words && lines.are_sentences())
    return {Tokens::words, fmt::format("there are {} different ones", lines.kinds)};
  // Numbers or names, of which subwords would be whole lines, have few repeated tokens.
  if (sentences && (lines.words >= 1.5 || lines.are_long_without_blanks()))
    return {Tokens::bpe, "lines are sentences"};
  // Targets are not decomposed: predictions should be encoded as in the file.
  return {source && lines.decomposes ? Tokens::decomposed : Tokens::characters,
          fmt::format("lines have {:.1f} words on average", lines.words)};
}

/// The truecaser of each side; empty without --truecase.
OfBoth<std::optional<text::Truecaser>> learn_case(const TrainOptions& o, const Survey& survey) {
  if (!o.truecase) return {};
  PairReader reader(o.train_files(), "learning the case of words");
  text::CaseCounts source, target;
  while (const auto pair = reader.next())
    if (!survey.holds_out(pair->source)) source.add(pair->source), target.add(pair->target);
  return {source.truecaser(), target.truecaser()};
}

text::SentencePiece learn_pieces(const Texts& lines, const char* of, Tokens tokens,
                                 const TrainOptions& o) {
  say("learning {} subwords of {} from {} lines: ", o.pieces, of, lines.size());
  std::fflush(stdout);
  const auto start = std::chrono::steady_clock::now();
  const auto model = tokens == Tokens::unigram ? text::PieceModel::unigram : text::PieceModel::bpe;
  try {
    auto learnt = text::SentencePiece::train(lines, {.model = model, .pieces = o.pieces});
    say("{}\n", duration(seconds_since(start)));
    return learnt;
  } catch (const Error& error) {
    say("\n");
    // SentencePiece's message on too few suggests options that attune does not have.
    const Index least = text::SentencePiece::least_pieces(lines);
    fail(fmt::format("--pieces {}", o.pieces),
         o.pieces >= least ? error.what()
                           : fmt::format("too few, since each character of {} is one of the "
                                         "subwords: expected at least {}",
                                         of, least));
  }
}

/// The tokenisation of each side, with `automatic` resolved. `explains`: prints the reasons.
OfBoth<Tokens> choose(const TrainOptions& o, const Survey& survey, bool explains) {
  OfBoth<Tokens> chosen = {o.source_tokens, o.target_tokens};
  for (const std::size_t side : {0, 1}) {
    if (side == 1 && o.joint) return {chosen[0], chosen[0]};
    if (chosen[side] == Tokens::automatic) chosen[side] = o.tokens;
    if (chosen[side] != Tokens::automatic) continue;
    const auto [tokens, why] =
        chosen_tokens(Lines(survey.sample, sides[side]), survey.has_sentences(), side == 0);
    constexpr const char* names[] = {
        "", "words between blanks", "characters", "decomposed characters", "subwords", "subwords"};
    if (explains)
      say("{}: {}, as {}\n", side == 0 ? "source" : "target", names[static_cast<int>(tokens)], why);
    chosen[side] = tokens;
  }
  return chosen;
}

/// The tokenizers of both sides, read from the given files or learnt; equal with --joint.
OfBoth<std::optional<text::Tokenizer>> make_tokenizers(const TrainOptions& o,
                                                       const Survey& survey) {
  OfBoth<std::optional<text::Tokenizer>> made;
  if (!o.source_pieces.empty()) made[0] = text::SentencePiece::load(o.source_pieces);
  if (!o.target_pieces.empty()) made[1] = text::SentencePiece::load(o.target_pieces);
  if (o.joint) made[1] = made[0];
  const auto truecasers = learn_case(o, survey);
  if (!made[0] || !made[1]) {
    const OfBoth<Tokens> tokens = choose(o, survey, /*explains=*/true);
    OfBoth<Texts> lines;
    if ((!made[0] && are_subwords(tokens[0])) || (!made[1] && are_subwords(tokens[1]))) {
      constexpr Index most = 1'000'000;  // pairs from which subwords are learnt
      Sampler sampler(most);
      PairReader reader(o.train_files(), "reading");
      while (auto pair = reader.next_with_words()) {
        if (survey.holds_out(pair->source)) continue;
        if (tokens[0] == Tokens::bpe)
          text::SentencePiece::check_words(pair->source, reader.source_place());
        if (tokens[1] == Tokens::bpe)
          text::SentencePiece::check_words(pair->target, reader.target_place());
        sampler.add(std::move(*pair));
      }
      for (const std::size_t side : {0, 1}) {
        for (const text::TextPair& pair : sampler.sample) {
          const std::string& line = pair.*sides[side];
          lines[o.joint ? 0 : side].push_back(truecasers[side] ? truecasers[side]->encode(line)
                                                               : line);
        }
      }
    }
    const auto make = [&](std::size_t side, const char* of) -> text::Tokenizer {
      if (are_subwords(tokens[side])) return learn_pieces(lines[side], of, tokens[side], o);
      if (tokens[side] == Tokens::words) return text::Words{};
      if (tokens[side] == Tokens::decomposed) return text::decomposed_characters();
      return text::Characters{};
    };
    if (!made[0]) made[0] = make(0, o.joint ? "both sides" : "the source");
    if (!made[1]) made[1] = o.joint ? made[0] : make(1, "the target");
  }
  for (const std::size_t side : {0, 1})
    if (const auto& truecaser = truecasers[side]) {
      if (text::decomposes(*made[side]))
        fail("--truecase", "does not support decomposed characters, expected other --tokens");
      made[side] = made[side]->with(std::make_shared<text::Truecaser>(*truecaser));
    }
  return made;
}

/// Reads the links of the pair that `reader` read last.
text::Alignment next_links(text::LineReader& links, const text::TextPair& pair,
                           const PairReader& reader) {
  const auto line = links.next();
  if (!line) {
    fail(fmt::format("{}:{}", links.name(), links.number() + 1),
         "end of file, expected links of the pair at {}", reader.source_place());
  }
  return text::parse_links(*line, words_of(pair.source, pair.target),
                           fmt::format("{}:{}", links.name(), links.number()));
}

/// Converts links between words to links between tokens.
text::Alignment links_of(const text::Alignment& words, const text::TextPair& lines,
                         std::span<const std::string> source, std::span<const std::string> target,
                         const PairReader& reader) {
  try {
    return models::token_links(words, text::words_of_tokens(lines.source, source),
                               text::words_of_tokens(lines.target, target));
  } catch (const Error&) {
    fail(reader.source_place(),
         "its tokens do not form the words between its blanks, as --alignments requires");
  }
}

[[noreturn]] void fail_empty(const PairFiles& files) {
  fail(files.name(), files.target.empty() ? "contains no pairs, expected lines of source TAB target"
                                          : "contain no pairs, expected text on both sides");
}

/// A maximum number of tokens on each side, and the option that sets it.
using Limit = std::pair<Index, const char*>;

[[noreturn]] void fail_long(const PairFiles& files, const char* use, const Limit& longest) {
  fail(files.name(),
       "all pairs to {} on have a side with more than {} tokens, expected a larger {}", use,
       longest.first, longest.second);
}

bool is_skipped(const text::TextPair& pair, const PairFiles& files) {
  return files.target.empty() && pair.source.empty() && pair.target.empty();
}

/// Limit in training and validation.
Limit longest_trained(const TrainOptions& o) {
  constexpr Index any = std::numeric_limits<Index>::max();
  const Index of_batch = o.batch_tokens > 0 ? o.batch_tokens - 1 : any;  // without </s>
  return std::min({Limit(o.longest, "--max-tokens"), Limit(of_batch, "--batch-tokens"),
                   Limit(longest_read(o.model, any), "--longest")});
}

/// Reads the pairs for which `keep` returns true, or all. A pair that is too long is an error or,
/// with `trained`, skipped and counted.
TestPairs read_some(const PairFiles& files, const Codecs& codecs, const Limit& longest, Sides sides,
                    const std::function<bool(const text::TextPair&)>& keep = {},
                    bool trained = false) {
  TestPairs all;
  all.name = files.name();
  PairReader reader(files, "reading");
  bool any = sides == Sides::optional;
  while (const auto pair = reader.next()) {
    if ((sides == Sides::required && is_skipped(*pair, files)) || (keep && !keep(*pair))) continue;
    if (sides == Sides::required && pair->target.empty())
      fail(reader.target_place(), "the target is empty");
    text::Sentence source = codecs.source.encode(pair->source),
                   target = codecs.target.encode(pair->target);
    if (trained && std::max(std::ssize(source), std::ssize(target)) > longest.first) {
      ++all.left_out;
      continue;
    }
    if (!trained) check_lengths(source, target, reader, longest.first);
    all.sources.push_back(std::move(source)), all.targets.push_back(std::move(target));
    any = any || !pair->source.empty();
    all.lines.push_back(pair->source);
    all.references.push_back({pair->target});
    all.numbers.push_back(reader.number());
  }
  if (!any && all.left_out > 0) fail_long(files, "validate", longest);
  if (!any) fail_empty(files);
  return all;
}

}  // namespace

PairReader::PairReader(const PairFiles& files, const std::string& what)
    : text_(files.text.value_or("")),
      reader_(files.text ? text::LineReader(text_, files.source.string())
                         : text::LineReader(files.source),
              files.target, files.columns),
      nfc_(files.nfc),
      total_(megabytes(files.source) + (files.target.empty() ? 0 : megabytes(files.target))),
      progress_(0, total_, what + ": MB") {}

std::optional<text::TextPair> PairReader::next() {
  auto pair = reader_.next();
  if (!pair) return pair;
  megabytes_ += (pair->source.size() + pair->target.size() + 2) / 1e6;
  const double seconds = reader_.number() % 256 == 0 ? seconds_since(start_) : 0;
  if (seconds > 3 && !is_silent())
    progress_.show(std::min(megabytes_, total_), fmt::format("{:.0f} pairs/s", number() / seconds));
  const char* const one_side = "contains a TAB, expected text without TABs, as there are two files";
  const bool first = number() == 1;  // detects a TSV file; later TABs count as blanks
  if (first && pair->source.find('\t') != std::string::npos) fail(source_place(), one_side);
  if (first && pair->target.find('\t') != std::string::npos) fail(target_place(), one_side);
  return text::TextPair{normalized(pair->source, nfc_), normalized(pair->target, nfc_)};
}

std::optional<text::TextPair> PairReader::next_with_words() {
  auto pair = next();
  while (pair && !has_words(*pair)) pair = next();
  return pair;
}

std::string PairReader::source_place() const {
  return fmt::format("{}:{}", reader_.source_name(), number());
}
std::string PairReader::target_place() const {
  return fmt::format("{}:{}", reader_.target_name(), number());
}

bool Survey::holds_out(const std::string& source) const {
  return !held_out.empty() && held_out.contains(hash_of(source));
}

bool Survey::has_sentences() const {
  const Lines source(sample, sides[0]), target(sample, sides[1]);
  return target.are_sentences() || (target.are_long_without_blanks() && source.are_sentences());
}

Survey survey_of(const PairFiles& files, Index held_out) {
  constexpr Index sampled = 2000;
  Survey survey;
  HeldOut held(held_out);
  Sampler sampler(sampled);
  PairReader reader(files, "reading");
  while (auto pair = reader.next_with_words()) {
    ++survey.pairs;
    held.add(pair->source);
    sampler.add(std::move(*pair));
  }
  if (survey.pairs == 0) fail_empty(files);
  survey.sample = std::move(sampler.sample);
  const Index most = std::min(held_out, survey.pairs / 10);
  survey.held_out = held.chosen(most, survey.pairs);
  if (held_out > 0 && survey.held_out.empty()) {
    fail("--train",
         "no pairs of {} can be held out (at most {} of {}, and all or none with the same source), "
         "expected --valid FILE",
         files.source.string(), most, survey.pairs);
  }
  return survey;
}

Survey survey_of(const TrainOptions& o) {
  return survey_of(o.train_files(), o.valid.empty() ? o.held_out : 0);
}

bool learns_subwords(const TrainOptions& o, const Survey& survey) {
  const auto [source, target] = choose(o, survey, /*explains=*/false);
  return (o.source_pieces.empty() && are_subwords(source)) ||
         (o.target_pieces.empty() && are_subwords(target) && !o.joint);
}

Codecs make_codecs(const TrainOptions& o, const Survey& survey) {
  if (o.joint && (o.target_tokens != Tokens::automatic || !o.target_pieces.empty() ||
                  !o.target_vocabulary.empty())) {
    fail("--joint yes",
         "both sides share the options of the source, expected no option of the target");
  }
  std::optional<text::Vocabulary> source, target;
  if (!o.source_vocabulary.empty()) source = text::read_vocabulary(o.source_vocabulary);
  if (!o.target_vocabulary.empty()) target = text::read_vocabulary(o.target_vocabulary);
  const auto [source_tokenizer, target_tokenizer] = make_tokenizers(o, survey);
  if (!source || !(o.joint || target)) {
    text::TokenCounts sources, own_targets;
    text::TokenCounts& targets = o.joint ? sources : own_targets;
    PairReader reader(o.train_files(), "counting tokens");
    while (const auto pair = reader.next_with_words()) {
      if (survey.holds_out(pair->source)) continue;
      text::count_tokens(sources, source_tokenizer->encode(pair->source));
      text::count_tokens(targets, target_tokenizer->encode(pair->target));
    }
    using Kind = text::Tokenizer::Kind;
    if (!source && source_tokenizer->kind() == Kind::words)
      examples::warn_of_rare_tokens("source", sources);
    if (!target && !o.joint && target_tokenizer->kind() == Kind::words)
      examples::warn_of_rare_tokens("target", targets);
    if (o.maximum_vocabulary > 0 && o.maximum_vocabulary < 5)
      fail("--vocabulary", "{} leaves only special tokens, expected 0 or at least 5",
           o.maximum_vocabulary);
    const text::VocabularyOptions sizes{.minimum_count = o.minimum_count,
                                        .maximum_size = o.maximum_vocabulary};
    if (!source) source = text::make_vocabulary(sources, sizes);
    if (!target && !o.joint) target = text::make_vocabulary(targets, sizes);
  }
  if (o.joint) target = source;
  return {{*source_tokenizer, *source}, {*target_tokenizer, *target}};
}

Fingerprint TestPairs::fingerprint() const {
  Fingerprint all;
  for (std::size_t i = 0; i < size(); ++i) {
    all.add(lines[i]);
    for (const std::string& reference : references[i]) all.add(reference);
  }
  return all;
}

text::PairLengths words_of(const std::string& source, const std::string& target) {
  return {int(text::words(source).size()), int(text::words(target).size())};
}

void check_lengths(const text::Sentence& source, const text::Sentence& target,
                   const PairReader& reader, Index longest) {
  check_length(std::ssize(source), reader.source_place(), longest);
  check_length(std::ssize(target), reader.target_place(), longest_of_pair);
}

void check_pairs(const PairFiles& files) {
  constexpr Index any_length = std::numeric_limits<Index>::max();
  read_some(files, Codecs(), {any_length, ""}, Sides::required, {}, /*trained=*/true);
}

TestPairs validation_pairs(const TrainOptions& o, const Survey& survey, const Codecs& codecs) {
  const Limit longest = longest_trained(o);
  if (!o.valid.empty())
    return read_some(o.valid_files(), codecs, longest, Sides::required, {}, /*trained=*/true);
  const auto is_held = [&](const text::TextPair& pair) {
    return has_words(pair) && survey.holds_out(pair.source);
  };
  TestPairs held = read_some(o.train_files(), codecs, longest, Sides::required, is_held,
                             /*trained=*/true);
  held.name = "pairs held out from " + held.name;
  return held;
}

PairFiles files_for(const Model& model, const UseOptions& o) {
  const bool swapped = model.entry("swap") == "yes";
  return {o.file, o.target, swapped ? text::Columns::target_first : o.columns, model.nfc(), o.text};
}

TestPairs pairs_for(const UseOptions& o, Models models, Sides sides) {
  const Model& first = models.front();
  if (!o.file.empty()) {
    return read_some(files_for(first, o), first.codecs, {longest_read(models, longest_of_pair), ""},
                     sides);
  }
  if (first.entry("train").empty())
    fail("PAIRS", "missing, and the checkpoint does not name its validation pairs");
  const TrainOptions trained = o.trained ? *o.trained : train_options_from(first.metadata);
  require_output(o, {trained.train, trained.train_target, trained.valid, trained.valid_target});
  const Survey survey = trained.valid.empty() ? survey_of(trained) : Survey();
  TestPairs pairs = validation_pairs(trained, survey, first.codecs);
  for (const Model& model : models)
    if (pairs.fingerprint().text() != model.entry("validation_data"))
      fail(pairs.name,
           "the file has changed, or the models were validated on different pairs: expected a "
           "file of PAIRS");
  return pairs;
}

void require_output(const UseOptions& o, std::vector<std::filesystem::path> inputs) {
  inputs.insert(inputs.end(), o.references.begin(), o.references.end());
  inputs.insert(inputs.end(), {o.file, o.target});
  if (!o.out.empty()) require_writable(o.out, inputs);
}

std::vector<std::vector<std::uint32_t>> padded_batches(std::span<const text::PairLengths> lengths,
                                                       const text::BatchOptions& options,
                                                       std::uint64_t seed, Index epoch,
                                                       std::size_t most) {
  auto all = text::epoch_batches(lengths, options, seed, epoch);
  const auto length = [&](std::uint32_t i) {
    return std::max<std::size_t>(lengths[i].source, lengths[i].target);
  };
  for (std::size_t i = 0; i < all.size();) {
    const std::size_t size = all[i].size(), half = size / 2;
    if (half == 0 || size * length(*std::ranges::max_element(all[i], {}, length)) <= most) {
      ++i;
      continue;
    }
    const std::vector<std::uint32_t> second(all[i].begin() + half, all[i].end());
    all[i].resize(half);
    all.insert(all.begin() + i + 1, second);
  }
  return all;
}

TrainingPairs::TrainingPairs(const TrainOptions& o, const Survey& survey, const Codecs& codecs)
    : options_(o) {
  const text::CorpusReport report = read(survey, codecs);
  if (report.kept() < report.read) say("{}\n", to_string(report));
  if (size() == 0) fail_long(o.train_files(), "train", longest_trained(o));
  const double mean = (sources_.values().size() + targets_.values().size()) / (2.0 * size());
  const double usual = std::max(256.0, 4 * mean);  // tokens per side
  for (const auto& [length, place] : longest_)
    if (length > 2 * usual)
      say("{}: {} tokens (mean: {:.1f}); --max-tokens excludes long pairs\n", place, length, mean);
  most_padded_ = std::max(usual * o.batch, 4.0 * o.batch_tokens);
}

text::CorpusReport TrainingPairs::read(const Survey& survey, const Codecs& codecs) {
  const TrainOptions& o = options_;
  std::optional<text::LineReader> alignments;
  if (!o.alignments.empty()) alignments.emplace(o.alignments);
  text::CorpusReport report{.longest = longest_trained(o).first};
  UnknownTokens unknown_source, unknown_target;
  PairReader reader(o.train_files(), "numbering tokens");
  while (const auto lines = reader.next()) {
    const auto words = alignments ? next_links(*alignments, *lines, reader) : text::Alignment();
    if (is_skipped(*lines, o.train_files()) || survey.holds_out(lines->source)) continue;
    const auto source = codecs.source.tokenizer.encode(lines->source),
               target = codecs.target.tokenizer.encode(lines->target);
    if (!report.count(source.size(), target.size())) continue;
    unknown_source.add(codecs.source, source), unknown_target.add(codecs.target, target);
    const std::size_t length = std::max(source.size(), target.size());
    if (longest_.size() < named || length > longest_.rbegin()->first) {
      longest_.emplace(length, reader.source_place());
      if (longest_.size() > named) longest_.erase(std::prev(longest_.end()));
    }
    const text::Pair pair{codecs.source.encode(source), codecs.target.encode(target)};
    sources_.add(pair.source), targets_.add(pair.target);
    lengths_.push_back(lengths_of(pair));
    longest_target_ = std::max<Index>(longest_target_, std::ssize(pair.target));
    fingerprint_.add(pair.source).add(pair.target);
    if (alignments) {
      const text::Alignment links = links_of(words, *lines, source, target, reader);
      links_.add(links);
      fingerprint_.add(links);
    }
  }
  if (alignments && alignments->next())
    alignments->fail(fmt::format("more lines than the {} sentences", reader.number()));
  const std::string data = o.train_files().name();
  unknown_source.require_known(data, "source", o.source_vocabulary);
  unknown_target.require_known(data, "target", o.joint ? o.source_vocabulary : o.target_vocabulary);
  unknown_source.warn(data, "source");
  unknown_target.warn(data, "target");
  return report;
}

std::vector<std::vector<std::uint32_t>> TrainingPairs::batches(Index epoch) const {
  return padded_batches(
      lengths_,
      {.sentences = options_.batch, .tokens = options_.batch_tokens, .pool = options_.pool},
      options_.seed, epoch, most_padded_);
}

text::Batch TrainingPairs::batch(std::span<const std::uint32_t> chosen) const {
  std::vector<text::Pair> pairs;
  for (const std::uint32_t i : chosen) pairs.push_back(pair(i));
  return text::make_batch(pairs);
}

models::Shortlist TrainingPairs::shortlist(const Codecs& codecs) const {
  return {size(), [&](std::size_t i) { return pair(i); }, codecs.source.vocabulary.size(),
          codecs.target.vocabulary.size()};
}

models::Guide TrainingPairs::guide(std::span<const std::uint32_t> chosen,
                                   const text::Batch& batch) const {
  if (options_.alignments.empty()) return {};
  std::vector<text::Alignment> some;
  for (const std::uint32_t i : chosen) some.emplace_back(links_[i].begin(), links_[i].end());
  return {models::alignment_guide(some, batch), options_.guided_alignment};
}

}  // namespace attune::pairs
