// Whole training steps of the Bahdanau model at fixed sizes, for comparison with other systems:
// forward, backward, clipping, Adam, on random words of full length. One JSON line for each run.
#include <algorithm>
#include <chrono>
#include <map>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <sys/resource.h>

#include <attune/attune.hpp>

using namespace attune;

namespace {

/// E, H = A, V, S, T, B
struct Sizes {
  Index embedding, hidden, vocabulary, source, target, batch;
};

const std::map<std::string, Sizes> configurations = {
    {"toy", {64, 128, 32, 30, 10, 64}},        {"small", {256, 256, 32, 30, 10, 64}},
    {"medium", {256, 512, 10000, 20, 20, 64}}, {"large", {512, 1000, 30000, 30, 30, 80}},
    {"overhead", {8, 8, 16, 4, 20, 1}},
};

text::Batch random_batch(const Sizes& sizes, Random& random) {
  const auto words = [&](Index steps) {
    std::vector<std::int32_t> ids(static_cast<std::size_t>(steps * sizes.batch));
    for (auto& id : ids) id = static_cast<std::int32_t>(random.below(sizes.vocabulary));
    return Tensor::of(Shape{steps, sizes.batch}, std::span<const std::int32_t>(ids));
  };
  return {.source = words(sizes.source),
          .source_mask = ones({sizes.source, sizes.batch}),
          .previous = words(sizes.target),
          .next = words(sizes.target),
          .target_mask = ones({sizes.target, sizes.batch})};
}

/// Floating-point operations of a training step: matrix products and attention sums, backward
/// counted as twice forward.
double operations(const Sizes& z) {
  const auto [e, h, v, s, t, b] = z;
  const Index encoder = s * b * 2 * 3 * h * (e + h) + s * b * 2 * h * h + b * h * h;
  const Index decoder =
      t * b * (h * 4 * h + e * 3 * h + 2 * h * 3 * h + s * 3 * h + (3 * h + e) * 2 * e + e * v);
  return 6.0 * static_cast<double>(encoder + decoder);
}

long peak_rss_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

void measure(const std::string& name, const Sizes& sizes, int steps, int warmup) {
  nn::Parameters params(/*seed=*/1);
  models::Bahdanau model(params, {.source_vocabulary = sizes.vocabulary,
                                  .target_vocabulary = sizes.vocabulary,
                                  .embedding = sizes.embedding,
                                  .hidden = sizes.hidden,
                                  .attention = sizes.hidden,
                                  .readout = sizes.embedding});
  nn::Adam adam(params);
  Random random(1);
  std::vector<text::Batch> batches;
  for (int i = 0; i < 4; ++i) batches.push_back(random_batch(sizes, random));
  std::vector<double> seconds;
  for (int i = -warmup; i < steps; ++i) {
    const auto start = std::chrono::steady_clock::now();
    Gradients gradients = backward(model.loss(batches[static_cast<std::size_t>(i + warmup) % 4]));
    nn::clip_by_global_norm(gradients, 1.0);
    adam.step(gradients);
    const auto end = std::chrono::steady_clock::now();
    if (i >= 0) seconds.push_back(std::chrono::duration<double>(end - start).count());
  }
  std::ranges::sort(seconds);
  const double median = seconds[seconds.size() / 2], gflop = operations(sizes) * 1e-9;
  fmt::print(R"({{"peer":"attune","threads":{},"bench":"train","model":"bahdanau","config":"{}",)"
             R"("params":{},"tok_per_s":{:.0f},"gflop":{:.3f},"gflops":{:.1f},"ms_median":{:.3f},)"
             R"("ms_min":{:.3f},"steps":{},"peak_rss_mib":{}}})"
             "\n",
             threads(), name, params.count(),
             static_cast<double>(sizes.target * sizes.batch) / median, gflop, gflop / median,
             1e3 * median, 1e3 * seconds.front(), steps, peak_rss_mib());
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times training steps of the Bahdanau model.", "train_step");
  std::string config = "toy";
  int steps = 10, warmup = 3, thread_count = 0;
  app.add_option("--config", config, "toy, small, medium, large or overhead")
      ->capture_default_str();
  app.add_option("--steps", steps, "timed steps; the median is reported")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  app.add_option("--warmup", warmup, "steps before")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  app.add_option("--threads", thread_count, "threads (default: all CPUs)")
      ->check(CLI::Range(1, 1024));
  CLI11_PARSE(app, argc, argv);
  if (!configurations.contains(config)) {
    fmt::print(stderr, "train_step: --config '{}' is not toy, small, medium, large or overhead\n",
               config);
    return 1;
  }
  if (thread_count > 0) set_threads(thread_count);
  measure(config, configurations.at(config), steps, warmup);
}
