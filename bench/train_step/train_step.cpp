// Times training steps, forward passes and greedy decoding of whole models.
#include <cmath>

#include <fmt/format.h>

#include <attune/autograd/backward.hpp>
#include <attune/nn/clipping.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/tensor/precision.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/threads.hpp>

#include "support/program.hpp"
#include "support/timed.hpp"
#include "train_step/workload.hpp"

namespace attune::bench {
namespace {

struct Run {
  std::string model = "bahdanau", config = "toy";
  /// By letter; overrides the size of the configuration unless it is 0.
  std::map<std::string, Index> sizes;
  std::vector<std::string> modes = {"train", "fwd", "greedy"};
  std::string lengths = "full", precision = "f32";
  int threads = 0, steps = 10, warmup = 3;
};

/// Decodes a fixed number of words; does not stop at the end of a sentence.
void greedy(const models::Model& model, const text::Batch& batch, Index words) {
  const NoGrad no_grad;
  models::Model::State state = model.start(model.encode(batch.source, batch.source_mask));
  Tensor previous = full({batch.sentences()}, 1, DType::i32);
  for (Index i = 0; i < words; ++i) {
    models::Model::Step step = model.step(previous, state);
    previous = argmax(step.logits.value());
    state = std::move(step.state);
  }
}

Sizes sizes_of(const Run& run) {
  Sizes sizes = configurations().at(run.config);
  for (const auto& [letter, size] : letters_of_sizes) {
    const auto own = run.sizes.find(letter);
    if (own != run.sizes.end() && own->second > 0) sizes.*size = own->second;
  }
  return sizes;
}

/// "medium", or "medium, B 16".
std::string name_of_sizes(const Run& run) {
  std::string name = run.config;
  for (const auto& [letter, size] : run.sizes) {
    if (size > 0) name += fmt::format(", {} {}", letter, size);
  }
  return name;
}

/// The measurements of one model.
class Bench {
 public:
  Bench(const Run& run, const Sizes& sizes, nn::Parameters& params, models::Model model)
      : run_(run), sizes_(sizes), params_(params), model_(std::move(model)), adam_(params_) {
    for (int i = 0; i < 4; ++i)
      batches_.push_back(random_batch(sizes_, run.lengths == "varied", random_));
  }

  void run() {
    for (const std::string& mode : run_.modes) {
      if (mode == "greedy") {
        for (const Index sentences : {1, 64}) time_greedy(sentences);
      } else {
        time_loss(mode);
      }
    }
  }

 private:
  const text::Batch& batch(int i) const { return batches_[static_cast<std::size_t>(i) % 4]; }

  void train(int i) {
    Gradients gradients = backward(models::loss(model_, batch(i)));
    nn::clip_by_global_norm(gradients, 1.0);
    adam_.step(gradients);
  }

  void forward(int i) const {
    const NoGrad no_grad;
    models::loss(model_, batch(i));
  }

  void time_loss(const std::string& mode) {
    const bool training = mode == "train";
    const Times times =
        timed(run_.steps, run_.warmup, [&](int i) { training ? train(i) : forward(i); });
    // Backward has twice the operations of forward: one product for the gradient of each operand.
    const double gflop = 1e-9 * forward_flops(run_.model, sizes_) * (training ? 3 : 1);
    Json line = head(mode);
    line["tok_per_s"] = std::lround(words_per_batch() / times.median());
    line["gflop"] = rounded(gflop, 3);
    line["gflops"] = rounded(gflop / times.median(), 1);
    print(std::move(line), times);
  }

  /// A single sentence is short, so it is timed more often.
  void time_greedy(Index sentences) {
    Sizes sizes = sizes_;
    sizes.B = sentences;
    const text::Batch sources = random_batch(sizes, run_.lengths == "varied", random_);
    const Times times = timed(sentences == 1 ? 3 * run_.steps : run_.steps, run_.warmup,
                              [&](int) { greedy(model_, sources, sizes.T); });
    Json line = head("greedy");
    line["batch"] = sentences;
    line["sent_per_s"] = rounded(static_cast<double>(sentences) / times.median(), 2);
    print(std::move(line), times);
  }

  double words_per_batch() const {
    double words = 0;
    for (const text::Batch& batch : batches_) words += sum(batch.target_mask).item();
    return words / static_cast<double>(batches_.size());
  }

  Json head(const std::string& mode) const {
    return {{"peer", "attune"},
            {"threads", threads()},
            {"bench", mode},
            {"model", run_.model},
            {"config", name_of_sizes(run_)},
            {"lengths", run_.lengths},
            {"precision", run_.precision},
            {"params", params_.count()}};
  }

  const Run& run_;
  Sizes sizes_;
  Random random_{1};
  nn::Parameters& params_;
  models::Model model_;
  nn::Adam adam_;
  std::vector<text::Batch> batches_;
};

const std::map<std::string, Precision> precisions = {
    {"f32", Precision::f32}, {"bf16x3", Precision::bf16x3}, {"bf16", Precision::bf16}};

/// Prints a JSON line for each mode; for greedy two, with 1 and with 64 sentences.
void measure(const Run& run) {
  const InPrecision in(precisions.at(run.precision));
  const Sizes sizes = sizes_of(run);
  nn::Parameters params;
  with_model(run.model, params, sizes,
             [&](auto model) { Bench(run, sizes, params, std::move(model)).run(); });
}

struct CommandLine {
  Run run;
  std::string check;
  bool peak = false;
};

void add_options(CLI::App& app, CommandLine& line) {
  app.footer("Prints a JSON line per result. bench/compare.py compares them with a peer.");
  add_common_options(app, line.run.threads, line.run.steps, line.run.warmup);
  app.add_option("--model", line.run.model, "model to time")
      ->check(CLI::IsMember({"bahdanau", "luong", "transformer", "lm"}));
  app.add_option("--config", line.run.config, "named set of sizes")
      ->check(CLI::IsMember(configurations()));
  for (const auto& [letter, size] : letters_of_sizes) {
    app.add_option(std::string("-") + letter, line.run.sizes[letter], "overrides this size")
        ->check(CLI::Range(1, 1000000))
        ->default_str("");
  }
  app.add_option("--modes", line.run.modes,
                 "what to time; train includes backward, clipping and Adam")
      ->delimiter(',')
      ->check(CLI::IsMember({"train", "fwd", "greedy"}));
  app.add_option("--lengths", line.run.lengths,
                 "sentences of full length, or of random lengths from half of it on")
      ->check(CLI::IsMember({"full", "varied"}));
  app.add_option("--precision", line.run.precision, "precision of matrix products")
      ->check(CLI::IsMember(precisions));
  app.add_option("--check", line.check,
                 "compare loss and gradients with a file written by "
                 "bench/peers/npz_to_safetensors.py, and time nothing");
  app.add_flag("--peak", line.peak, "print only the peak GFLOP/s of fused multiply-adds");
}

int run(const CommandLine& line) {
  line.run.threads > 0 ? set_threads(line.run.threads) : void(threads());  // checks ATTUNE_THREADS
  if (!line.check.empty()) return check(line.check) ? 0 : 1;
  if (line.peak) {
    fmt::print("{{\"threads\":{},\"peak_gflops\":{:.1f}}}\n", threads(), peak_gflops());
    return 0;
  }
  measure(line.run);
  return 0;
}

}  // namespace
}  // namespace attune::bench

int main(int argc, char** argv) {
  CLI::App app("Times training steps, forward passes and greedy decoding of models.", "train_step");
  attune::bench::CommandLine line;
  attune::bench::add_options(app, line);
  return attune::bench::run_program(app, argc, argv, [&] { return attune::bench::run(line); });
}
