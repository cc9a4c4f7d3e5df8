#include "train.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <attune/models/report/log.hpp>
#include <attune/nn/adam.hpp>
#include <attune/nn/checkpoint.hpp>
#include <attune/nn/clip.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/threads.hpp>

#include "metrics.hpp"
#include "support/output.hpp"
#include "support/precision.hpp"
#include "support/progress.hpp"
#include "support/run_directory.hpp"

namespace attune::dates {
namespace {

using Clock = std::chrono::steady_clock;

std::string text_of(double value) { return fmt::format("{}", value); }

/// Constant for the first half, then down to a fiftieth along a line.
double rate_at(Index step, const TrainOptions& o) {
  const double progress = static_cast<double>(step) / static_cast<double>(o.steps);
  return o.rate * std::clamp(2 - 2 * progress, 0.02, 1.0);
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
    say("{}\n{} parameters, {} thread{}\n", data_.description(), model_.parameters().count(),
        threads(), threads() == 1 ? "" : "s");
    if (resumes_) {
      say("resuming at step {} of {}\n", step_, std::max(step_, options_.steps));
    } else if (options_.resume) {
      say("nothing to resume in {}: starting anew\n", options_.out.string());
    }
    started_ = Clock::now();
    const bool stopped = !loop();
    say("{} after {} steps, {}: ", stopped ? "stopped" : "finished", step_, duration(seconds()));
    say("exact match {:.2f} % on {} examples\n{}\n", 100 * best_.exact_match,
        data_.validation().size(), files_.best().string());
    return stopped ? 130 : 0;
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

  /// False when it was interrupted. Whatever ends it, the last step is validated and saved.
  bool loop() {
    Progress progress(step_, options_.steps);
    if (step_ == 0) validate();  // where the curves begin
    bool stop = false;
    while (step_ < options_.steps && !stop) {
      train_step();
      progress.show(step_, status(), false);
      stop = interrupted();
      if (step_ % options_.validate_every == 0 || step_ == options_.steps || stop) {
        validate();
        progress.show(step_, status(), true);
        save();
      } else if (step_ % 50 == 0) {
        write_log({});
      }
    }
    return !stop;
  }

  void train_step() {
    const text::Batch batch = data_.batch(model_, step_, options_.batch);
    Random dropout(options_.data.seed, fmt::format("dropout {}", step_));
    const nn::Training training(dropout);
    const InPrecision products(precision_);
    const Var loss = model_.network().loss(batch);
    Gradients gradients = backward(loss);
    nn::clip_by_global_norm(gradients, options_.clip);
    adam_.set_rate(rate_at(step_, options_));
    adam_.step(gradients);
    ++step_;
    loss_sum_ += loss.item();
    ++loss_count_;
  }

  void validate() {
    shown_rate_ = examples_per_second();  // before the validation, whose time does not count
    last_ = evaluate(model_, data_.validation());
    write_log(
        {{"exact_match", last_.exact_match}, {"character_accuracy", last_.character_accuracy}});
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

  void write_log(report::LogFields more) {
    shown_loss_ = mean_loss();
    report::LogFields line{{"step", step_}};
    if (step_ > 0) line.push_back({"loss", shown_loss_});
    line.push_back({"rate", rate_at(step_, options_)});
    line.push_back(
        {"examples_per_s", std::round(more.empty() ? examples_per_second() : shown_rate_)});
    line.push_back({"seconds", std::round(10 * seconds()) / 10});
    line.push_back({"rss_mib", std::round(10 * resident_mib()) / 10});
    line.insert(line.end(), more.begin(), more.end());
    log_->write(line);
    if (more.empty()) shown_rate_ = examples_per_second();
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
    file.metadata["compiler"] = __VERSION__;
    return file;
  }

  /// The best weights (of equals the later ones, which are surer) first, then everything that
  /// resuming needs: a run that is killed in between makes the same best weights once more.
  void save() {
    Safetensors file = checkpoint();
    if (std::pair(last_.exact_match, last_.character_accuracy) >=
        std::pair(best_.exact_match, best_.character_accuracy)) {
      best_ = {{}, last_.exact_match, last_.character_accuracy, {}};
      save_safetensors(files_.best(), file);
    }
    file.metadata["best_exact_match"] = text_of(best_.exact_match);
    file.metadata["best_character_accuracy"] = text_of(best_.character_accuracy);
    adam_.save(file);
    save_safetensors(files_.last(), file);
  }

  void resume() {
    const Safetensors file = load_safetensors(files_.last());
    reading(files_.last(), [&] {
      for (const auto& [name, own] : {std::pair{"source_vocabulary", &model_.source_vocabulary()},
                                      {"target_vocabulary", &model_.target_vocabulary()}}) {
        if (entry(file.metadata, name) == text::to_json(*own)) continue;
        fail("checkpoint", fmt::format("its {} is not that of the examples", name));
      }
      model_.load_weights(file);
      adam_.load(file);
      step_ = nn::load_count(file, "step");
      seconds_before_ = seconds_in(file.metadata);
      const auto share = [&](const char* name) { return number_in(file.metadata, name, 0, 1); };
      last_.exact_match = share("exact_match");
      last_.character_accuracy = share("character_accuracy");
      best_.exact_match = share("best_exact_match");
      best_.character_accuracy = share("best_character_accuracy");
    });
    rate_step_ = step_;
    files_.cut_log(step_);
  }

  const TrainOptions& options_;
  RunDirectory& files_;
  const bool resumes_;
  Data data_;
  Model model_;
  nn::Adam adam_;
  Precision precision_ = available(options_.precision);
  std::optional<report::LogWriter> log_;
  Index step_ = 0;
  Evaluation last_, best_{.exact_match = -1};
  double loss_sum_ = 0, shown_loss_ = 0;
  long loss_count_ = 0;
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
