// What pages about a model have in common.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <attune/nn/parameters.hpp>
#include <attune/tensor/safetensors.hpp>

#include "support/page.hpp"
#include "support/training_options.hpp"

namespace attune {

/// 12,345: a count, with its digits in groups of three.
std::string grouped(Index count);

/// A table of what the model's checkpoint says, but for its vocabularies and tokenizers, and more.
void add_card(report::Page& page, const Metadata& metadata,
              const std::vector<std::vector<std::string>>& more = {});

/// A table of names and shapes.
void add_parameters(report::Page& page, const nn::Parameters& parameters);

/// The numbers of `count` of some examples, evenly from the shortest to the longest, or of all.
std::vector<std::size_t> from_short_to_long(std::span<const std::size_t> lengths,
                                            std::size_t count);

/// A text between isolates (U+2068, U+2069), which keep one that is read from right to left from
/// moving what stands beside it. ASCII needs none.
std::string isolated(const std::string& text);

/// Where a page about a model is to be: `out`, or report.html in the model's directory. Throws,
/// before the work, where it cannot be written, and where something else than a page would be lost.
std::filesystem::path page_path(const std::filesystem::path& out,
                                const std::filesystem::path& directory);
/// Writes it, and prints where, and whether it replaces one. Of several workers only the first one
/// does; the others have helped to measure.
void write_page(const report::Page& page, const std::filesystem::path& path);

/// The report of a training that ended with this status, where one was asked for and there are best
/// weights. The status.
int then_report(int status, const TrainingOptions& options,
                const std::function<int(const std::filesystem::path& best)>& report);

}  // namespace attune
