#include <fmt/format.h>

#include <attune/models/listener.hpp>
#include <attune/tensor/check.hpp>

namespace attune::models {

Listener::Listener(const nn::Scope& scope, const ListenerOptions& o)
    : join_(o.join), dropout_(o.dropout) {
  if (join_.empty()) fail("Listener", "there is no layer");
  Index size = o.features;
  for (std::size_t l = 0; l < join_.size(); ++l) {
    if (join_[l] < 1) fail("Listener", fmt::format("layer {} joins {} steps", l + 1, join_[l]));
    layers_.emplace_back(scope / fmt::format("layer{}", l + 1), join_[l] * size, o.hidden,
                         nn::RecurrentOptions{.cell = o.cell});
    size = layers_.back().size();
  }
}

Encoded Listener::operator()(const Var& frames, const Tensor& mask) const {
  Encoded encoded{.h = frames, .last = {}, .mask = mask};
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const Var below = l == 0 ? frames : dropout_(encoded.h);
    const auto [x, steps] = nn::join_steps({below, encoded.mask}, join_[l]);
    const auto [h, last] = layers_[l](x, {.mask = steps});
    encoded.h = h;
    encoded.mask = steps;
    encoded.last.push_back(last.backward);
  }
  return encoded;
}

}  // namespace attune::models
