#include <fmt/format.h>

#include <attune/models/layer_fields.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/threads.hpp>

#include "speech.hpp"
#include "support/frames.hpp"
#include "support/run.hpp"
#include "support/run_directory.hpp"

namespace attune::speech {

namespace {

using Options = TrainOptions;
using models::choice_field, models::text_field;

const auto number = [](const char* name, const char* help, auto member, double low, double high) {
  return models::number_field<Options>(name, help, member, low, high);
};

}  // namespace

Fields<Options> training_fields() {
  return joined<Options>(
      {{text_field<Options>("digits",
                            "directory of the Free Spoken Digit Dataset: strings of its digits are "
                            "trained on (recordings from 10 on) and validated on (5 to 9)",
                            &Options::digits),
        number("max-digits", "digits of a string at most", &Options::longest, 1, 1000),
        text_field<Options>("list", "or file to train on: RECORDING TAB TRANSCRIPT, a line each",
                            &Options::list),
        text_field<Options>("valid-list", "the same, to choose the best weights by",
                            &Options::valid_list),
        choice_field<Options, Tokens>(
            "tokens", "of the transcripts", &Options::tokens,
            {{Tokens::characters, "characters"}, {Tokens::words, "words"}})},
       step_fields<Options>(
           "utterances",
           "rises for 200 steps, is constant until half of all, then falls to 2 % of it",
           "strings, order, augmentation and dropout"),
       {number("speed", "recordings are made faster or slower by up to this share", &Options::speed,
               0, 0.5),
        number("silence", "most seconds of silence at each end of a recording", &Options::silence,
               0, 10),
        number("noise", "noise is at least this many decibels below a recording", &Options::noise,
               -100, 1000),
        number("time-masks", "stretches of time that are hidden", &Options::time_masks, 0, 1000),
        number("band-masks", "stretches of the mel scale that are hidden", &Options::band_masks, 0,
               1000)},
       common_training_fields<Options>()});
}

Fields<Options> network_fields() {
  constexpr double largest = 1 << 16;
  return joined<Options>(
      {{number("hidden", "size of each direction of the listener, and of the decoder",
               &Options::hidden, 1, largest),
        number("layers", "layers of the listener", &Options::layers, 1, 100),
        number("joined", "how many of the highest layers join two steps into one", &Options::joined,
               0, 20),
        models::cell_field<Options>("cell", "of all layers", &Options::cell),
        number("embedding", "size of a word's vector", &Options::embedding, 1, largest),
        number("readout", "size of the layer before the softmax", &Options::readout, 1, largest),
        number("dropout", "rate between layers, and on words, annotations and readouts",
               &Options::dropout, 0, 0.99),
        number("ctc", "weight of CTC beside attention, in training and search; 0: none",
               &Options::ctc, 0, 0.99),
        choice_field<Options, bool>("attends", "whether the decoder attends", &Options::attends,
                                    {{false, "no"}, {true, "yes"}})},
       models::attention_fields<Options>(false)});
}

Fields<Options> feature_fields() {
  const auto of = [](auto LogMelOptions::*member) {
    return [member](Options & o) -> auto& { return o.features.*member; };
  };
  using Mel = LogMelOptions;
  return {
      number("sampling-rate", "samples per second; recordings of another rate are converted",
             of(&Mel::rate), 1000, 192000),
      number("frame", "seconds of a frame", of(&Mel::window), 0.001, 1),
      number("frame-step", "seconds from frame to frame", of(&Mel::step), 0.001, 1),
      number("bands", "bands of the mel scale", of(&Mel::bands), 1, 512),
      number("lowest", "lowest frequency in Hz", of(&Mel::lowest), 0, 96000),
      number("emphasis", "of high frequencies: x_i - emphasis x_{i-1}", of(&Mel::emphasis), 0, 1)};
}

const Fields<Options>& all_fields() {
  static const auto all = joined<Options>({training_fields(), network_fields(), feature_fields()});
  return all;
}

namespace {

/// What a model is trained on and chosen by.
struct Data {
  text::Codec codec;
  TrainingSet train;
  std::vector<Utterance> validation;
};

Data read_data(const TrainOptions& o) {
  if (!o.digits.empty() && (!o.list.empty() || !o.valid_list.empty()))
    fail("train", fmt::format("--digits {} and --list {} --valid-list {} are two kinds of data: "
                              "one was expected",
                              o.digits, o.list, o.valid_list));
  if (!o.digits.empty()) {
    const Digits validation = Digits::for_validation(o.digits, o.features.rate);
    return {Digits::codec(), digit_strings(o), validation.strings(1, o.longest, 30, o.seed)};
  }
  if (o.list.empty() || o.valid_list.empty())
    fail("train", "--digits DIRECTORY, or --list FILE and --valid-list FILE were expected");
  const text::Tokenizer tokenizer =
      o.tokens == Tokens::words ? text::Tokenizer(text::Words{}) : text::Characters{};
  const text::Codec codec{tokenizer, vocabulary_of(o.list, tokenizer)};
  return {codec, listed_recordings(o, codec),
          read_utterances(o.valid_list, codec, o.features.rate)};
}

frames::Scaling scaling_of(const TrainingSet& set, const LogMelOptions& options) {
  const LogMel features(options);
  frames::Moments moments;
  set.each([&](const auto& samples) { moments.add(features(levelled(samples, options.rate))); });
  const frames::Scaling scaling = moments.scaling();
  frames::check(scaling);
  return scaling;
}

/// The features of a recording that is made faster or slower, gets silence around it, noise, and
/// masks over time and frequency.
Tensor augmented(std::vector<float> samples, const Model& model, Random& random) {
  const TrainOptions& o = model.options;
  const auto silence = [&] {
    return static_cast<std::size_t>(o.silence * random.uniform() * model.rate());
  };
  if (o.speed > 0) samples = frames::resampled(samples, 1 + random.uniform(-o.speed, o.speed));
  samples.insert(samples.begin(), silence(), 0.0f);
  samples.insert(samples.end(), silence(), 0.0f);
  frames::add_noise(samples, o.noise + 20 * random.uniform(), random);
  Tensor features = model.hear(samples);
  frames::spec_augment(
      features, {.time_masks = o.time_masks, .longest_time = 10, .feature_masks = o.band_masks},
      random);
  return features;
}

/// The utterances of a step from number `first` on, each with a stream of random numbers of its own,
/// whichever thread or worker makes it.
Batch draw(const TrainingSet& set, std::span<const std::uint32_t> chosen, const Model& model,
           Index step, Index first) {
  const TrainOptions& o = model.options;
  std::vector<Tensor> heard(chosen.size());
  std::vector<text::Sentence> tokens(chosen.size());
  parallel_for(std::ssize(chosen), [&](Index i) {
    Random random(o.seed, fmt::format("utterance {}", step * o.batch + first + i));
    Utterance one = set.draw(chosen[i], random);
    heard[i] = augmented(std::move(one.samples), model, random);
    tokens[i] = std::move(one.tokens);
  });
  return {frames::make_batch(heard), std::move(tokens)};
}

const std::vector<Variant>& variants() {
  static const std::vector<Variant> all = {
      {"location-aware", {{"score", "location-aware"}}},
      {"content", {{"score", "additive"}}},
      {"local-m", {{"score", "additive"}, {"window", "local-m"}}},
      {"no-attention", {{"attends", "no"}}}};
  return all;
}

/// Token errors in percent of the best weights, on strings that no seed changes.
std::vector<double> token_errors(const TrainOptions& options) {
  const Model model = Model::load(options.out / "best.safetensors");
  const Digits digits = Digits::for_validation(options.digits, model.rate());
  const auto percent = [&](const std::vector<Utterance>& utterances, const HearOptions& hear) {
    return 100 * total(evaluate(model, utterances, hear)).edits.rate();
  };
  const auto longer = digits.strings(options.longest + 1, options.longest + 5, 100, 1);
  return {percent(digits.single(), {}), percent(digits.strings(1, options.longest, 100, 1), {}),
          percent(longer, {}), percent(longer, {.ctc = false})};
}

}  // namespace

TrainOptions stored_options(const std::filesystem::path& checkpoint) {
  return Model::load(checkpoint).options;
}

int train(const TrainOptions& options) {
  check(options);
  LogMel{options.features};  // throws where they contradict each other
  RunDirectory files(options.out, options.resume);
  if (files.resumes()) {
    // Throws where the checkpoint's sizes and tensors disagree, before it allocates these sizes.
    const Model last = Model::load(files.last());
    check_resumable(all_fields(), last.options, options, {"digits", "list", "valid-list"});
  }
  const Data data = read_data(options);
  const frames::Scaling scaling = scaling_of(data.train, options.features);
  Model model(options, data.codec, scaling, std::make_unique<nn::Parameters>(options.seed));
  nn::Adam adam(*model.parameters, {.rate = options.rate});
  Epochs epochs(data.train.batches);
  Best best;
  Run run(options,
          {.seed = options.seed,
           .unit = "utterances",
           .data = fmt::format("{}\n{} utterances to validate on", data.train.description,
                               data.validation.size())},
          files, *model.parameters, [&](Safetensors& file) { model.save(file); },
          {unchanged("vocabulary", text::to_json(data.codec.vocabulary),
                     "it was trained on other transcripts: its vocabulary is another"),
           same_scaling(scaling, "recordings"),
           unchanged("utterances", data.train.hash.text(),
                     "it was trained on other utterances: transcripts or their order have changed"),
           adam, epochs, best});
  const nn::WarmUp<nn::LinearDecay> schedule{.steps = 200,
                                             .next = late_decay(options.rate, options.steps)};
  while (run.goes_on(options.steps)) {
    if (run.trains()) {
      const auto& chosen = epochs.next();
      auto [loss, gradients] = run.backward(std::ssize(chosen), [&](Index begin, Index end) {
        const auto some = std::span(chosen).subspan(begin, end - begin);
        return model.loss(draw(data.train, some, model, run.step(), begin));
      });
      const double rate = schedule(run.step());
      if (run.usable(loss, gradients)) {
        nn::clip_by_global_norm(gradients, options.clip);
        adam.set_rate(rate);
        adam.step(gradients);
      }
      run.stepped({.loss = loss, .rate = rate, .size = static_cast<double>(chosen.size())});
    }
    const auto e =
        run.validate([&] { return total(evaluate(model, data.validation, {.beam = 1})).edits; });
    if (!e) continue;
    if (best.improves(run, {1 - e->rate()}))
      run.save_best(fmt::format(
          "token error {:.2f} %: {} substitutions, {} deletions, {} insertions in {} tokens",
          100 * e->rate(), e->substitutions, e->deletions, e->insertions, e->expected));
    run.save({{"token_error", e->rate()}}, fmt::format("error {:6.2f} %", 100 * e->rate()));
  }
  return run.finish(fmt::format("speech recognise FILE.wav --model {}", options.out.string()));
}

std::vector<std::string> variant_names() { return names_of(variants()); }

int compare(CompareArguments options) {
  if (options.variants.empty()) options.variants = variant_names();
  check_each_once("--variants", options.variants);
  std::vector<NamedRun<TrainOptions>> runs;
  for (const std::string& name : options.variants)
    runs.push_back({name, changed(all_fields(), options.train, variant_named(variants(), name))});
  check(options.train);
  if (options.train.digits.empty()) fail("--digits", "a directory was expected");
  const auto errors =
      compare_runs<TrainOptions>(runs, options, 2, train, stored_options, token_errors);
  const Index longest = options.train.longest;
  const std::string longer = fmt::format("{} to {}", longest + 1, longest + 5);
  print_table("token error, %",
              {"single digits", fmt::format("1 to {}", longest), longer, longer + ", no CTC"},
              options.variants, errors, 2, 18);
  return 0;
}

}  // namespace attune::speech
