#include <attune/autograd/ops.hpp>
#include <attune/models/readout.hpp>

namespace attune::models {

Readout::Readout(const nn::Scope& scope, const Seq2SeqOptions& o, Index context)
    : size_(o.readout),
      kind_(o.readout_kind),
      dropout_kind_(o.dropout_kind),
      dropout_(dropout_rate(o, o.readout_dropout), o.dropout_kind) {
  if (kind_ == ReadoutKind::attentional) {
    W_c_ = scope.add("W_c", {context + o.hidden, size_}, nn::init::glorot());
  } else {
    const Index columns = kind_ == ReadoutKind::maxout ? 2 * size_ : size_;
    sum_.emplace(scope, DeepOutputSizes{o.hidden, o.embedding, context}, columns);
  }
  for (Index l = 2; l <= o.readout_layers; ++l) {
    above_.emplace_back(scope / ("layer" + std::to_string(l)), size_, size_);
  }
}

Var Readout::first(const Var& y, const Var& s, const Var& c) const {
  if (kind_ == ReadoutKind::attentional) {
    return tanh(matmul(c.defined() ? concat({c, s}, -1) : s, W_c_));
  }
  const Var t = (*sum_)(s, y, c);
  return kind_ == ReadoutKind::maxout ? maxout(t) : tanh(t);
}

Var Readout::rest(Var t) const {
  for (const nn::Linear& layer : above_) t = dropout_(tanh(layer(t)));
  return t;
}

Tensor Readout::draw_mask(Index batch, DType dtype) const {
  if (dropout_kind_ == nn::DropoutKind::elementwise) return {};
  return dropout_.draw({batch, size_}, dtype);
}

}  // namespace attune::models
