// Decoding: greedy and beam search, sampling, and forced decoding.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <attune/models/loss.hpp>
#include <attune/models/model.hpp>
#include <attune/models/shortlist.hpp>
#include <attune/models/text/batches.hpp>
#include <attune/models/text/tokenizer.hpp>

namespace attune::models {

/// A decoded sentence.
struct Hypothesis {
  std::vector<std::int32_t> words;             // token ids, without `</s>`
  std::vector<double> word_log_probabilities;  // of each token, and of `</s>` if `complete`
  double log_probability = 0;                  // the sum of word_log_probabilities
  double score = 0;                            // ranking score, see SearchOptions
  bool complete = false;                       // ends with `</s>`; false if truncated at max_length
  /// (steps, S) f32: attention weights at each token, and at `</s>`; undefined without attention.
  Tensor weights;
};

/// Returns the text of a hypothesis; `number` is the index of its source sentence,
/// plus TranslateOptions::first.
using TextOf = std::function<std::string(const Hypothesis& hypothesis, Index number)>;

/// The hypotheses of one sentence, best first. Sampling returns one hypothesis.
using Translation = std::vector<Hypothesis>;

/// The tokens of a hypothesis, with each `<unk>` replaced by the source token with the largest
/// attention weight, the first in case of ties (Jean et al., 2015, section 3.3; Luong et al., 2015,
/// "Effective approaches", section 4.2). `source` has the original source tokens. Throws unless
/// there is one weight per source token, and on an `<unk>` without weights.
std::vector<std::string> replace_unknown(const Hypothesis& hypothesis,
                                         std::span<const std::string> source,
                                         const text::Vocabulary& target);

// ---- Search and sampling

/// Each token is drawn from p_v ∝ exp(x_v / temperature), where x are the logits. The candidates
/// are the most probable tokens: at most `top_k` (Fan et al., 2018), and not more than are needed
/// for a total probability of `top_p` (nucleus sampling, Holtzman et al., 2020). Of tokens with
/// equal probability, the one with the smaller id has priority.
struct SamplingOptions {
  double temperature = 1;  // > 0; values below 1 make probable tokens more probable
  Index top_k = 0;         // 0 means all tokens
  double top_p = 1;
  std::uint64_t seed = 1;
};

/// Options of decoding. Hypotheses are ranked as in Wu et al. (2016), section 7, with |Y|ᵅ instead
/// of the length penalty of equation 14:
///     s = log P(Y|X) / |Y|ᵅ + β Σ_i log(min(Σ_j p_ij, 1))
/// where |Y| is the number of target tokens including `</s>`, and p_ij is the attention weight of
/// source token i at target token j. α (`length_penalty`; 0.6 to 0.7 in the paper) compensates for
/// the decrease of P with length. β penalises source tokens without attention. Σ_j p_ij is clamped
/// to at least 10⁻¹⁰.
struct SearchOptions {
  Index beam = 1;               // beam size K; 1 is greedy search
  Index max_length = 100;       // maximum number of tokens before `</s>`
  bool within_source = false;   // also limits the number of tokens to the source length
  double length_penalty = 0;    // α
  double coverage_penalty = 0;  // β
  Index best = 1;               // number of hypotheses returned per sentence, at most K
  bool weights = true;          // return attention weights; implied by a coverage_penalty
  OutputTokens output_tokens = OutputTokens::words;
  /// Ids of `<s>` and `</s>`. With end = -1 there is no end token, as in some character language
  /// models, and every sentence has max_length tokens.
  std::int32_t begin = text::Vocabulary::begin, end = text::Vocabulary::end;
  /// If set, `translate` computes only the logits of these tokens, and each model of an ensemble
  /// normalises their probabilities to a sum of 1. Must outlive the call. The result of a sentence
  /// does not depend on the batching.
  const Shortlist* shortlist = nullptr;
  /// If set, samples one sentence per source; ignores beam, best and penalties.
  std::optional<SamplingOptions> sampling = {};
  std::function<void()> before_step = {};  // if set, is called before each step; may throw
};

/// Beam search: the best hypotheses of each source of a batch, by score. Ties are resolved by the
/// order of hypotheses, then by token id, so results are reproducible. A hypothesis of max_length
/// tokens is complete if `</s>` is its most probable next token, else truncated.
///
/// Each step keeps the K continuations with the largest log-probability. A finished hypothesis
/// stays in the beam, and only finished ones are length-normalised. The search of a sentence ends
/// when K hypotheses are finished, or when no active hypothesis can exceed the `best` finished
/// scores. The bound for this is log P divided by the largest possible |Y|ᵅ, as log P only
/// decreases and the coverage term is at most 0. With α = 0 the search ends early, with α = 1 often
/// at max_length.
///
/// Throws on a source without tokens, on NaN scores, if all tokens have probability 0 and no
/// hypothesis is finished, and on β > 0 without attention.
std::vector<Translation> search(const Model& model, const Model::Source& source,
                                const SearchOptions& options = {});
/// The same for a model with an encoder of token ids.
std::vector<Translation> search(const Model& model, const text::SourceBatch& batch,
                                const SearchOptions& options = {});

/// Samples one sentence per source. Its score is its log-probability under the model, at
/// temperature 1 and without top_k and top_p. The result depends on the seed and on the sentence's
/// number in `numbers` (default 0 to B - 1), but not on the other sentences of the batch. Throws on
/// a source without tokens, and on NaN scores.
std::vector<Hypothesis> sample(const Model& model, const Model::Source& source,
                               const SamplingOptions& sampling = {}, SearchOptions options = {},
                               std::span<const Index> numbers = {});

// ---- Forced decoding

/// Scores given targets (forced decoding): returns them as hypotheses with the log-probability of
/// each token and of `</s>`, equal to those of a search, and the attention weights, without
/// padding. The score is the log-probability. Uses the options `output_tokens` (plus the target's
/// tokens), `end` and `weights`. Throws on a target without mask, or that
/// does not end with `end`, and as `search` does on NaN scores and tokens of probability 0.
std::vector<Hypothesis> force_decode(const Model& model, const Model::Source& source,
                                     const Target& target, const SearchOptions& options = {});
/// The same for a model with an encoder of token ids.
std::vector<Hypothesis> force_decode(const Model& model, const text::Batch& batch,
                                     const SearchOptions& options = {});

// ---- Translation of many sentences, sorted by length and split into batches

struct TranslateOptions {
  SearchOptions how = {};
  Index sentences = 64;  // maximum per batch
  Index words = 8192;    // maximum tokens per batch, with padding; at least one sentence
  Index first = 0;       // number of the first sentence, for sampling
  /// If set, returns only the best of the hypotheses of a sentence with equal text, as several
  /// subword sequences may have. If fewer than `best` remain, doubles the beam, up to 1,024.
  TextOf text = {};
};

/// Translates sentences of token ids, and returns the results in the same order. The result for an
/// empty sentence is one complete hypothesis without tokens, with log-probability 0. Results do not
/// depend on the batching. Throws as `search` and `sample` do, and unless options.sentences
/// and options.words are >= 1.
std::vector<Translation> translate(const Model& model, std::span<const text::Sentence> sources,
                                   const TranslateOptions& options = {});

}  // namespace attune::models
