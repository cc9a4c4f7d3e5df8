// Names and rare words: what a model writes as `<unk>`, taken from the source.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <attune/models/hypothesis.hpp>
#include <attune/models/text/vocabulary.hpp>

namespace attune::models {

/// What source tokens become.
using Lexicon = std::unordered_map<std::string, std::string>;

/// The tokens of a hypothesis, each `<unk>` replaced by the source token with the largest attention
/// weight (the first of equals), or by what the lexicon has for that (Jean et al., 2015, section
/// 3.3; Luong et al., 2015, "Effective approaches", section 4.2). `source` are the tokens that the
/// model read, before any of them became `<unk>`. Throws when their number is not that of the
/// weights, or on an `<unk>` without weights.
std::vector<std::string> replace_unknown(const Hypothesis& hypothesis,
                                         std::span<const std::string> source,
                                         const text::Vocabulary& target,
                                         const Lexicon& lexicon = {});

}  // namespace attune::models
