// Sequences of real numbers, more of them than memory holds, and batches of them.
#pragma once

#include <attune/models/text/disk_array.hpp>
#include <attune/nn/sequence.hpp>

namespace attune::frames {

/// Sequences (T, D) f32 that are appended and then read by number. DiskBytes says where they are.
class Store {
 public:
  explicit Store(Index features, std::filesystem::path directory);

  /// Throws unless it is (T, D) with T >= 1.
  void append(const Tensor& sequence);
  std::size_t size() const { return lengths_.size(); }
  /// Steps of each, for batches of similar lengths (text::epoch_batches).
  std::span<const Index> lengths() const { return lengths_; }
  /// (T, D) of one. After the first call nothing may be appended.
  Tensor operator[](std::size_t number);

 private:
  Index features_;
  text::DiskArray<float> values_;
  std::vector<Index> lengths_, begins_;  // in steps
};

/// Sequences (T, D) of f32 or f64, side by side: x (T, B, D) with zeros after their ends, and the
/// mask. Throws when there is none, or where they differ in D or dtype.
nn::Sequence make_batch(std::span<const Tensor> sequences);

}  // namespace attune::frames
