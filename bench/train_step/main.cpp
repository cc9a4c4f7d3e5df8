// Times whole training steps, forward passes and greedy decoding of Bahdanau's and Luong's model.
#include <attune/tensor/threads.hpp>

#include "support/machine.hpp"
#include "support/program.hpp"
#include "train_step/check.hpp"
#include "train_step/measure.hpp"

namespace attune::bench {
namespace {

struct CommandLine {
  Run run;
  std::string lengths = "full", precision = "f32";
  std::string check;
  bool probe = false, peak = false;
  int threads = 0;
};

void add_options(CLI::App& app, CommandLine& line) {
  app.footer(
      "Each result is a JSON line. bench/compare.py sets them beside those of another program.");
  app.option_defaults()->always_capture_default();
  app.add_option("--model", line.run.model)->check(CLI::IsMember(model_names));
  app.add_option("--config", line.run.config, "sizes")->check(CLI::IsMember(configurations()));
  for (const auto& [letter, size] : letters_of_sizes) {
    app.add_option(std::string("-") + letter, line.run.sizes[letter], "a size of its own")
        ->check(CLI::Range(1, 1000000))
        ->default_str("");
  }
  app.add_option("--modes", line.run.modes, "what to time; train has backward, clipping and Adam")
      ->delimiter(',')
      ->check(CLI::IsMember(mode_names));
  app.add_option("--lengths", line.lengths, "sentences all of full length, or from half of it on")
      ->check(CLI::IsMember({"full", "varied"}));
  app.add_option("--precision", line.precision, "of the matrix products")
      ->check(CLI::IsMember({"f32", "bf16"}));
  add_repetitions(app, line.run.steps, line.run.warmup);
  app.add_option("--threads", line.threads, "threads (default: ATTUNE_THREADS, or all CPUs)")
      ->check(CLI::Range(1, 1024))
      ->default_str("");
  app.add_option("--check", line.check,
                 "compare loss and gradients with those in this file of "
                 "bench/peers/npz_to_safetensors.py");
  app.add_flag("--probe", line.probe, "only the speed of a 1024 x 1024 x 1024 product");
  app.add_flag("--peak", line.peak, "only the limit of fused multiply-adds on registers");
}

int run(CommandLine& line) {
  line.threads > 0 ? set_threads(line.threads) : void(threads());  // which checks ATTUNE_THREADS
  if (!line.check.empty()) return check(line.check) ? 0 : 1;
  if (line.probe || line.peak) {
    fmt::print("{{\"threads\":{},\"{}\":{:.1f}}}\n", threads(),
               line.peak ? "peak_gflops" : "probe_gflops",
               line.peak ? peak_gflops() : probe_gflops());
    return 0;
  }
  line.run.lengths = line.lengths == "full" ? Lengths::full : Lengths::varied;
  line.run.precision = line.precision == "f32" ? Precision::f32 : Precision::bf16;
  measure(line.run);
  return 0;
}

}  // namespace
}  // namespace attune::bench

int main(int argc, char** argv) {
  CLI::App app(
      "Times training steps, forward passes and greedy decoding of Bahdanau's and Luong's model.",
      "train_step");
  attune::bench::CommandLine line;
  attune::bench::add_options(app, line);
  return attune::bench::run_program(app, argc, argv, [&] { return attune::bench::run(line); });
}
