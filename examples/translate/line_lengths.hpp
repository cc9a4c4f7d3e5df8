// How long lines may be.
#pragma once

#include <cstdint>
#include <string>

#include <attune/models/text/batches.hpp>

namespace attune::translate {

/// The most tokens of a line that is translated, which takes memory by its length, and of a side of
/// a pair that is given: what looks from one side to the other takes memory by both.
inline constexpr Index longest_source = 100'000, longest_of_pair = 5'000;

/// Throw an Error "FILE:LINE: ..." for a line of more tokens than that.
void check_length(const text::Sentence& sentence, const std::string& file, std::int64_t line,
                  Index longest);
void check_lengths(const text::Pair& pair, const std::string& source, const std::string& target,
                   std::int64_t line);

}  // namespace attune::translate
