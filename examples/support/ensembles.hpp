// One model, or several that write together.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include <attune/models/ensemble.hpp>

#include "support/signals.hpp"
#include "support/text_model.hpp"

namespace attune {

/// The models of these files. Throws where one does not read and write the same tokens as the
/// first.
template <class Model>
std::vector<Model> load_alike(std::span<const std::filesystem::path> files) {
  std::vector<Model> models;
  for (const auto& file : files) {
    models.push_back(Model::load(file));
    check_alike(codec_entries, models.front().metadata(), file, models.back().metadata(),
                "the first model");
  }
  return models;
}

/// A network that can be interrupted at every word.
struct Interruptible : models::Seq2Seq {
  explicit Interruptible(const models::Seq2Seq& network) : models::Seq2Seq(network) {}

  Step step(const Words& words, const State& state) const {
    stop_if_interrupted();
    return models::Seq2Seq::step(words, state);
  }
};

/// Calls `use` with the network, or with the ensemble of several.
template <class Model, class F>
auto with_network(std::span<const Model> models, F use) {
  std::vector<Interruptible> networks;
  for (const Model& model : models) networks.emplace_back(model.network());
  if (networks.size() == 1) return use(networks.front());
  std::vector<const Interruptible*> all;
  for (const Interruptible& network : networks) all.push_back(&network);
  return use(models::Ensemble<Interruptible>(all));
}

}  // namespace attune
