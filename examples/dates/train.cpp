#include "train.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <attune/models/report/log.hpp>
#include <attune/nn/checkpoint.hpp>

#include "evaluation.hpp"
#include "support/output.hpp"
#include "support/training_run.hpp"

namespace attune::dates {
namespace {

class Run : public TrainingRun {
 public:
  Run(const TrainOptions& options, RunDirectory& files, Data& data, Model& model)
      : TrainingRun(
            options,
            {.speed = "examples_per_s", .weights = "loss_count", .starts_with_validation = true},
            options.data.seed, files, model.parameters(), {.rate = options.rate}),
        options_(options),
        data_(data),
        fingerprint_(data.fingerprint()),
        model_(model) {}

 private:
  void describe() const override {
    say("{}\n{}\n", data_.description(), machinery());
    if (resumes()) {
      say("resuming at step {} of {}\n", step(), std::max(step(), options_.steps));
    } else if (options_.resume) {
      say("nothing to resume in {}: starting anew\n", options_.out.string());
    }
  }

  std::string end() const override { return step() < options_.steps ? "" : "finished"; }
  Index total_steps() const override { return options_.steps; }

  double rate() const override { return late_decay(options_.rate, options_.steps)(step()); }

  StepBatch next_batch() override {
    const std::span<const text::Pair> pairs = data_.batch(model_, step(), options_.batch);
    const auto at = [=](Index i) { return static_cast<std::size_t>(i); };
    StepBatch batch = in_shards(
        options_.shards, options_.batch,
        [=](Index i) { return static_cast<double>(pairs[at(i)].target.size() + 1); },
        [=, this](Index begin, Index end) {
          return model_.network().loss(text::make_batch(pairs.subspan(at(begin), at(end - begin))));
        });
    batch.size = static_cast<double>(options_.batch);
    return batch;
  }

  void validate() override {
    last_ = evaluate(model_, data_.validation());
    if (step() > 0) keep_best();
  }

  /// Of equally good weights the later ones, which are more confident, unless no date is right.
  void keep_best() {
    const std::pair now(last_.exact_match, last_.character_accuracy),
        before(best_.exact_match, best_.character_accuracy);
    const bool better = last_.exact_match > 0 ? now >= before : now > before;
    if (!better || (diverges() && best_.exact_match >= 0)) return;
    best_ = {{}, last_.exact_match, last_.character_accuracy, {}};
    save_best();
  }

  std::string best_result() const override {
    if (best_.exact_match < 0) return {};
    return fmt::format("exact match {:.2f} % on {} examples", 100 * best_.exact_match,
                       data_.validation().size());
  }

  std::string status() const override {
    return fmt::format("{:5.0f} examples/s  loss {:.4f}  exact {:6.2f} %", per_second(),
                       mean_loss(), 100 * last_.exact_match);
  }

  report::LogFields measures() const override {
    return {{"exact_match", last_.exact_match}, {"character_accuracy", last_.character_accuracy}};
  }

  void save_model(Safetensors& file) const override {
    model_.save(file);
    file.metadata.merge(models::fields_to_map(train_fields(), options_));
    file.metadata["exact_match"] = fmt::format("{}", last_.exact_match);
    file.metadata["character_accuracy"] = fmt::format("{}", last_.character_accuracy);
    file.metadata["compiler"] = __VERSION__;
    file.metadata["pairs"] = fingerprint_;
  }

  void save_progress(Safetensors& file) const override {
    file.metadata["best_exact_match"] = fmt::format("{}", best_.exact_match);
    file.metadata["best_character_accuracy"] = fmt::format("{}", best_.character_accuracy);
  }

  void check(const Safetensors& file) const override {
    for (const auto& [name, own] : {std::pair{"source_vocabulary", &model_.source().vocabulary},
                                    {"target_vocabulary", &model_.target().vocabulary}}) {
      if (nn::load_text(file.metadata, name) == text::to_json(*own)) continue;
      fail("checkpoint", fmt::format("its {} is not that of the examples", name));
    }
    check_pairs(file.metadata, data_);
  }

  void load_progress(const Safetensors& file) override {
    const auto share = [&](const char* name, double lowest = 0) {
      return nn::load_number(file.metadata, name, lowest, 1);
    };
    last_.exact_match = share("exact_match");
    last_.character_accuracy = share("character_accuracy");
    best_.exact_match = share("best_exact_match", -1);
    best_.character_accuracy = share("best_character_accuracy");
  }

  const TrainOptions& options_;
  Data& data_;
  const std::string fingerprint_;
  Model& model_;
  Evaluation last_, best_{.exact_match = -1};
};

}  // namespace

int train(const TrainOptions& options) {
  RunDirectory files(options.out, options.resume);
  if (files.resumes()) {
    check_same(stored_options(files.last()), options);  // now that nobody can change them
    // Throws where the checkpoint's sizes and tensors disagree, before memory of these sizes is
    // taken.
    Model::load(files.last());
  }
  // Errors of what a checkpoint asks for begin with its path.
  const auto read = [&] { return Data(options.data); };
  Data data = files.resumes() ? reading(files.last(), read) : read();
  Model model(options.model, text::Vocabulary(data.source_alphabet()),
              text::Vocabulary(data.target_alphabet()), options.data.seed);
  return Run(options, files, data, model).go();
}

}  // namespace attune::dates
