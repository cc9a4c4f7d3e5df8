#include "validation.hpp"

#include <attune/tensor/check.hpp>

#include "line_lengths.hpp"

namespace attune::translate {

Validation validation_text(const std::string& source, const std::string& target,
                           const Codecs& codecs) {
  Validation validation;
  text::ParallelReader reader = text::open_pairs(source, target);
  while (const auto pair = reader.next()) {
    text::Pair encoded{codecs.source.encode(pair->source), codecs.target.encode(pair->target)};
    check_lengths(encoded, source, target, reader.number());
    if (encoded.source.empty()) continue;
    validation.pairs.push_back(std::move(encoded));
    validation.references.push_back(pair->target);
  }
  if (validation.pairs.empty()) fail(source, "there is no sentence to validate on");
  return validation;
}

}  // namespace attune::translate
