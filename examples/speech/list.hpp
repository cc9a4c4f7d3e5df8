// Lists of recordings, with what is said in them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <attune/models/text/codec.hpp>

#include "utterance.hpp"

namespace attune::speech {

/// A line of a list: a file, as a path from the list's directory, TAB its words.
struct Listed {
  std::filesystem::path file;
  std::string transcript;
  std::string where;  // "FILE:LINE", for errors
};

/// Throws an Error "FILE:LINE: what is wrong" for a line that has not two columns, or an empty one,
/// and for a list without lines.
std::vector<Listed> read_list(const std::filesystem::path& tsv);

/// The tokens of a transcript. A number that the vocabulary does not have is read digit by digit,
/// where it has their names: 72, seven two. What it does not have otherwise becomes <unk>.
text::Sentence tokens_of(const text::Codec& codec, const std::string& transcript);
/// The same of a line. Throws where there is none.
text::Sentence tokens_of(const text::Codec& codec, const Listed& listed);

/// The recording, at that rate. Throws an Error that begins with "FILE:LINE".
std::vector<float> samples_of(const Listed& listed, Index rate);

/// All of a list. Says on standard error how many recordings were converted from another rate, and
/// how many tokens are unknown.
std::vector<Utterance> read_utterances(const std::filesystem::path& tsv, const text::Codec& codec,
                                       Index rate);

}  // namespace attune::speech
