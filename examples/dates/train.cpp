#include "train.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <attune/models/report/log.hpp>
#include <attune/nn/adam.hpp>
#include <attune/nn/checkpoint.hpp>
#include <attune/nn/clip.hpp>
#include <attune/nn/divergence.hpp>
#include <attune/nn/schedule.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/products.hpp>
#include <attune/tensor/threads.hpp>

#include "metrics.hpp"
#include "support/memory_fields.hpp"
#include "support/output.hpp"
#include "support/precision.hpp"
#include "support/progress.hpp"
#include "support/run_directory.hpp"
#include "support/signals.hpp"

namespace attune::dates {
namespace {

using Clock = std::chrono::steady_clock;

std::string text_of(double value) { return fmt::format("{}", value); }

/// Constant for the first half, then down to a fiftieth along a line.
double rate_at(Index step, const TrainOptions& o) {
  const Index half = o.steps / 2;
  const nn::LinearDecay decay{.rate = o.rate, .last = o.rate / 50, .steps = o.steps - half};
  return decay(std::max<Index>(0, step - half));
}

/// A training run: the model, the optimiser, and how far it has come.
class Run {
 public:
  Run(const TrainOptions& options, RunDirectory& files, bool resumes)
      : options_(options),
        files_(files),
        resumes_(resumes),
        data_(read_data()),
        model_(options.model, text::Vocabulary(data_.source_alphabet()),
               text::Vocabulary(data_.target_alphabet()), options.data.seed),
        adam_(model_.parameters(), {.rate = options.rate}) {}

  int go() {
    files_.make();
    catch_signals();
    resumes_ ? resume() : files_.keep_previous();
    log_.emplace(files_.log().string(), resumes_);
    say("{}\n{} parameters, {} thread{}, products: {}\n", data_.description(),
        model_.parameters().count(), threads(), threads() == 1 ? "" : "s", products());
    if (resumes_) {
      say("resuming at step {} of {}\n", step_, std::max(step_, options_.steps));
    } else if (options_.resume) {
      say("nothing to resume in {}: starting anew\n", options_.out.string());
    }
    started_ = Clock::now();
    const bool finished = loop();
    say("{} after {} steps, {}: ", finished ? "finished" : "stopped", step_, duration(seconds()));
    if (best_.exact_match < 0) {
      say("before a validation\n{}\n", files_.last().string());
    } else {
      say("exact match {:.2f} % on {} examples\n{}\n", 100 * best_.exact_match,
          data_.validation().size(), files_.best().string());
    }
    return finished ? 0 : interrupted_status();
  }

 private:
  /// Errors of what a checkpoint asks for begin with its path.
  Data read_data() const {
    const auto read = [&] { return Data(options_.data); };
    return resumes_ ? reading(files_.last(), read) : read();
  }

  double seconds() const {
    return seconds_before_ + std::chrono::duration<double>(Clock::now() - started_).count();
  }

  /// False when it was interrupted. Whatever ends it, the last step is saved.
  bool loop() {
    Progress progress(step_, options_.steps);
    while (!owed_ || settle(progress)) {
      if (step_ >= options_.steps) return true;
      if (interrupted()) break;
      train_step();
      progress.show(step_, status(), false);
    }
    save();
    return false;
  }

  /// What a step is followed by: a validation where one is due, a checkpoint, a line of the log; in
  /// this order, for a line that is missing can be written later, by a run that is resumed. False
  /// when it was interrupted before the validation was over, and nothing has changed.
  bool settle(Progress& progress) {
    const bool due = validated_ || step_ % options_.validate_every == 0 || step_ >= options_.steps;
    if (due && !validated_) {
      if (!validate()) return false;
      if (step_ > 0) keep_best(), save();
    }
    if (due || step_ % 50 == 0) write_log();
    if (due && step_ > 0) progress.show(step_, status(), true);
    owed_ = false;
    return true;
  }

  void train_step() {
    const text::Batch batch = data_.batch(model_, step_, options_.batch);
    Random dropout(options_.data.seed, fmt::format("dropout {}", step_));
    const nn::Training training(dropout);
    const InPrecision products(precision_);
    const Var loss = model_.network().loss(batch);
    Gradients gradients = backward(loss);
    const auto [usable, message] = watch_.observe(loss.item(), model_.parameters(), gradients);
    if (!message.empty()) complain("step {}: {}\n", step_ + 1, message);
    if (usable) {
      nn::clip_by_global_norm(gradients, options_.clip);
      adam_.set_rate(rate_at(step_, options_));
      adam_.step(gradients);
      loss_sum_ += loss.item();
      ++loss_count_;
    }
    ++step_;
    validated_ = false, owed_ = true;
    if (watch_.skipped_in_a_row() >= options_.max_skipped) give_up();
  }

  /// Skipped updates have changed no weight.
  [[noreturn]] void give_up() const {
    save();
    fail("train", fmt::format("{} updates in a row were skipped, the last one of step {}",
                              watch_.skipped_in_a_row(), step_));
  }

  /// False when it was interrupted.
  bool validate() {
    shown_rate_ = examples_per_second();  // before the validation, whose time does not count
    try {
      last_ = evaluate(model_, data_.validation());
    } catch (const Interrupted&) {
      return false;
    }
    return validated_ = true;
  }

  /// Over the steps since the last line of the log; over those before it when there are none yet.
  double examples_per_second() const {
    if (step_ == rate_step_) return shown_rate_;
    return static_cast<double>((step_ - rate_step_) * options_.batch) /
           std::max(1e-9, std::chrono::duration<double>(Clock::now() - rate_time_).count());
  }

  /// Over the same steps.
  double mean_loss() const {
    return loss_count_ ? loss_sum_ / static_cast<double>(loss_count_) : shown_loss_;
  }

  std::string status() {
    return fmt::format("{:5.0f} examples/s  loss {:.4f}  exact {:6.2f} %", examples_per_second(),
                       mean_loss(), 100 * last_.exact_match);
  }

  void write_log() {
    if (!validated_) shown_rate_ = examples_per_second();
    shown_loss_ = mean_loss();
    report::LogFields line{{"step", step_}};
    if (step_ > 0) line.push_back({"loss", shown_loss_});
    line.push_back({"rate", rate_at(step_, options_)});
    line.push_back({"examples_per_s", std::round(shown_rate_)});
    line.push_back({"seconds", std::round(10 * seconds()) / 10});
    line.push_back({"skipped", watch_.skipped()});
    const report::LogFields memory = memory_fields();
    line.insert(line.end(), memory.begin(), memory.end());
    if (validated_) {
      line.push_back({"exact_match", last_.exact_match});
      line.push_back({"character_accuracy", last_.character_accuracy});
    }
    try {
      log_->write(line);
    } catch (const Error&) {
      if (!validated_) save();
      throw;
    }
    loss_sum_ = 0, loss_count_ = 0;
    rate_step_ = step_, rate_time_ = Clock::now();
  }

  Safetensors checkpoint() const {
    Safetensors file;
    model_.save(file);
    file.metadata.merge(models::fields_to_map(train_fields(), options_));
    file.metadata["step"] = std::to_string(step_);
    file.metadata["seconds"] = text_of(seconds());
    file.metadata["exact_match"] = text_of(last_.exact_match);
    file.metadata["character_accuracy"] = text_of(last_.character_accuracy);
    file.metadata["attune_version"] = ATTUNE_VERSION;
    file.metadata["products"] = products();
    file.metadata["compiler"] = __VERSION__;
    return file;
  }

  /// Of equals the later ones, which are surer, unless all of them are wrong. Before save(): a run
  /// that is killed in between makes the same best weights once more.
  void keep_best() {
    const std::pair now(last_.exact_match, last_.character_accuracy),
        before(best_.exact_match, best_.character_accuracy);
    const bool better = last_.exact_match > 0 ? now >= before : now > before;
    if (!better || (watch_.diverges() && best_.exact_match >= 0)) return;
    best_ = {{}, last_.exact_match, last_.character_accuracy, {}};
    save_safetensors(files_.best(), checkpoint());
  }

  /// Everything that resuming needs.
  void save() const {
    Safetensors file = checkpoint();
    file.metadata["validated"] = validated_ ? "1" : "0";
    watch_.save(file.metadata);
    file.metadata["loss_sum"] = text_of(loss_sum_);
    file.metadata["loss_count"] = std::to_string(loss_count_);
    file.metadata["best_exact_match"] = text_of(best_.exact_match);
    file.metadata["best_character_accuracy"] = text_of(best_.character_accuracy);
    adam_.save(file);
    save_safetensors(files_.last(), file);
  }

  void resume() {
    const Safetensors file = load_safetensors(files_.last());
    const bool settled = !file.metadata.contains("validated");  // older ones were
    compare_products(file.metadata);
    reading(files_.last(), [&] {
      for (const auto& [name, own] : {std::pair{"source_vocabulary", &model_.source_vocabulary()},
                                      {"target_vocabulary", &model_.target_vocabulary()}}) {
        if (nn::load_text(file.metadata, name) == text::to_json(*own)) continue;
        fail("checkpoint", fmt::format("its {} is not that of the examples", name));
      }
      model_.load_weights(file);
      adam_.load(file);
      step_ = nn::load_count(file.metadata, "step");
      seconds_before_ = seconds_in(file.metadata);
      const auto share = [&](const char* name) {
        return nn::load_number(file.metadata, name, 0, 1);
      };
      last_.exact_match = share("exact_match");
      last_.character_accuracy = share("character_accuracy");
      best_.exact_match = nn::load_number(file.metadata, "best_exact_match", -1, 1);
      best_.character_accuracy = share("best_character_accuracy");
      if (settled) return;
      watch_.load(file.metadata);
      validated_ = share("validated") == 1;
      loss_sum_ =
          nn::load_number(file.metadata, "loss_sum", 0, std::numeric_limits<double>::infinity());
      loss_count_ = nn::load_count(file.metadata, "loss_count");
    });
    rate_step_ = step_;
    owed_ = !files_.cut_log(step_) && !settled;
    if (!owed_) loss_sum_ = 0, loss_count_ = 0;  // they are in the log
  }

  const TrainOptions& options_;
  RunDirectory& files_;
  const bool resumes_;
  Data data_;
  Model model_;
  nn::Adam adam_;
  nn::DivergenceWatch watch_;
  Precision precision_ = available(options_.precision);
  std::optional<report::LogWriter> log_;
  Index step_ = 0;
  bool validated_ = false;  // at this step
  bool owed_ = true;        // the step is not settled
  Evaluation last_, best_{.exact_match = -1};
  double loss_sum_ = 0, shown_loss_ = 0;
  Index loss_count_ = 0;
  double seconds_before_ = 0;
  Clock::time_point started_ = Clock::now();
  double shown_rate_ = 0;
  Index rate_step_ = 0;  // where the rate is measured from
  Clock::time_point rate_time_ = Clock::now();
};

}  // namespace

int train(const TrainOptions& options) {
  RunDirectory files(options.out);
  const bool resumes = options.resume && std::filesystem::exists(files.last());
  if (resumes) {
    check_same(stored_options(files.last()), options);  // now that nobody can change them
    // Throws where sizes are not those of the tensors, before anything so large is made.
    Model::load(files.last());
  }
  return Run(options, files, resumes).go();
}

}  // namespace attune::dates
