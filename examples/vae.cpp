// A variational autoencoder of 16 images (8 x 8 pixels); each image is one white row or column.
#include <iostream>

#include <attune/attune.hpp>

using namespace attune;

/// VAE (Kingma and Welling, 2014) with the posterior q(z | x) = N(μ, σ²) and the prior N(0, 1):
///     -ELBO = -log p(x | z) + KL(q ‖ N(0, 1)),   z = μ + σ ⊙ ε,   ε ~ N(0, 1)
class Vae {
 public:
  Vae(const nn::Scope& scope, Index pixels, Index hidden, Index latent)
      : encoder_(scope / "encoder", pixels, hidden),
        mean_(scope / "mean", hidden, latent),
        log_variance_(scope / "log_variance", hidden, latent),
        decoder_(scope / "decoder", latent, hidden),
        pixels_(scope / "pixels", hidden, pixels) {}

  /// -ELBO in nats per image: x (B, P) in [0, 1], ε (B, Z) -> ()
  Var operator()(const Tensor& x, const Tensor& noise) const {
    const Var h = tanh(encoder_(x));
    const Var mean = mean_(h), log_variance = log_variance_(h);
    const Var z = mean + exp(0.5 * log_variance) * noise;
    const Var kl = 0.5 * sum(square(mean) + exp(log_variance) - log_variance - 1);
    const Var error = binary_cross_entropy_with_logits(logits(z), x, Reduction::sum);
    return (error + kl) / static_cast<double>(x.dim(0));
  }

  /// z (B, Z) -> logits of the pixels (B, P)
  Var logits(const Var& z) const { return pixels_(tanh(decoder_(z))); }

 private:
  nn::Linear encoder_, mean_, log_variance_, decoder_, pixels_;
};

int main() {
  Random random(/*seed=*/1);
  nn::Parameters small(/*seed=*/1, DType::f64);
  const Vae checked(small, 6, 5, 2);
  const Tensor x = bernoulli({3, 6}, random, 0.5, DType::f64);
  const Tensor noise = normal({3, 2}, random, DType::f64);
  const GradcheckResult result = gradcheck(small, [&] { return checked(x, noise); });
  std::cout << "VAE: " << result << "\n";

  const Tensor rows = repeat(eye(8), 8, 1);  // (8, 64)
  const Tensor columns = broadcast_to(unsqueeze(eye(8), 1), {8, 8, 8}).reshape({8, 64});
  const Tensor images = concat({rows, columns}, 0);
  nn::Parameters params;
  const Vae vae(params, 64, 64, 2);
  nn::Adam adam(params);
  const nn::LinearDecay schedule{.rate = 2e-2, .steps = 4000};
  for (int step = 1; step <= 4000; ++step) {
    const Tensor batch = gather(images, integers({64}, random, 0, 16));
    const Var loss = vae(batch, normal({64, 2}, random));
    adam.set_rate(schedule(adam.steps()));
    adam.step(backward(loss));
    if (step % 500 == 0) std::cout << step << ": -ELBO " << loss.item() << "\n";
  }
  const double loss = vae(repeat(images, 99, 0), normal({99 * 16, 2}, random)).item();
  std::cout << "-ELBO " << loss << " (at best ln 16 = 2.77); an image drawn from the prior:\n"
            << (vae.logits(normal({1, 2}, random)) > 0).reshape({8, 8}) << "\n";
  return result && loss < 4.2 ? 0 : 1;
}
