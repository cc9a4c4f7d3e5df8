// Classifies noisy sequences of different lengths by their trend (rising or falling), with a
// bidirectional LSTM, masks and dropout. Then saves and loads the weights.
#include <filesystem>
#include <iostream>

#include <attune/attune.hpp>
#include <attune/tensor/platform.hpp>

using namespace attune;

/// Linear layer on the mean annotation of each sequence: (T, B, 1) -> logits (B, 2)
class Classifier {
 public:
  explicit Classifier(const nn::Scope& scope)
      : lstm_(scope / "lstm", 1, 16), dropout_(0.2), output_(scope / "output", 32, 2) {}

  Var operator()(const Tensor& x, const Tensor& mask) const {
    const Tensor weights = mask / sum(mask, {0});  // (T, B): 1 / length, 0 on padding
    return output_(dropout_(weighted_sum(weights, lstm_(x, {.mask = mask}).h)));
  }

 private:
  nn::Bidirectional<nn::Lstm> lstm_;
  nn::Dropout dropout_;
  nn::Linear output_;
};

struct Examples {
  Tensor x, mask, classes;  // (T, B, 1), (T, B), (B) i32
};

Examples draw(Index batch, Random& random) {
  std::vector<Index> lengths(batch);
  for (Index& length : lengths) length = 5 + random.below(20);
  Examples examples{.x = {}, .mask = mask_of(lengths), .classes = zeros({batch}, DType::i32)};
  examples.x = zeros({examples.mask.dim(0), batch, 1});
  for (Index b = 0; b < batch; ++b) {
    const Index rises = random.below(2);
    examples.classes.mutable_at<std::int32_t>({b}) = rises;
    for (Index t = 0; t < lengths[b]; ++t) {
      const double trend = (rises ? 0.1 : -0.1) * (t - lengths[b] / 2.0);
      examples.x.mutable_at<float>({t, b, 0}) = trend + 0.5 * random.normal();
    }
  }
  return examples;
}

double accuracy(const Classifier& model, const Examples& examples) {
  const NoGrad no_grad;  // records nothing; dropout is inactive without nn::Training
  const Tensor chosen = argmax(model(examples.x, examples.mask).value());
  return mean((chosen == examples.classes).to(DType::f32)).item();
}

int main() {
  nn::Parameters params(/*seed=*/1);
  const Classifier model(params);
  nn::Adam adam(params, {.rate = 1e-2});
  Random random(/*seed=*/1);
  for (int step = 1; step <= 150; ++step) {
    const Examples batch = draw(64, random);
    const nn::Training training(random);  // dropout is active in this block
    adam.step(backward(cross_entropy(model(batch.x, batch.mask), batch.classes)));
  }
  const Examples test = draw(500, random);
  const double trained = accuracy(model, test);

  const auto path =
      std::filesystem::temp_directory_path() /
      ("attune-classifier-" + std::to_string(platform::process_id()) + ".safetensors");
  Safetensors file;
  nn::save_parameters(params, file);
  save_safetensors(path, file);

  nn::Parameters others(/*seed=*/2);
  const Classifier loaded(others);
  nn::load_parameters(load_safetensors(path), others);
  std::filesystem::remove(path);
  std::cout << "accuracy " << trained << ", read back " << accuracy(loaded, test) << "\n";
  return trained > 0.9 && accuracy(loaded, test) == trained ? 0 : 1;
}
