#include "train.hpp"

#include <fmt/format.h>

#include <attune/models/frames/augment.hpp>
#include <attune/models/frames/batches.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/threads.hpp>

#include "evaluation.hpp"
#include "support/checkpoint.hpp"
#include "support/output.hpp"
#include "support/training_run.hpp"
#include "training_set.hpp"

namespace attune::speech {
namespace {

/// What a model is trained on and chosen by.
struct Data {
  text::Codec codec;
  std::unique_ptr<TrainingSet> train;
  std::vector<Utterance> validation;
};

SetOptions set_options(const TrainOptions& o) {
  SetOptions options{.rate = o.features.rate, .batch = o.batch, .seed = o.seed};
  if (o.network.ctc == 0) return options;
  options.annotations = [features = LogMel(o.features), joined = joined(o.network),
                         fastest = 1 - o.speed](double seconds) {
    const double samples = seconds * fastest * static_cast<double>(features.options().rate);
    return 1 + (features.frames(static_cast<Index>(samples)) - 1) / joined;
  };
  return options;
}

Data digit_data(const TrainOptions& o) {
  Data data{Digits::codec(), digit_strings(o.digits, o.longest, set_options(o)), {}};
  data.validation = strings(validation_digits(o.digits, o.features.rate), 1, o.longest, 30, o.seed);
  return data;
}

Data listed_data(const TrainOptions& o) {
  if (o.list.empty() || o.valid_list.empty())
    fail("train", "--digits DIRECTORY, or --list FILE and --valid-list FILE were expected");
  const text::Tokenizer tokenizer =
      o.tokens == Tokens::words ? text::Tokenizer(text::Words{}) : text::Characters{};
  text::Codec codec{tokenizer, vocabulary_of(o.list, tokenizer)};
  auto train = listed_recordings(o.list, codec, set_options(o));
  auto validation = read_utterances(o.valid_list, codec, o.features.rate);
  return {std::move(codec), std::move(train), std::move(validation)};
}

Data read_data(const TrainOptions& o) {
  if (o.digits.empty()) return listed_data(o);
  if (!o.list.empty() || !o.valid_list.empty())
    fail("train", fmt::format("--digits {} and --list {} --valid-list {} are two kinds of data: "
                              "one was expected",
                              o.digits, o.list, o.valid_list));
  return digit_data(o);
}

frames::Scaling scaling_of(const TrainingSet& set, const LogMelOptions& options) {
  const LogMel features(options);
  frames::Moments moments;
  set.each([&](const std::vector<float>& samples) {
    moments.add(features(levelled(samples, options.rate)));
  });
  const frames::Scaling scaling = moments.scaling();
  frames::check(scaling);
  return scaling;
}

class Run : public TrainingRun {
 public:
  Run(const TrainOptions& options, RunDirectory& files, Data& data, Model& model)
      : TrainingRun(
            options,
            {.speed = "utterances_per_s", .weights = "loss_count", .starts_with_validation = false},
            options.seed, files, model.parameters(), {.rate = options.rate}),
        options_(options),
        data_(data),
        model_(model) {}

 private:
  void describe() const override {
    say("{}\n{} utterances to validate on\n{}\n", data_.train->description(),
        data_.validation.size(), machinery());
    if (resumes()) say("resuming at step {} of {}\n", step(), std::max(step(), options_.steps));
  }

  std::string end() const override { return step() < options_.steps ? "" : "finished"; }
  Index total_steps() const override { return options_.steps; }

  double rate() const override {
    const nn::WarmUp<nn::LinearDecay> schedule{.steps = 200,
                                               .next = late_decay(options_.rate, options_.steps)};
    return schedule(step());
  }

  /// Each utterance has a stream of random numbers of its own, whoever makes it.
  StepBatch next_batch() override {
    const Index n = data_.train->begin_step(step());
    StepBatch batch = in_shards(
        options_.shards, n, [](Index) { return 1; },
        [this](Index begin, Index end) { return model_.recogniser().loss(drawn(begin, end)); });
    batch.size = static_cast<double>(n);
    return batch;
  }

  /// Utterances of this step.
  Batch drawn(Index begin, Index end) const {
    std::vector<Tensor> heard(static_cast<std::size_t>(end - begin));
    std::vector<text::Sentence> tokens(heard.size());
    parallel_for(end - begin, [&](Index i) {
      Random random(options_.seed,
                    fmt::format("utterance {}", step() * options_.batch + begin + i));
      Utterance one = data_.train->draw(begin + i, random);
      heard[static_cast<std::size_t>(i)] = augmented(std::move(one.samples), random);
      tokens[static_cast<std::size_t>(i)] = std::move(one.tokens);
    });
    return {frames::make_batch(heard), std::move(tokens)};
  }

  Tensor augmented(std::vector<float> samples, Random& random) const {
    if (options_.speed > 0)
      samples = frames::resampled(samples, 1 + random.uniform(-options_.speed, options_.speed));
    samples.insert(samples.begin(), silence(random), 0.0f);
    samples.insert(samples.end(), silence(random), 0.0f);
    frames::add_noise(samples, options_.noise + 20 * random.uniform(), random);
    Tensor features = model_.hear(samples);
    frames::spec_augment(features,
                         {.time_masks = options_.time_masks,
                          .longest_time = 10,
                          .feature_masks = options_.band_masks},
                         random);
    return features;
  }

  /// In samples.
  std::size_t silence(Random& random) const {
    return static_cast<std::size_t>(options_.silence * random.uniform() *
                                    static_cast<double>(model_.rate()));
  }

  void validate() override {
    last_ = total(evaluate(model_, data_.validation, {.beam = 1})).edits;
    if (best_.expected > 0 && (last_.rate() > best_.rate() || diverges())) return;
    best_ = last_;
    save_best();
  }

  std::string best_result() const override {
    if (best_.expected == 0) return {};
    return fmt::format(
        "token error {:.2f} %: {} substitutions, {} deletions, {} insertions in {} tokens",
        100 * best_.rate(), best_.substitutions, best_.deletions, best_.insertions, best_.expected);
  }

  std::string status() const override {
    return fmt::format("{:5.0f} utterances/s  loss {:.4f}  error {:6.2f} %", per_second(),
                       mean_loss(), 100 * last_.rate());
  }

  report::LogFields measures() const override { return {{"token_error", last_.rate()}}; }

  void save_model(Safetensors& file) const override {
    model_.save(file);
    file.metadata.merge(models::fields_to_map(train_fields(), options_));
    save_edits(file.metadata, "last_", last_);
  }

  void save_progress(Safetensors& file) const override {
    file.metadata["utterances"] = data_.train->fingerprint();
    save_edits(file.metadata, "best_", best_);
  }

  void check(const Safetensors& file) const override {
    if (nn::load_text(file.metadata, "vocabulary") != text::to_json(data_.codec.vocabulary))
      fail("checkpoint", "it was trained on other transcripts: its vocabulary is another");
    for (const auto& [name, tensor] : frames::scaling_tensors(model_.scaling())) {
      const Tensor& stored = nn::find_tensor(file, name, tensor.shape(), tensor.dtype());
      if (stored.to_vector<float>() != tensor.to_vector<float>())
        fail("checkpoint",
             fmt::format("it was trained on other recordings: '{}' is another", name));
    }
    if (nn::load_text(file.metadata, "utterances") != data_.train->fingerprint())
      fail("checkpoint",
           "it was trained on other utterances: transcripts or their order have changed");
  }

  void load_progress(const Safetensors& file) override {
    last_ = load_edits(file.metadata, "last_");
    best_ = load_edits(file.metadata, "best_");
  }

  const TrainOptions& options_;
  Data& data_;
  Model& model_;
  metrics::Edits last_, best_;
};

Metadata to_map(const TrainOptions& options) {
  Metadata map = models::fields_to_map(train_fields(), options);
  map.merge(models::fields_to_map(log_mel_fields(), options.features));
  map.merge(models::fields_to_map(recogniser_fields(), options.network));
  return map;
}

void check_same(const TrainOptions& stored, const TrainOptions& given) {
  Metadata before = to_map(stored), after = to_map(given);
  for (const char* free :
       {"digits", "list", "valid-list", "steps", "validate-every", "max-skipped"})
    after[free] = before[free];
  attune::check_same("--resume", given.out / "last.safetensors", before, after);
}

}  // namespace

std::span<const models::OptionField<TrainOptions>> train_fields() {
  using Options = TrainOptions;
  using models::choice_field, models::number_field, models::text_field;
  constexpr double many = 1e9;
  static const auto fields = attune::joined<Options>(
      {{text_field<Options>("digits",
                            "directory of the Free Spoken Digit Dataset: strings of its digits are "
                            "trained on (recordings from 10 on) and validated on (5 to 9)",
                            &Options::digits),
        number_field<Options>("max-digits", "digits of a string at most", &Options::longest, 1,
                              1000),
        text_field<Options>("list", "or file to train on: RECORDING TAB TRANSCRIPT, a line each",
                            &Options::list),
        text_field<Options>("valid-list", "the same, to choose the best weights by",
                            &Options::valid_list),
        choice_field<Options, Tokens>(
            "tokens", "of the transcripts", &Options::tokens,
            {{Tokens::characters, "characters"}, {Tokens::words, "words"}}),
        number_field<Options>("steps", "batches to train on", &Options::steps, 1, many),
        number_field<Options>("batch", "utterances in a batch", &Options::batch, 1, 1 << 16),
        number_field<Options>(
            "rate",
            "learning rate of Adam: rises for 200 steps, is constant until half of "
            "all, then falls to 2 % of it",
            &Options::rate, 1e-9, 10),
        number_field<Options>("speed", "recordings are made faster or slower by up to this share",
                              &Options::speed, 0, 0.5),
        number_field<Options>("silence", "most seconds of silence at each end of a recording",
                              &Options::silence, 0, 10),
        number_field<Options>("noise", "noise is at least this many decibels below a recording",
                              &Options::noise, -100, 1000),
        number_field<Options>("time-masks", "stretches of time that are hidden",
                              &Options::time_masks, 0, 1000),
        number_field<Options>("band-masks", "stretches of the mel scale that are hidden",
                              &Options::band_masks, 0, 1000),
        number_field<Options>("seed", "of initial values, strings, order, augmentation and dropout",
                              &Options::seed, 0, 0x1p64)},
       common_training_fields<Options>()});
  return fields;
}

TrainOptions stored_options(const std::filesystem::path& checkpoint) {
  return from_checkpoint(checkpoint, checkpoint_format, [](const Safetensors& file) {
    TrainOptions options;
    models::set_fields_from(train_fields(), options, file.metadata);
    models::set_fields_from(log_mel_fields(), options.features, file.metadata);
    models::set_fields_from(recogniser_fields(), options.network, file.metadata);
    return options;
  });
}

int train(const TrainOptions& options) {
  check(options.network);
  LogMel{options.features};  // throws where they contradict each other
  RunDirectory files(options.out, options.resume);
  if (files.resumes()) {
    check_same(stored_options(files.last()), options);
    // Throws where the checkpoint's sizes and tensors disagree, before memory of these sizes is
    // taken.
    Model::load(files.last());
  }
  Data data = read_data(options);
  Model model(options.network, options.features, data.codec,
              scaling_of(*data.train, options.features), options.seed);
  return Run(options, files, data, model).go();
}

}  // namespace attune::speech
