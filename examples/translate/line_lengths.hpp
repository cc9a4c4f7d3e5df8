// How long lines may be.
#pragma once

#include <cstdint>
#include <string>

#include <attune/models/text/batches.hpp>

namespace attune::translate {

/// The most tokens of a line to translate, whose memory grows with its length, and of each side of
/// a given pair, where the memory of attention grows with the product of both lengths.
inline constexpr Index longest_source = 100'000, longest_of_pair = 5'000;

/// Throw an Error "FILE:LINE: ..." for a line of more tokens than that.
void check_length(Index tokens, const std::string& file, std::int64_t line, Index longest);
void check_lengths(const text::Pair& pair, const std::string& source, const std::string& target,
                   std::int64_t line);

}  // namespace attune::translate
