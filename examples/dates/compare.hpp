// `dates compare`
#pragma once

#include "train.hpp"

namespace attune::dates {

/// The names of all variants, in the order of the table.
std::vector<std::string> variant_names();

struct CompareArguments {
  TrainOptions train;  // of each, which has a directory of its own in `out`
  std::vector<std::string> variants = variant_names();
  Index embedding = 32;
  Index hidden = 64;      // of states, scores and readouts
  Index half_width = 16;  // of local windows: about half of a long English date
  double dropout = 0;
  bool markdown = false;
};

/// Those that all variants have in common.
std::span<const models::OptionField<CompareArguments>> compare_fields();

/// Trains the variants one after the other with the same options, those that are not finished yet,
/// and prints a table of their best weights on the validation examples. Returns the exit status;
/// after an interrupted run at once.
int compare(const CompareArguments& options);

}  // namespace attune::dates
