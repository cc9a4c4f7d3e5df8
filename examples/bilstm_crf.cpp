// Sequence tagging: a bidirectional LSTM with a conditional random field (CRF) tags spans of two
// kinds, which differ only in their last word.
#include <iostream>

#include <attune/attune.hpp>

using namespace attune;

/// BiLSTM-CRF (Huang, Xu and Yu, 2015): e = BiLSTM(x) W + b; for each sequence y of tags
///     score(y) = Σ_t e_t[y_t] + A[y_{t-1}, y_t],   p(y | x) = e^score(y) / Σ_y' e^score(y')
class BiLstmCrf {
 public:
  BiLstmCrf(const nn::Scope& scope, Index words, Index tags, Index hidden)
      : embedding_(scope / "embedding", words, hidden),
        lstm_(scope / "lstm", hidden, hidden),
        emissions_(scope / "emissions", 2 * hidden, tags),
        A_(scope.add("A", {tags, tags}, nn::init::zeros())) {}

  /// -log p(tags | words), mean over words: words, tags (T, B) i32, mask (T, B) -> ()
  Var loss(const Tensor& words, const Tensor& tags, const Mask& mask) const {
    const Var e = emissions(words, mask);
    const Var moves = pad(gather(A_, tags.slice(0, tags.dim(0) - 1)), 0, 1, 0);  // (T, B, tags)
    const Var score = squeeze(take_along_axis(e + moves, unsqueeze(tags, -1), -1), -1) * mask;
    const Var all =
        over_paths(e, mask, [](const Var& x, int axis) { return log_sum_exp(x, axis); });
    return (sum(all) - sum(score)) / sum(mask);
  }

  /// The most probable tags (T, B). The derivative of the maximum score with respect to e is 1 for
  /// the tags of the best path, and 0 for others.
  Tensor tags(const Tensor& words, const Mask& mask) const {
    const Var e = variable(emissions(words, mask).value());
    const Var best = over_paths(e, mask, [](const Var& x, int axis) { return max(x, axis); });
    return argmax(backward(sum(best), {e})[e]);
  }

 private:
  /// words (T, B) -> e (T, B, tags)
  Var emissions(const Tensor& words, const Mask& mask) const {
    return emissions_(lstm_(embedding_(words), {.mask = mask}).h);
  }

  /// Reduces the scores of all tag sequences by dynamic programming: e (T, B, tags) -> (B)
  template <class Reduce>
  Var over_paths(const Var& e, const Mask& mask, Reduce reduce) const {
    Var scores = e[0];
    for (Index t = 1; t < e.dim(0); ++t)
      scores = where(unsqueeze(mask[t], -1), reduce(unsqueeze(scores, -1) + A_, 1) + e[t], scores);
    return reduce(scores, -1);
  }

  nn::Embedding embedding_;
  nn::Bidirectional<nn::Lstm> lstm_;
  nn::Linear emissions_;
  Var A_;
};

struct Batch {
  Tensor words, tags;  // (T, B) i32
  Mask mask;
};

/// Words 0 to 3 occur everywhere; word 4 begins a span, and 5 or 6 ends it. Tag 0 is outside of
/// spans; a span that ends with 5 has tag 1 for its first word and 2 for the others, one that ends
/// with 6 has tags 3 and 4.
Batch draw(Random& random, Index size, DType dtype = DType::f32) {
  const Tensor t = unsqueeze(arange(16), 1);  // (T, 1)
  const Tensor begin = integers({size}, random, 0, 6);
  const Tensor end = begin + integers({size}, random, 1, 7);
  const Tensor length = end + integers({size}, random, 1, 5), kind = integers({size}, random, 0, 2);
  const Tensor other = integers({16, size}, random, 0, 4);
  const Tensor words = where(t == begin, 4, where(t == end, 5 + kind, other));
  const Tensor tags = (t >= begin) * (t <= end) * (2 * kind + 2) - (t == begin);
  return {words, tags, (t < length).to(dtype)};
}

int main() {
  Random random(/*seed=*/1);
  nn::Parameters small(/*seed=*/1, DType::f64);
  const BiLstmCrf checked(small, 7, 5, 3);
  const Batch x = draw(random, 3, DType::f64);
  const GradcheckResult result =
      gradcheck(small, [&] { return checked.loss(x.words, x.tags, x.mask); });
  std::cout << "BiLSTM-CRF: " << result << "\n";

  nn::Parameters params;
  const BiLstmCrf model(params, 7, 5, 16);
  nn::Adam adam(params, {.rate = 1e-2});
  for (int step = 1; step <= 200; ++step) {
    const Batch batch = draw(random, 32);
    const Var loss = model.loss(batch.words, batch.tags, batch.mask);
    adam.step(backward(loss));
    if (step % 50 == 0) std::cout << step << ": loss " << loss.item() << "\n";
  }
  const Batch test = draw(random, 500);
  const Tensor right = (model.tags(test.words, test.mask) == test.tags).to(DType::f32);
  const double sentences = mean(min(where(test.mask, right, 1), 0)).item();
  std::cout << "sentences without a wrong tag: " << 100 * sentences << " %\n";
  return result && sentences > 0.95 ? 0 : 1;
}
