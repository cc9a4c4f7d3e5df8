// Restriction of decoding to likely target tokens of each source ("vocabulary selection", L'Hostis et
// al., 2016): the logits of all other tokens are not computed.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include <attune/models/text/batches.hpp>
#include <attune/tensor/safetensors.hpp>

namespace attune::models {

/// Lists, for each source token, the target tokens that it is most often translated to, and the most
/// frequent target tokens.
class Shortlist {
 public:
  static constexpr Index most_links = 50, most_frequent = 1000;  // per source token; of all

  Shortlist() = default;
  /// Learns translation probabilities t(target | source) from pairs 0 to n - 1 of token ids, with
  /// IBM model 1 (Brown et al., 1993, section 4.4) and a null token. Keeps the `most_links` largest
  /// of each source token. Reads an evenly spaced part of the pairs if there are very many.
  Shortlist(std::size_t n, const std::function<text::Pair(std::size_t)>& pair,
            Integer source_vocabulary, Integer target_vocabulary);

  bool defined() const { return links_.defined(); }
  /// The tokens for a sentence, without repetition, in ascending order.
  std::vector<std::int32_t> tokens(std::span<const std::int32_t> source) const;

  /// The tensors "shortlist.links" (source vocabulary, most_links) i32, filled up with -1, and
  /// "shortlist.frequent" i32.
  void store(Safetensors& file) const;
  /// Undefined if the file has none. Throws unless its ids are in range.
  static Shortlist of(const Safetensors& file, Integer source_vocabulary,
                      Integer target_vocabulary);

 private:
  Tensor links_, frequent_;
};

}  // namespace attune::models
