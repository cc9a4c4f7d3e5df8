
#include <fmt/format.h>

#include <attune/models/frames/augment.hpp>
#include <attune/models/frames/batches.hpp>
#include <attune/nn/adam.hpp>
#include <attune/nn/checkpoint.hpp>
#include <attune/nn/clip.hpp>
#include <attune/nn/schedule.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/threads.hpp>

#include "program.hpp"
#include "support/run.hpp"
#include "support/run_directory.hpp"

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

/// Utterances of this step, each with a stream of random numbers of its own, whoever makes it.
class Drawing {
 public:
  Drawing(const TrainOptions& options, const Data& data, const Model& model)
      : o_(options), data_(data), model_(model) {}

  Batch operator()(Index step, Index begin, Index end) const {
    std::vector<Tensor> heard(static_cast<std::size_t>(end - begin));
    std::vector<text::Sentence> tokens(heard.size());
    parallel_for(end - begin, [&](Index i) {
      Random random(o_.seed, fmt::format("utterance {}", step * o_.batch + begin + i));
      Utterance one = data_.train->draw(begin + i, random);
      heard[static_cast<std::size_t>(i)] = augmented(std::move(one.samples), random);
      tokens[static_cast<std::size_t>(i)] = std::move(one.tokens);
    });
    return {frames::make_batch(heard), std::move(tokens)};
  }

 private:
  Tensor augmented(std::vector<float> samples, Random& random) const {
    if (o_.speed > 0) samples = frames::resampled(samples, 1 + random.uniform(-o_.speed, o_.speed));
    samples.insert(samples.begin(), silence(random), 0.0f);
    samples.insert(samples.end(), silence(random), 0.0f);
    frames::add_noise(samples, o_.noise + 20 * random.uniform(), random);
    Tensor features = model_.hear(samples);
    frames::spec_augment(
        features, {.time_masks = o_.time_masks, .longest_time = 10, .feature_masks = o_.band_masks},
        random);
    return features;
  }

  /// In samples.
  std::size_t silence(Random& random) const {
    return static_cast<std::size_t>(o_.silence * random.uniform() *
                                    static_cast<double>(model_.rate()));
  }

  const TrainOptions& o_;
  const Data& data_;
  const Model& model_;
};

/// Throws where a checkpoint was trained on something else.
Saved same_data(const Data& data, const Model& model) {
  return {[&](Safetensors& file) { file.metadata["utterances"] = data.train->fingerprint(); },
          [&](const Safetensors& file) {
            if (nn::load_text(file.metadata, "vocabulary") != text::to_json(data.codec.vocabulary))
              fail("checkpoint", "it was trained on other transcripts: its vocabulary is another");
            for (const auto& [name, tensor] : frames::scaling_tensors(model.scaling())) {
              const Tensor& stored = nn::find_tensor(file, name, tensor.shape(), tensor.dtype());
              if (stored.to_vector<float>() != tensor.to_vector<float>())
                fail("checkpoint",
                     fmt::format("it was trained on other recordings: '{}' is another", name));
            }
            if (nn::load_text(file.metadata, "utterances") != data.train->fingerprint())
              fail("checkpoint",
                   "it was trained on other utterances: transcripts or their order have changed");
          }};
}

std::string to_string(const metrics::Edits& e) {
  return fmt::format(
      "token error {:.2f} %: {} substitutions, {} deletions, {} insertions in {} tokens",
      100 * e.rate(), e.substitutions, e.deletions, e.insertions, e.expected);
}

Metadata to_map(const TrainOptions& options) {
  Metadata map = models::fields_to_map(train_fields(), options);
  map.merge(models::fields_to_map(log_mel_fields(), options.features));
  map.merge(models::fields_to_map(recogniser_fields(), options.network));
  return map;
}

void check_same(const TrainOptions& stored, const TrainOptions& given) {
  Metadata before = to_map(stored), after = to_map(given);
  for (const char* free :
       {"digits", "list", "valid-list", "steps", "minutes", "validate-every", "max-skipped"})
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
  nn::Adam adam(model.parameters(), {.rate = options.rate});
  const Drawing drawn(options, data, model);
  Best best;
  const auto save_model = [&](Safetensors& file) {
    model.save(file);
    file.metadata.merge(models::fields_to_map(train_fields(), options));
  };
  Run run(options,
          {.seed = options.seed,
           .unit = "utterances",
           .data = fmt::format("{}\n{} utterances to validate on", data.train->description(),
                               data.validation.size())},
          files, model.parameters(), save_model, {same_data(data, model), adam, best});
  const nn::WarmUp<nn::LinearDecay> schedule{.steps = 200,
                                             .next = late_decay(options.rate, options.steps)};
  while (run.goes_on(options.steps)) {
    if (run.trains()) {
      const Index n = data.train->begin_step(run.step());
      auto [loss, gradients] = run.backward(n, [&](Index begin, Index end) {
        return model.recogniser().loss(drawn(run.step(), begin, end));
      });
      const double rate = schedule(run.step());
      if (run.usable(loss, gradients)) {
        nn::clip_by_global_norm(gradients, options.clip);
        adam.set_rate(rate);
        adam.step(gradients);
      }
      run.stepped({.loss = loss, .rate = rate, .size = static_cast<double>(n)});
    }
    const auto errors =
        run.validate([&] { return total(evaluate(model, data.validation, {.beam = 1})).edits; });
    if (!errors) continue;
    if (best.improves(run, {1 - errors->rate()})) run.save_best(to_string(*errors));
    run.save({{"token_error", errors->rate()}},
             fmt::format("error {:6.2f} %", 100 * errors->rate()));
  }
  return run.finish(fmt::format("speech recognise FILE.wav --model {}", options.out.string()));
}

}  // namespace attune::speech
