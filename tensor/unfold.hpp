// Windows of a sequence laid side by side: what convolutions over time and joined steps read.
#pragma once

#include <attune/tensor/tensor.hpp>

namespace attune {

/// Windows of `width` steps, of which each begins `stride` steps after the one before. The first
/// begins `before` steps before the sequence, and the last ends `after` steps after it at most;
/// outside of the sequence there are zeros.
struct UnfoldOptions {
  Index width = 1, stride = 1, before = 0, after = 0;
};

/// How many windows a sequence of so many steps has: (steps + before + after - width) / stride + 1,
/// rounded down, and none where it is shorter than a window. Throws unless width >= 1, stride >= 1,
/// before >= 0 and after >= 0.
Index windows_of(Index steps, const UnfoldOptions& options);

/// x (T, B, D) -> (T', B, width · D): y[t] = [x[t · stride - before]; ...; x[t · stride - before +
/// width - 1]]
Tensor unfold(const Tensor& x, const UnfoldOptions& options);

/// The gradient of unfold: every element of dy (T', B, width · D) added to the place in (T, B, D)
/// that it was read from, `steps` being T.
Tensor unfold_backward(const Tensor& dy, Index steps, const UnfoldOptions& options);

}  // namespace attune
