#include "train.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include <fmt/format.h>

#include <attune/models/text/corpus.hpp>
#include <attune/nn/checkpoint.hpp>
#include <attune/nn/schedule.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/printable.hpp>

#include "codecs.hpp"
#include "evaluation.hpp"
#include "line_lengths.hpp"
#include "support/checkpoint.hpp"
#include "support/output.hpp"
#include "support/training_run.hpp"
#include "training_text.hpp"

namespace attune::translate {
namespace {

nn::Schedule schedule_of(const TrainOptions& o) {
  const nn::Schedule constant = nn::ConstantRate{o.rate};
  if (o.schedule == RateSchedule::inverse_sqrt) {
    return nn::InverseSquareRoot{.rate = o.rate, .warm_up = std::max<Index>(1, o.warm_up)};
  }
  if (o.warm_up == 0) return constant;
  return nn::WarmUp<nn::Schedule>{.steps = o.warm_up, .next = constant};
}

class Run : public TrainingRun {
 public:
  Run(const TrainOptions& options, RunDirectory& files, const ReferenceText& valid,
      TrainingText& text, Model& model)
      : TrainingRun(
            options,
            {.speed = "words_per_s", .weights = "loss_words", .starts_with_validation = false},
            options.seed, files, model.parameters(),
            {.rate = options.rate,
             .weight_decay = options.weight_decay,
             .decays = nn::matrices_only}),
        options_(options),
        valid_(valid),
        text_(text),
        model_(model),
        plateau_({.rate = options.rate,
                  .patience = std::max<Index>(0, options.halve - 1),
                  .higher_is_better = true}) {
    start_epoch();
  }

 private:
  void describe() const override {
    say("{} sentence pairs, {} to validate on\nvocabularies of {} and {}, {}\n", text_.size(),
        valid_.sources.size(), model_.source().vocabulary.size(), model_.target().vocabulary.size(),
        machinery());
    if (resumes()) say("resuming at step {}, epoch {}\n", step(), epoch_ + 1);
  }

  void start_epoch() { batches_ = text_.batches(epoch_); }

  std::string end() const override {
    if (epoch_ >= options_.epochs) return "finished";
    if (options_.minutes > 0 && seconds() >= 60 * options_.minutes)
      return fmt::format("out of time, --minutes {}", options_.minutes);
    if (waited_ >= options_.patience) return "no longer better";
    return {};
  }

  Index total_steps() const override { return options_.epochs * std::ssize(batches_); }

  double most_minutes() const override { return options_.minutes; }

  double rate() const override { return schedule_(step()) * plateau_.rate() / options_.rate; }

  StepBatch next_batch() override {
    const std::span<const std::uint32_t> chosen = batches_[static_cast<std::size_t>(position_)];
    const auto at = [=](Index i) { return static_cast<std::size_t>(i); };
    const auto words = [=, this](Index i) { return text_.target_words(chosen[at(i)]); };
    StepBatch batch =
        in_shards(options_.shards, std::ssize(chosen), words, [=, this](Index begin, Index end) {
          const auto some = chosen.subspan(at(begin), at(end - begin));
          const text::Batch pairs = text_.batch(some);
          return model_.network().loss(pairs, text_.guide(some, pairs));
        });
    batch.weight = 0;
    for (Index i = 0; i < std::ssize(chosen); ++i) batch.weight += words(i);
    batch.size = batch.weight;
    return batch;
  }

  void after_step() override {
    if (++position_ < std::ssize(batches_)) return;
    position_ = 0;
    ++epoch_;
    if (epoch_ < options_.epochs) start_epoch();
  }

  void validate() override {
    last_ = evaluate(model_, valid_, {.beam = options_.beam, .max_length = options_.longest},
                     {.tokens = options_.bleu});
    const double metric = options_.metric == Metric::bleu ? last_.bleu : -last_.loss;
    // Of equally good weights the later ones, which are more confident, unless BLEU is still 0.
    const bool better = metric > best_ || (metric == best_ && metric != 0);
    if (better && !(diverges() && best_step_ > 0)) {
      best_ = metric, best_step_ = step(), waited_ = 0;
      save_best();
    } else {
      ++waited_;
    }
    if (options_.halve > 0) plateau_.observe(metric);
  }

  std::string best_result() const override {
    if (best_step_ == 0) return {};
    const bool bleu = options_.metric == Metric::bleu;
    return fmt::format("{} {:.2f} at step {}", bleu ? "BLEU" : "loss", bleu ? best_ : -best_,
                       best_step_);
  }

  std::string status() const override {
    const std::string training =
        fmt::format("epoch {:2}  {:6.0f} words/s  loss {:6.3f}",
                    std::min(epoch_ + 1, options_.epochs), per_second(), mean_loss());
    if (last_.loss == 0) return training;  // not validated yet
    return fmt::format("{}  valid ppl {:8.2f}  BLEU {:5.2f}", training, last_.perplexity(),
                       last_.bleu);
  }

  /// Two sentences, always the same: from the middle of the text's halves.
  std::string samples() const override {
    std::string text;
    for (const std::size_t i : std::set{valid_.lines.size() / 4, 3 * valid_.lines.size() / 4}) {
      if (i >= last_.translations.size()) continue;
      text += fmt::format("  source       {}\n  reference    {}\n  translation  {}\n",
                          printable(valid_.lines[i]), printable(valid_.references[i].front()),
                          printable(last_.translations[i]));
    }
    return text;
  }

  report::LogFields place() const override { return {{"epoch", epoch_}}; }

  report::LogFields measures() const override {
    return {
        {"valid_loss", last_.loss}, {"valid_perplexity", last_.perplexity()}, {"bleu", last_.bleu}};
  }

  void save_model(Safetensors& file) const override {
    model_.save(file);
    file.metadata.merge(models::fields_to_map(train_fields(), options_));
    file.metadata["preset"] = options_.model.name;
    file.metadata["valid_loss"] = fmt::format("{}", last_.loss);
    file.metadata["valid_bleu"] = fmt::format("{}", last_.bleu);
  }

  void save_progress(Safetensors& file) const override {
    file.metadata["text"] = text_.fingerprint();
    file.metadata["epoch"] = std::to_string(epoch_);
    file.metadata["position"] = std::to_string(position_);
    file.metadata["best"] = fmt::format("{}", best_);
    file.metadata["best_step"] = std::to_string(best_step_);
    file.metadata["waited"] = std::to_string(waited_);
    plateau_.save(file.metadata);
  }

  void load_progress(const Safetensors& file) override {
    plateau_.load(file.metadata);
    if (plateau_.rate() > options_.rate) {
      fail("checkpoint",
           fmt::format("plateau.rate is {}, more than rate = {}", plateau_.rate(), options_.rate));
    }
    epoch_ = nn::load_count(file.metadata, "epoch");
    position_ = nn::load_count(file.metadata, "position");
    waited_ = nn::load_count(file.metadata, "waited");
    best_step_ = nn::load_count(file.metadata, "best_step");
    constexpr double inf = std::numeric_limits<double>::infinity();
    last_ = {nn::load_number(file.metadata, "valid_loss", 0, inf),
             nn::load_number(file.metadata, "valid_bleu", 0, 101)};  // 100 may be rounded up
    best_ = nn::load_number(file.metadata, "best", -inf, inf);
    if (nn::load_text(file.metadata, "text") != text_.fingerprint()) {
      fail(options_.source, "it was trained on another text, or other alignments");
    }
    start_epoch();
    if (position_ < std::ssize(batches_)) return;
    throw Error(fmt::format("position is {}, expected less than the {} batches", position_,
                            std::ssize(batches_)));
  }

  const TrainOptions& options_;
  const ReferenceText& valid_;
  TrainingText& text_;
  Model& model_;
  nn::HalveOnPlateau plateau_;
  nn::Schedule schedule_ = schedule_of(options_);
  std::vector<std::vector<std::uint32_t>> batches_;
  Index epoch_ = 0, position_ = 0;
  Evaluation last_;
  double best_ = -std::numeric_limits<double>::infinity();
  Index best_step_ = 0, waited_ = 0;
};

/// Finds errors before the text is read, which may take long.
void check_files(const TrainOptions& o) {
  for (const auto& [name, path] :
       {std::pair{"--source", o.source}, {"--valid-source", o.valid_source}}) {
    if (!path.empty()) continue;
    const std::string last = (o.out / "last.safetensors").string();
    fail(name, o.resume ? last + " is not there to resume from, so a file is expected"
                        : "a file is expected");
  }
  const auto is_pipe = [](const std::string& path) {
    std::error_code none;
    return std::filesystem::is_fifo(path, none);
  };
  for (const std::string& path : {o.source, o.target}) {
    if (is_pipe(path)) fail(path, "it is read more than once, expected a file and not a pipe");
  }
  for (const std::string& path :
       {o.source, o.target, o.valid_source, o.valid_target, o.alignments}) {
    if (!path.empty() && !is_pipe(path))
      text::LineReader{path};  // throws where it cannot be opened
  }
  if (!is_pipe(o.valid_source) && !is_pipe(o.valid_target))
    check_reference_text(o.valid_source, o.valid_target, o.columns);
  if (!o.alignments.empty() && !models::attends(o.model.network)) {
    fail("--alignments", "the model has no attention");
  }
}

}  // namespace

int train(const TrainOptions& options) {
  RunDirectory files(options.out, options.resume);
  const std::filesystem::path last = files.last();
  if (files.resumes()) {
    // Now that nobody can change them.
    check_same_training("--resume", stored_options(last), options, train_fields(),
                        {"epochs", "minutes", "patience", "max-skipped"});
    // Errors of what a checkpoint asks for begin with its path.
    reading(last, [&] { check_files(options); });
  } else {
    check_files(options);
  }
  // A resumed run has its own tokenizers and vocabularies. Loading throws where the checkpoint's
  // sizes and tensors disagree, before memory of these sizes is taken.
  Codecs codecs = files.resumes() ? Model::load(last).codecs() : make_codecs(options);
  const ReferenceText valid =
      reference_text(options.valid_source, options.valid_target, options.columns, codecs,
                     longest_read(options.model.network, longest_of_pair));
  TrainingText text(options, codecs);
  Model model(options.model.network, std::move(codecs), options.seed);
  return Run(options, files, valid, text, model).go();
}

}  // namespace attune::translate
