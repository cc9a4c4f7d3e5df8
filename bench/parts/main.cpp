// Times parts of models: an LSTM layer, attention, cross-entropy, Adam and clipping; and a
// listener's whole training step.
#include <attune/tensor/threads.hpp>

#include "parts/parts.hpp"
#include "support/program.hpp"

int main(int argc, char** argv) {
  attune::bench::PartsRun run;
  int threads = 0;
  CLI::App app("Times parts of models, forward and backward.", "parts");
  app.footer(
      "Each result is a JSON line. bench/compare.py --parts sets them beside those of other "
      "programs.");
  app.option_defaults()->always_capture_default();
  app.add_option("--only", run.only, "which parts")
      ->delimiter(',')
      ->check(CLI::IsMember(attune::bench::part_names()));
  attune::bench::add_repetitions(app, run.steps, run.warmup);
  app.add_option("--threads", threads, "threads (default: ATTUNE_THREADS, or all CPUs)")
      ->check(CLI::Range(1, 1024))
      ->default_str("");
  return attune::bench::run_program(app, argc, argv, [&] {
    if (threads > 0) attune::set_threads(threads);
    attune::bench::measure_parts(run);
    return 0;
  });
}
