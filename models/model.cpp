#include <attune/models/model.hpp>
#include <attune/tensor/shape_check.hpp>

namespace attune::models {

Model::Steps Model::unroll(const Source& source, const Tensor& previous, const Mask& mask,
                           bool weights) const {
  ShapeCheck check("unroll");
  check("the source's mask", source.mask, "S B")("previous", previous, "T B");
  if (mask.defined()) check("mask", mask, "T B");
  return of_->unroll(source, previous, mask, weights);
}

}  // namespace attune::models
