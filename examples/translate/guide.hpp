// Word alignments that attention is guided by in training.
#pragma once

#include <span>
#include <vector>

#include <attune/models/guided_alignment.hpp>

#include "model.hpp"
#include "train.hpp"

namespace attune::translate {

/// The links of each of the training pairs, between tokens; nothing without a file of alignments.
/// Throws an Error "FILE:LINE: ..." for a line that is missing, or has something else than links
/// between words of its pair, and one when the model has no attention.
std::vector<metrics::Alignment> training_links(const TrainOptions& options, const Codecs& codecs);

/// For those pairs, which are a batch; without links none.
models::Guide guide_of(std::span<const metrics::Alignment> links,
                       std::span<const std::uint32_t> chosen, const text::Batch& batch,
                       double weight);

}  // namespace attune::translate
