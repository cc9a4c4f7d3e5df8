#include "train.hpp"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include <attune/tensor/printable.hpp>

#include "evaluation.hpp"
#include "support/output.hpp"
#include "support/training_run.hpp"

namespace attune::transduce {
namespace {

constexpr Index least_steps = 8000, least_epochs = 12;
constexpr Index longest_side = 5000;  // tokens: the memory of attention grows with both lengths

Codecs make_codecs(const TrainOptions& o, std::span<const Row> rows) {
  std::vector<std::string> sources, targets;
  for (const Row& row : rows) sources.push_back(row.source), targets.push_back(row.target);
  return {make_codec(sources, Side::source, o.source_units, o.pieces, "--source-units"),
          make_codec(targets, Side::target, o.target_units, o.pieces, "--target-units")};
}

/// Throws for a side that is longer than the model can read or write.
std::vector<text::Pair> encode(const Codecs& codecs, std::span<const Row> rows,
                               const std::string& path, const models::Seq2SeqOptions& network) {
  const bool located = network.score.kind == "location" && models::attends(network);
  const Index longest = located ? std::min(longest_side, network.score.longest) : longest_side;
  std::vector<text::Pair> pairs;
  for (const Row& row : rows) {
    pairs.push_back({codecs.source.encode(row.source), codecs.target.encode(row.target)});
    for (const auto& [name, length, most] :
         {std::tuple{"source", std::ssize(pairs.back().source), longest},
          {"target", std::ssize(pairs.back().target), longest_side}}) {
      if (length <= most) continue;
      fail(fmt::format("{}:{}", path, row.line),
           fmt::format("the {} has {} tokens, expected at most {}{}", name, length, most,
                       most < longest_side ? ", as --longest says" : ""));
    }
  }
  return pairs;
}

Index longest_target(std::span<const text::Pair> pairs) {
  Index longest = 0;
  for (const text::Pair& pair : pairs) longest = std::max(longest, std::ssize(pair.target));
  return longest;
}

class Run : public TrainingRun {
 public:
  Run(const TrainOptions& options, RunDirectory& files, std::span<const text::Pair> pairs,
      const Data& data, Model& model)
      : TrainingRun(
            options,
            {.speed = "examples_per_s", .weights = "loss_tokens", .starts_with_validation = false},
            options.seed, files, model.parameters(), {.rate = options.rate}),
        options_(options),
        pairs_(pairs),
        valid_(data.valid),
        fingerprint_(data.fingerprint()),
        model_(model) {
    start_epoch(0);
  }

 private:
  void describe() const override {
    say("{} pairs to train on, {} to validate on\nsource: {}; target: {}\n{}\n", pairs_.size(),
        valid_.size(), description(model_.source()), description(model_.target()), machinery());
    if (resumes()) say("resuming at step {} of {}\n", step(), std::max(step(), total_steps()));
  }

  std::string end() const override {
    if (step() >= total_steps()) return "finished";
    if (options_.minutes > 0 && seconds() >= 60 * options_.minutes)
      return fmt::format("out of time, --minutes {}", options_.minutes);
    if (waited_ >= options_.patience) return "no longer better";
    return {};
  }

  Index total_steps() const override {
    if (options_.steps > 0) return options_.steps;
    return std::max(least_steps, least_epochs * std::ssize(batches_));
  }

  double most_minutes() const override { return options_.minutes; }

  double rate() const override { return late_decay(options_.rate, total_steps())(step()); }

  /// An epoch has always as many batches.
  void start_epoch(Index epoch) {
    epoch_ = epoch;
    batches_ = text::epoch_batches(
        pairs_, {.sentences = options_.batch, .pool = 20 * options_.batch}, options_.seed, epoch);
  }

  StepBatch next_batch() override {
    const Index epoch = step() / std::ssize(batches_), position = step() % std::ssize(batches_);
    if (epoch != epoch_) start_epoch(epoch);
    const std::span<const std::uint32_t> chosen = batches_[static_cast<std::size_t>(position)];
    const auto at = [=](Index i) { return static_cast<std::size_t>(i); };
    const auto tokens = [=, this](Index i) {
      return static_cast<double>(pairs_[chosen[at(i)]].target.size() + 1);
    };
    StepBatch batch =
        in_shards(options_.shards, std::ssize(chosen), tokens, [=, this](Index begin, Index end) {
          const auto some = chosen.subspan(at(begin), at(end - begin));
          return model_.network().loss(text::make_batch(pairs_, some));
        });
    batch.weight = 0;
    for (Index i = 0; i < std::ssize(chosen); ++i) batch.weight += tokens(i);
    batch.size = static_cast<double>(chosen.size());
    return batch;
  }

  void validate() override {
    last_ = total(evaluate(std::span(&model_, 1), valid_, 1).counts);
    // Of equally good weights the later ones, which are more confident, unless nothing is right.
    const auto rank = [](const Counts& c) { return std::pair(c.right, -c.edits.count()); };
    const bool better = best_.examples == 0 || rank(last_) > rank(best_),
               as_good = last_.right > 0 && rank(last_) == rank(best_);
    waited_ = better ? 0 : waited_ + 1;
    if (!(better || as_good) || (diverges() && best_.examples > 0)) return;
    best_ = last_;
    save_best();
  }

  std::string best_result() const override {
    if (best_.examples == 0) return {};
    return fmt::format("word error {:.2f} %, token error {:.2f} % on {} pairs (greedy search)",
                       100 * word_error(best_), 100 * best_.edits.rate(), best_.examples);
  }

  std::string status() const override {
    const std::string training =
        fmt::format("{:5.0f} pairs/s  loss {:.4f}", per_second(), mean_loss());
    if (last_.examples == 0) return training;  // not validated yet
    return fmt::format("{}  word error {:6.2f} %", training, 100 * word_error(last_));
  }

  report::LogFields measures() const override {
    return {{"word_error", word_error(last_)}, {"token_error", last_.edits.rate()}};
  }

  void save_model(Safetensors& file) const override {
    model_.save(file);
    file.metadata.merge(models::fields_to_map(train_fields(), options_));
    file.metadata["pairs"] = fingerprint_;
    save_counts(file.metadata, "last_", last_);
  }

  void save_progress(Safetensors& file) const override {
    file.metadata["waited"] = std::to_string(waited_);
    save_counts(file.metadata, "best_", best_);
  }

  void check(const Safetensors& file) const override {
    if (nn::load_text(file.metadata, "pairs") != fingerprint_)
      fail("checkpoint", "it was trained on other pairs");
    Safetensors own;
    model_.save(own);
    for (const std::string& name : codec_entries) {
      if (nn::load_text(file.metadata, name) != own.metadata.at(name))
        fail("checkpoint", fmt::format("its {} is not that of the pairs", name));
    }
  }

  void load_progress(const Safetensors& file) override {
    waited_ = nn::load_count(file.metadata, "waited");
    last_ = load_counts(file.metadata, "last_");
    best_ = load_counts(file.metadata, "best_");
  }

  static void save_counts(Metadata& metadata, const std::string& name, const Counts& counts) {
    save_edits(metadata, name, counts.edits);
    metadata[name + "examples"] = std::to_string(counts.examples);
    metadata[name + "right"] = std::to_string(counts.right);
  }
  static Counts load_counts(const Metadata& metadata, const std::string& name) {
    return {load_edits(metadata, name), nn::load_count(metadata, name + "examples"),
            nn::load_count(metadata, name + "right")};
  }

  const TrainOptions& options_;
  std::span<const text::Pair> pairs_;
  std::span<const Row> valid_;
  std::string fingerprint_;
  Model& model_;
  std::vector<std::vector<std::uint32_t>> batches_;  // of the epoch
  Index epoch_ = 0, waited_ = 0;
  Counts last_, best_;
};

}  // namespace

int train(const TrainOptions& options) {
  RunDirectory files(options.out, options.resume);
  if (files.resumes()) {
    // Now that nobody can change them.
    check_same_training("--resume", stored_options(files.last()), options, train_fields(),
                        {"steps", "minutes", "patience", "validate-every", "max-skipped"});
    // Throws where the checkpoint's sizes and tensors disagree, before memory of these sizes is
    // taken.
    Model::load(files.last());
  }
  const auto read = [&] { return read_data(options); };
  const Data data = files.resumes() ? reading(files.last(), read) : read();
  Codecs codecs = make_codecs(options, data.train);
  const models::Seq2SeqOptions& network = options.model.network;
  const std::vector<text::Pair> pairs = encode(codecs, data.train, options.train, network);
  encode(codecs, data.valid, options.valid.empty() ? options.train : options.valid, network);
  Model model(options.model, std::move(codecs), longest_target(pairs), options.seed);
  return Run(options, files, pairs, data, model).go();
}

}  // namespace attune::transduce
