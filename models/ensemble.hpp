// Several models as one.
#pragma once

#include <vector>

#include <attune/models/model.hpp>

namespace attune::models {

/// Ensemble of N models: averages their token probabilities,
///     p(y_t) = 1/N Σ_n p_n(y_t),
/// and the attention weights of the models with attention. Returns the model itself if N = 1.
/// Throws if there is no model; decoding throws if the vocabulary sizes differ.
Model ensemble_of(std::vector<Model> models);

}  // namespace attune::models
