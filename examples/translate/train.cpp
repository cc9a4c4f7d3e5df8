#include "train.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include <attune/autograd/backward.hpp>
#include <attune/models/guided_alignment.hpp>
#include <attune/models/report/log.hpp>
#include <attune/models/text/corpus.hpp>
#include <attune/nn/adam.hpp>
#include <attune/nn/average.hpp>
#include <attune/nn/checkpoint.hpp>
#include <attune/nn/clip.hpp>
#include <attune/nn/divergence.hpp>
#include <attune/nn/schedule.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/products.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/threads.hpp>

#include "codecs.hpp"
#include "evaluation.hpp"
#include "support/checkpoint.hpp"
#include "support/memory_fields.hpp"
#include "support/output.hpp"
#include "support/precision.hpp"
#include "support/progress.hpp"
#include "support/run_directory.hpp"
#include "support/signals.hpp"
#include "training_text.hpp"

namespace attune::translate {
namespace {

using Clock = std::chrono::steady_clock;

nn::Schedule schedule_of(const TrainOptions& o) {
  const nn::Schedule constant = nn::ConstantRate{o.rate};
  if (o.schedule == RateSchedule::inverse_sqrt) {
    return nn::InverseSquareRoot{.rate = o.rate, .warm_up = std::max<Index>(1, o.warm_up)};
  }
  if (o.warm_up == 0) return constant;
  return nn::WarmUp<nn::Schedule>{.steps = o.warm_up, .next = constant};
}

/// Words of the target and the time they took, since it was last asked.
class Speed {
 public:
  void add(double words) { words_ += words; }
  void restart() { words_ = 0, since_ = Clock::now(); }
  double words_per_second() const {
    return words_ / std::max(1e-9, std::chrono::duration<double>(Clock::now() - since_).count());
  }

 private:
  double words_ = 0;
  Clock::time_point since_ = Clock::now();
};

/// A training run: the model, the optimiser, and how far it has come.
class Run {
 public:
  Run(const TrainOptions& options, RunDirectory& files, Codecs codecs, bool resumes)
      : options_(options),
        files_(files),
        resumes_(resumes),
        valid_(reference_text(options.valid_source, options.valid_target, codecs)),
        text_(options, codecs),
        model_(options.network, std::move(codecs), options.seed),
        adam_(model_.parameters(), {.rate = options.rate,
                                    .weight_decay = options.weight_decay,
                                    .decays = nn::matrices_only}),
        plateau_({.rate = options.rate,
                  .patience = std::max<Index>(0, options.halve - 1),
                  .higher_is_better = true}) {
    if (options.average > 0) average_.emplace(model_.parameters(), options.average);
    start_epoch();
  }

  int go() {
    files_.make();
    catch_signals();
    resumes_ ? resume() : files_.keep_previous();
    log_.emplace(files_.log().string(), resumes_);
    describe();
    if (resumes_) say("resuming at step {}, epoch {}\n", step_, epoch_ + 1);
    started_ = Clock::now();
    speed_.restart();
    const std::optional<std::string> end = loop();
    say("{} after {} steps, {}: ", end.value_or("stopped"), step_, duration(seconds()));
    if (best_step_ == 0) {
      say("before a validation\n{}\n", files_.last().string());
    } else {
      say("{} {:.2f} at step {}\n{}\n", options_.metric == Metric::bleu ? "BLEU" : "loss",
          options_.metric == Metric::bleu ? best_ : -best_, best_step_, files_.best().string());
    }
    return end ? 0 : interrupted_status();
  }

 private:
  void describe() const {
    say("{} sentence pairs, {} to validate on\nvocabularies of {} and {}, {} parameters, "
        "{} thread{}, products: {}\n",
        text_.size(), valid_.sources.size(), model_.source().vocabulary.size(),
        model_.target().vocabulary.size(), model_.parameters().count(), threads(),
        threads() == 1 ? "" : "s", products());
  }

  double seconds() const {
    return seconds_before_ + std::chrono::duration<double>(Clock::now() - started_).count();
  }

  void start_epoch() { batches_ = text_.batches(epoch_); }

  /// Why it ended; nothing when it was interrupted. Whatever ends it, the last step is saved.
  std::optional<std::string> loop() {
    const long total = options_.epochs * std::ssize(batches_);
    Progress progress(step_, std::max(total, step_));
    while (true) {
      std::optional<std::string> end = finished();
      if (owed_ && !settle(end.has_value(), progress)) break;
      if (!end && validated_) end = finished();  // which the validation may have decided
      if (end) return end;
      if (interrupted()) break;
      train_step();
      progress.show(step_, status(), false, most_left());
    }
    save();
    return std::nullopt;
  }

  /// What a step is followed by: a validation where one is due, a checkpoint, a line of the log; in
  /// this order, for a line that is missing can be written later, by a run that is resumed. False
  /// when it was interrupted before the validation was over, and nothing has changed.
  bool settle(bool last, Progress& progress) {
    const bool due = validated_ || last || step_ % options_.validate_every == 0;
    if (due && !validated_) {
      if (!validate()) return false;
      save();
    }
    if (due || step_ % 50 == 0) write_log();
    if (due) progress.show(step_, status(), true, most_left());
    owed_ = false;
    return true;
  }

  std::optional<std::string> finished() const {
    if (epoch_ >= options_.epochs) return "finished";
    if (options_.minutes > 0 && seconds() >= 60 * options_.minutes) return "out of time";
    if (waited_ >= options_.patience) return "no longer better";
    return std::nullopt;
  }

  double rate() const { return schedule_(step_) * plateau_.rate() / options_.rate; }

  void train_step() {
    const auto& chosen = batches_[static_cast<std::size_t>(position_)];
    const text::Batch batch = text_.batch(chosen);
    const models::Guide guide = text_.guide(chosen, batch);
    Random dropout(options_.seed, fmt::format("dropout {}", step_));
    const nn::Training training(dropout);
    const InPrecision products(precision_);
    const Var loss = model_.network().loss(batch, guide);
    Gradients gradients = backward(loss);
    const auto [usable, message] = watch_.observe(loss.item(), model_.parameters(), gradients);
    if (!message.empty()) complain("step {}: {}\n", step_ + 1, message);
    const double words = sum(batch.target_mask).item();
    speed_.add(words);
    if (usable) {
      nn::clip_by_global_norm(gradients, options_.clip);
      adam_.set_rate(rate());
      adam_.step(gradients);
      if (average_) average_->update();
      loss_sum_ += loss.item() * words, loss_words_ += words;
    }
    advance();
    if (watch_.skipped_in_a_row() >= options_.max_skipped) give_up();
  }

  /// Skipped updates have changed no weight.
  [[noreturn]] void give_up() const {
    save();
    fail("train", fmt::format("{} updates in a row were skipped, the last one of step {}",
                              watch_.skipped_in_a_row(), step_));
  }

  void advance() {
    ++step_;
    validated_ = false, owed_ = true;
    if (++position_ < std::ssize(batches_)) return;
    position_ = 0;
    ++epoch_;
    if (epoch_ < options_.epochs) start_epoch();
  }

  /// Validates, and keeps the weights when they are the best so far. False when it was interrupted.
  bool validate() {
    shown_speed_ = speed_.words_per_second();
    std::optional<nn::AverageInPlace> averaged;
    if (average_) averaged.emplace(*average_);
    try {
      last_ = evaluate(model_, valid_, {.beam = options_.beam, .max_length = options_.longest},
                       {.tokens = options_.bleu});
    } catch (const Interrupted&) {
      return false;
    }
    const double metric = options_.metric == Metric::bleu ? last_.bleu : -last_.loss;
    // Of equals the later ones, which are surer, unless all of them are wrong.
    const bool better = metric > best_ || (metric == best_ && metric != 0);
    if (better && !(watch_.diverges() && best_step_ > 0)) {
      best_ = metric, best_step_ = step_, waited_ = 0;
      save_safetensors(files_.best(), checkpoint());
    } else {
      ++waited_;
    }
    if (options_.halve > 0) plateau_.observe(metric);
    return validated_ = true;
  }

  double mean_train_loss() const { return loss_words_ > 0 ? loss_sum_ / loss_words_ : shown_loss_; }

  std::string status() {
    const std::string training = fmt::format(
        "epoch {:2}  {:6.0f} words/s  loss {:6.3f}", std::min(epoch_ + 1, options_.epochs),
        shown_speed_ > 0 ? shown_speed_ : speed_.words_per_second(), mean_train_loss());
    if (last_.loss == 0) return training;  // not validated yet
    return fmt::format("{}  valid ppl {:8.2f}  BLEU {:5.2f}", training, last_.perplexity(),
                       last_.bleu);
  }

  /// Seconds until the time is over.
  double most_left() const {
    return options_.minutes > 0 ? 60 * options_.minutes - seconds()
                                : std::numeric_limits<double>::infinity();
  }

  void write_log() {
    if (!validated_) shown_speed_ = speed_.words_per_second();
    shown_loss_ = mean_train_loss();
    report::LogFields line{{"step", step_}, {"epoch", epoch_}};
    line.push_back({"loss", shown_loss_});
    line.push_back({"rate", rate()});
    line.push_back({"words_per_s", std::round(shown_speed_)});
    line.push_back({"seconds", std::round(10 * seconds()) / 10});
    line.push_back({"skipped", watch_.skipped()});
    const report::LogFields memory = memory_fields();
    line.insert(line.end(), memory.begin(), memory.end());
    if (validated_) {
      line.push_back({"valid_loss", last_.loss});
      line.push_back({"valid_perplexity", last_.perplexity()});
      line.push_back({"bleu", last_.bleu});
    }
    try {
      log_->write(line);
    } catch (const Error&) {
      if (!validated_) save();
      throw;
    }
    loss_sum_ = 0, loss_words_ = 0;
    speed_.restart();
  }

  Safetensors checkpoint() const {
    Safetensors file;
    model_.save(file);
    file.metadata.merge(models::fields_to_map(train_fields(), options_));
    file.metadata["preset"] = options_.preset;
    file.metadata["step"] = std::to_string(step_);
    file.metadata["seconds"] = fmt::format("{}", seconds());
    file.metadata["valid_loss"] = fmt::format("{}", last_.loss);
    file.metadata["valid_bleu"] = fmt::format("{}", last_.bleu);
    file.metadata["attune_version"] = ATTUNE_VERSION;
    file.metadata["products"] = products();
    return file;
  }

  /// Everything that resuming needs.
  void save() const {
    Safetensors file = checkpoint();
    file.metadata["text"] = text_.fingerprint();
    file.metadata["epoch"] = std::to_string(epoch_);
    file.metadata["position"] = std::to_string(position_);
    file.metadata["best"] = fmt::format("{}", best_);
    file.metadata["best_step"] = std::to_string(best_step_);
    file.metadata["waited"] = std::to_string(waited_);
    file.metadata["validated"] = validated_ ? "1" : "0";
    watch_.save(file.metadata);
    file.metadata["loss_sum"] = fmt::format("{}", loss_sum_);
    file.metadata["loss_words"] = fmt::format("{}", loss_words_);
    plateau_.save(file.metadata);
    adam_.save(file);
    if (average_) average_->save(file);
    save_safetensors(files_.last(), file);
  }

  void resume() {
    const Safetensors file = load_safetensors(files_.last());
    const bool settled = !file.metadata.contains("validated");  // older ones were
    compare_products(file.metadata);
    reading(files_.last(), [&] {
      nn::load_parameters(file, model_.parameters());
      adam_.load(file);
      if (average_) average_->load(file);
      plateau_.load(file.metadata);
      if (plateau_.rate() > options_.rate) {
        fail("checkpoint", fmt::format("plateau.rate is {}, more than rate = {}", plateau_.rate(),
                                       options_.rate));
      }
      step_ = nn::load_count(file.metadata, "step");
      epoch_ = nn::load_count(file.metadata, "epoch");
      position_ = nn::load_count(file.metadata, "position");
      waited_ = nn::load_count(file.metadata, "waited");
      best_step_ = nn::load_count(file.metadata, "best_step");
      seconds_before_ = seconds_in(file.metadata);
      constexpr double inf = std::numeric_limits<double>::infinity();
      last_ = {nn::load_number(file.metadata, "valid_loss", 0, inf),
               nn::load_number(file.metadata, "valid_bleu", 0, 101)};  // 100 may be rounded up
      best_ = nn::load_number(file.metadata, "best", -inf, inf);
      if (nn::load_text(file.metadata, "text") != text_.fingerprint()) {
        fail(options_.source, "it was trained on another text, or other alignments");
      }
      if (settled) return;
      watch_.load(file.metadata);
      validated_ = nn::load_number(file.metadata, "validated", 0, 1) == 1;
      loss_sum_ = nn::load_number(file.metadata, "loss_sum", 0, inf);
      loss_words_ = nn::load_number(file.metadata, "loss_words", 0, inf);
    });
    start_epoch();
    if (position_ >= std::ssize(batches_)) {
      fail(files_.last().string(), fmt::format("position is {}, expected less than the {} batches",
                                               position_, std::ssize(batches_)));
    }
    owed_ = !files_.cut_log(step_) && !settled;
    if (!owed_) loss_sum_ = 0, loss_words_ = 0;  // they are in the log
  }

  const TrainOptions& options_;
  RunDirectory& files_;
  const bool resumes_;
  ReferenceText valid_;
  TrainingText text_;
  Model model_;
  nn::Adam adam_;
  std::optional<nn::MovingAverage> average_;
  nn::HalveOnPlateau plateau_;
  nn::Schedule schedule_ = schedule_of(options_);
  nn::DivergenceWatch watch_;
  Precision precision_ = available(options_.precision);
  std::optional<report::LogWriter> log_;

  Index step_ = 0, best_step_ = 0, epoch_ = 0, position_ = 0, waited_ = 0;
  bool validated_ = false;  // at this step
  bool owed_ = false;       // the step is not settled
  std::vector<std::vector<std::uint32_t>> batches_;
  Evaluation last_;
  double best_ = -std::numeric_limits<double>::infinity();
  double loss_sum_ = 0, loss_words_ = 0, shown_loss_ = 0;
  double seconds_before_ = 0, shown_speed_ = 0;
  Clock::time_point started_ = Clock::now();
  Speed speed_;
};

/// What can be told before the text is read, which may take long.
void check_files(const TrainOptions& o) {
  for (const auto& [name, path] :
       {std::pair{"--source", o.source}, {"--valid-source", o.valid_source}}) {
    if (!path.empty()) continue;
    const std::string last = (o.out / "last.safetensors").string();
    fail(name, o.resume ? last + " is not there to resume from, so a file is expected"
                        : "a file is expected");
  }
  std::error_code none;
  for (const std::string& path : {o.source, o.target}) {
    if (std::filesystem::is_fifo(path, none)) {
      fail(path, "it is read more than once, expected a file and not a pipe");
    }
  }
  for (const std::string& path :
       {o.source, o.target, o.valid_source, o.valid_target, o.alignments}) {
    if (!path.empty()) text::LineReader{path};  // throws where it cannot be opened
  }
  if (!o.alignments.empty() && !models::attends(o.network)) {
    fail("--alignments", "the model has no attention");
  }
}

}  // namespace

int train(const TrainOptions& options) {
  RunDirectory files(options.out);
  const std::filesystem::path last = files.last();
  if (!options.resume || !std::filesystem::exists(last)) {
    check_files(options);
    return Run(options, files, make_codecs(options), false).go();
  }
  check_same(stored_options(last), options);  // now that nobody can change them
  // Errors of what a checkpoint asks for begin with its path.
  reading(last, [&] { check_files(options); });
  // A resumed run has its own tokenizers and vocabularies. This throws where sizes are not those of
  // the tensors, before anything so large is made.
  Codecs codecs = Model::load(last).codecs();
  return Run(options, files, std::move(codecs), true).go();
}

}  // namespace attune::translate
