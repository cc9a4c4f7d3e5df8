#include <algorithm>

#include <attune/models/frames/batches.hpp>
#include <attune/tensor/arrange.hpp>
#include <attune/tensor/check.hpp>

namespace attune::frames {

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
