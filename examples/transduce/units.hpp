// What the lines of a side are cut into.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <attune/models/text/codec.hpp>

namespace attune::transduce {

enum class Units { automatic, characters, decomposed, words, subwords };

/// Whether most lines have blanks between short symbols (of 2.5 characters in the mean), such as
/// phones: then `automatic` stands for words. Otherwise it stands for characters; of the source
/// they are decomposed where that makes any difference: accents, and the letters of Hangul
/// syllables, are then characters.
bool are_symbols(std::span<const std::string> lines);

enum class Side { source, target };

/// Learnt from these lines; `pieces` is the largest number of subwords. Throws an Error that begins
/// with `option` where subwords cannot be learnt.
text::Codec make_codec(std::span<const std::string> lines, Side side, Units units, Index pieces,
                       const std::string& option);

/// "characters (41 kinds)"
std::string description(const text::Codec& codec);

}  // namespace attune::transduce
