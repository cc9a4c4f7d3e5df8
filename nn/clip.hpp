// Gradients that are too large, or no numbers at all.
#pragma once

#include <string>

#include <attune/autograd/backward.hpp>
#include <attune/nn/parameters.hpp>

namespace attune::nn {

/// Where ‖g‖₂ over all gradients exceeds `largest`, scales them by largest / ‖g‖₂ (Pascanu et al.,
/// 2013). Returns the norm before. The gradients store the norm, so that the check of an optimiser
/// after this costs nothing. Throws unless largest > 0, and, with nothing changed, when an element
/// is NaN or infinite; a finite norm is clipped, however large.
double clip_by_global_norm(Gradients& gradients, double largest);

/// The first parameter whose gradient has an element that is NaN or infinite: "the gradient of
/// 'decoder.W_h' (64, 256), element (3, 17) is nan". Empty where all are finite.
std::string first_not_finite(const Parameters& parameters, const Gradients& gradients);

}  // namespace attune::nn
