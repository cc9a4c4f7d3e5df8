// How long lines may be.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <attune/models/seq2seq_options.hpp>
#include <attune/models/text/batches.hpp>

#include "model.hpp"

namespace attune::translate {

/// The most tokens of a line to translate, whose memory grows with its length, and of each side of
/// a given pair, where the memory of attention grows with the product of both lengths.
inline constexpr Index longest_source = 100'000, longest_of_pair = 5'000;

/// `most`, or as many tokens as the score location has places for, of a source.
Index longest_read(const models::Seq2SeqOptions& network, Index most);
/// The same for models that write together.
Index longest_read(std::span<const Model> models, Index most);

/// Throw an Error "FILE:LINE: ..." for a line of more tokens than `longest`, of a pair for a source
/// of more than that, or a target of more than longest_of_pair.
void check_length(Index tokens, const std::string& file, std::int64_t line, Index longest);
void check_lengths(const text::Pair& pair, const std::string& source, const std::string& target,
                   std::int64_t line, Index longest);
/// "5001 tokens, expected at most 5000"
std::string too_long(Index tokens, Index longest);

}  // namespace attune::translate
