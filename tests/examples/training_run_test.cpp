// A training run, whatever is trained.
#include <attune/autograd/ops.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/tensor/file.hpp>

#include "attune_program.hpp"
#include "support/output.hpp"
#include "support/run.hpp"

namespace attune::pairs::test {
namespace {

/// Ten steps of one weight, with a validation that fails after step 7.
void train(const Directory& directory, bool resume) {
  const TrainingOptions options{.out = directory.path(), .resume = resume, .validate_every = 7};
  RunDirectory files(options.out, resume);
  nn::Parameters parameters(1);
  const Var w = parameters.add("w", {2}, nn::init::constant(1));
  nn::Adam adam(parameters);
  Best best;
  Run run(options, {}, files, parameters,
          [&](Safetensors& file) { nn::save_parameters(parameters, file); }, {adam, best});
  while (run.goes_on(10)) {
    if (run.trains()) {
      auto [loss, gradients] = run.backward(2, [&](Index, Index) { return sum(w * w); });
      if (run.usable(loss, gradients)) adam.step(gradients);
      run.stepped({.loss = loss, .rate = 0.1, .size = 2});
    }
    const auto measured = run.validate([&]() -> double {
      if (!resume) fail("validate", "no");
      return 1;
    });
    if (!measured) continue;
    if (best.improves(run, {*measured})) run.save_best("1");
    run.save({{"one", *measured}}, "1");
  }
  run.finish();
}

TEST_CASE("Run: where a validation fails, what was learnt since the last one is saved") {
  const Directory directory;
  const std::filesystem::path last = directory / "last.safetensors";
  set_silent(true);
  CHECK_THROWS_WITH_AS(train(directory, false), "validate: no", Error);
  CHECK(load_safetensors(last).metadata.at("step") == "7");
  CHECK(load_safetensors(last).metadata.at("validated") == "0");
  train(directory, true);  // begins with the validation
  set_silent(false);
  CHECK(load_safetensors(last).metadata.at("step") == "10");
  const auto log = report::read_log(directory / "log.jsonl");
  REQUIRE(log.size() == 2);
  CHECK(log[0].at("step") == 7);
  CHECK(log[1].at("step") == 10);
}

TEST_CASE("Run: a line of the log that is missing is written when the run is resumed") {
  const Directory directory;
  set_silent(true);
  CHECK_THROWS_AS(train(directory, false), Error);
  train(directory, true);
  const std::string log = directory / "log.jsonl", whole = read_file(log);
  std::filesystem::resize_file(log, whole.rfind('\n', whole.size() - 2) + 1);
  train(directory, true);
  set_silent(false);
  CHECK(read_file(log) == whole);
}

}  // namespace
}  // namespace attune::pairs::test
