// Node classification: a graph attention network predicts communities; 1 node in 10 is labelled.
#include <iostream>

#include <attune/attune.hpp>

using namespace attune;

/// Graph attention (Veličković et al., 2018) with K heads of size F over edges j -> i:
///     h_i' = Σ_j α_ij h_j W,   α_i = softmax_j(leaky_relu(a_to · h_i W + a_from · h_j W, 0.2))
class GraphAttention {
 public:
  GraphAttention(const nn::Scope& scope, Index in, Index heads, Index size)
      : W_(scope.add("W", {in, heads * size}, nn::init::glorot())),
        a_from_(scope.add("a_from", {heads, size}, nn::init::glorot())),
        a_to_(scope.add("a_to", {heads, size}, nn::init::glorot())) {}

  /// x (N, in); edges from[e] -> to[e], (E) i32 -> (N, K, F)
  Var operator()(const Var& x, const Tensor& from, const Tensor& to) const {
    const Index nodes = x.dim(0);
    const Var h = reshape(matmul(x, W_), {nodes, a_to_.dim(0), a_to_.dim(1)});
    const Var scores = gather(sum(h * a_to_, -1), to) + gather(sum(h * a_from_, -1), from);
    const Var weights = segment_softmax(leaky_relu(scores, 0.2), to, nodes);  // (E, K)
    return segment_sum(unsqueeze(weights, -1) * gather(h, from), to, nodes);
  }

 private:
  Var W_, a_from_, a_to_;
};

int main() {
  Random random(/*seed=*/1);
  nn::Parameters small(/*seed=*/1, DType::f64);
  const GraphAttention checked(small, 3, 2, 4);
  const Tensor points = normal({5, 3}, random, DType::f64);
  const Tensor begins = integers({12}, random, 0, 5), ends = integers({12}, random, 0, 5);
  const GradcheckResult result = gradcheck(small, [&] { return checked(points, begins, ends); });
  std::cout << "graph attention: " << result << "\n";

  // 4 communities of 100 nodes. Each node has 8 incoming edges, 80 % of them from its own
  // community, and a self-loop. The features are the one-hot community with strong noise.
  const Tensor labels = repeat(arange(4), 100, 0), nodes = arange(400), into = repeat(nodes, 8, 0);
  const Tensor own = gather(labels, into) * 100 + integers(into.shape(), random, 0, 100);
  const Tensor other = integers(into.shape(), random, 0, 400);
  const Tensor near = where(bernoulli(into.shape(), random, 0.8), own, other);
  const Tensor from = concat({near, nodes}, 0), to = concat({into, nodes}, 0);
  const Tensor x = one_hot(labels, 4) + normal({400, 4}, random);
  const Mask labelled = bernoulli({400}, random, 0.1);

  nn::Parameters params;
  const GraphAttention first(params / "first", 4, 4, 8), second(params / "second", 32, 4, 4);
  nn::Adam adam(params, {.rate = 1e-2, .weight_decay = 0.1});
  double accuracy = 0;
  for (int step = 1; step <= 200; ++step) {
    const Var h = tanh(reshape(first(x, from, to), {400, 32}));
    const Var logits = mean(second(h, from, to), 1);  // over heads
    const Var loss = cross_entropy(logits, labels, labelled);
    adam.step(backward(loss));
    const Tensor right = (argmax(logits.value()) == labels).to(DType::f32);
    accuracy = mean(masked_select(right, labelled == 0)).item();
    if (step % 50 == 0)
      std::cout << step << ": loss " << loss.item() << ", accuracy " << accuracy << "\n";
  }
  return result && accuracy > 0.9 ? 0 : 1;
}
