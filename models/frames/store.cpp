#include <algorithm>

#include <fmt/format.h>

#include <attune/models/frames/store.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>

namespace attune::frames {

Store::Store(Index features, std::filesystem::path directory)
    : features_(features), values_(std::move(directory)) {}

void Store::append(const Tensor& sequence) {
  ShapeCheck check("Store");
  check("sequence", sequence.shape(), "T D");
  if (check['D'] != features_ || check['T'] < 1) {
    fail("Store", fmt::format("a sequence of {} features was expected, not {}", features_,
                              to_string(sequence.shape())));
  }
  begins_.push_back(begins_.empty() ? 0 : begins_.back() + lengths_.back());
  lengths_.push_back(sequence.dim(0));
  const Tensor values = sequence.to(DType::f32);
  values_.append({values.data<float>(), static_cast<std::size_t>(values.size())});
}

Tensor Store::operator[](std::size_t number) {
  const std::span<const float> all = values_.values();
  return Tensor::of({lengths_.at(number), features_},
                    all.subspan(static_cast<std::size_t>(begins_[number] * features_),
                                static_cast<std::size_t>(lengths_[number] * features_)));
}

nn::Sequence make_batch(std::span<const Tensor> sequences) {
  if (sequences.empty()) fail("make_batch", "there is no sequence");
  ShapeCheck check("make_batch");
  std::vector<Index> lengths;
  for (const Tensor& sequence : sequences) {
    require_same_dtype("make_batch", sequences[0], sequence);
    lengths.push_back(sequence.dim(0));
    check("a sequence", sequence.shape().without(0), "D");
  }
  const Index batch = std::ssize(sequences), d = check['D'];
  const Tensor mask = mask_of(lengths, sequences[0].dtype());
  Tensor x = zeros({mask.dim(0), batch, d}, mask.dtype());
  visit_floating("make_batch", x, [&](auto zero) {
    using T = decltype(zero);
    T* to = x.mutable_data<T>();
    for (Index b = 0; b < batch; ++b) {
      const T* from = sequences[static_cast<std::size_t>(b)].data<T>();
      for (Index t = 0; t < lengths[static_cast<std::size_t>(b)]; ++t)
        std::copy_n(from + t * d, d, to + (t * batch + b) * d);
    }
  });
  return {x, mask};
}

}  // namespace attune::frames
