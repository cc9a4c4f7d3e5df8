// Clipping of gradients.
#pragma once

#include <attune/autograd/backward.hpp>

namespace attune::nn {

/// ‖g‖₂ over all elements of all gradients.
double global_norm(const Gradients& gradients);

/// Where ‖g‖₂ exceeds `largest`, scales all gradients by largest / ‖g‖₂ (Pascanu et al., 2013).
/// Returns the norm before. Throws unless largest > 0, and when the norm is not finite: the
/// gradients of such a step are not to be used.
double clip_by_global_norm(Gradients& gradients, double largest);

}  // namespace attune::nn
