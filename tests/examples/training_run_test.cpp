// A training run, whatever is trained.
#include "support/training_run.hpp"

#include <attune/autograd/ops.hpp>

#include "program.hpp"
#include "support/output.hpp"

namespace attune::dates::test {
namespace {

/// Ten steps of one weight, with a validation that fails.
class Failing : public TrainingRun {
 public:
  Failing(const TrainingOptions& options, RunDirectory& files, nn::Parameters& parameters)
      : TrainingRun(options, {.speed = "s", .weights = "w", .starts_with_validation = false}, 1,
                    files, parameters, {}),
        w_(parameters["w"]) {}

 private:
  void describe() const override {}
  std::string end() const override { return step() < 10 ? "" : "finished"; }
  Index total_steps() const override { return 10; }
  double rate() const override { return 0.1; }
  StepBatch next_batch() override {
    return {.shares = {1}, .loss = [this](Index) { return sum(w_ * w_); }};
  }
  void validate() override { fail("validate", "no"); }
  std::string best_result() const override { return {}; }
  std::string status() const override { return {}; }
  report::LogFields measures() const override { return {}; }
  void save_model(Safetensors& file) const override { file.tensors.emplace("w", w_.value()); }
  void save_progress(Safetensors&) const override {}
  void load_progress(const Safetensors&) override {}

  Var w_;
};

TEST_CASE("TrainingRun: where a validation fails, what was learnt since the last one is saved") {
  const Directory directory;
  TrainingOptions options{.out = directory.path(), .validate_every = 7};
  RunDirectory files(options.out);
  nn::Parameters parameters(1);
  parameters.add("w", {2}, nn::init::constant(1));
  set_silent(true);
  CHECK_THROWS_WITH_AS(Failing(options, files, parameters).go(), "validate: no", Error);
  set_silent(false);
  const Safetensors last = load_safetensors(files.last());
  CHECK(last.metadata.at("step") == "7");
  CHECK(last.metadata.at("validated") == "0");  // a run that is resumed begins with it
}

}  // namespace
}  // namespace attune::dates::test
