// speech: attention models that listen.
#include <fmt/format.h>

#include <attune/nn/optimisers.hpp>
#include <attune/nn/schedule.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/threads.hpp>

#include "speech.hpp"
#include "support/commands.hpp"
#include "support/comparing.hpp"
#include "support/page.hpp"
#include "support/processes.hpp"
#include "support/run.hpp"
#include "support/run_directory.hpp"

namespace attune::speech {
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

/// The options of a run that is to be resumed from this checkpoint.
TrainOptions stored_options(const std::filesystem::path& checkpoint) {
  return Model::load(checkpoint).options;
}

/// Writes best.safetensors, last.safetensors and log.jsonl. The status is 0, or 128 + the number of
/// the signal that interrupted it.
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

struct CompareArguments : Comparison {
  TrainOptions train;  // of each run, which has a directory of its own in `out`
};

/// Trains every variant with every seed on strings of digits, where that is not done yet. Prints a
/// table of errors on single digits, on strings of lengths of training, and on longer ones, by
/// attention and CTC and by attention alone.
int compare(CompareArguments options) {
  if (options.variants.empty()) options.variants = names_of(variants());
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

const auto number = [](const char* name, const char* help, auto member, double low, double high) {
  return models::number_field<Arguments>(name, help, member, low, high);
};

const auto text = [](const char* name, const char* help, auto member) {
  return models::text_field<Arguments>(name, help, member);
};

Fields<Arguments> hearing_fields() {
  return {number(
              "beam", "beam size of the search; 1 is greedy",
              [](Arguments & o) -> auto& { return o.hear.beam; }, 1, 100),
          models::flag_field<Arguments, bool>(
              "no-ctc", "search by attention alone",
              [](Arguments & o) -> auto& { return o.hear.ctc; }, true, false)};
}

Fields<Arguments> recognise_fields() {
  return {
      number("rate", "samples per second of standard input (default: the model's)",
             &Arguments::rate, 1000, 192000),
      number("pause",
             "seconds of quiet after which a line is written for what was said "
             "until then on standard input; 0: one line at its end",
             &Arguments::pause, 0, 60),
      json_field(&Arguments::json, "one JSON object a line: text, probability, tokens with times")};
}

Fields<Arguments> evaluate_fields() {
  return {text("digits",
               "instead of lists: directory of the Free Spoken Digit Dataset, whose "
               "recordings are measured one by one, and joined to strings",
               &Arguments::digits),
          number("first", "number of the first recording; weights are chosen by 5 to 9",
                 &Arguments::first, 0, 1e6),
          number("last", "number of the last recording", &Arguments::last, 0, 1e6),
          number("max-digits", "digits of a string at most", &Arguments::longest, 1, 100),
          number("strings", "of each length", &Arguments::strings, 1, 10000),
          json_field(&Arguments::json, "a line of JSON for each of them")};
}

Fields<Arguments> align_fields() {
  return {models::choice_field<Arguments, AlignFormat>(
              "format", "of the times; textgrid, Praat's, is a file for each recording",
              &Arguments::format,
              {{AlignFormat::json, "json"},
               {AlignFormat::textgrid, "textgrid"},
               {AlignFormat::tsv, "tsv"}}),
          text("out", "file to write (default: standard output), or directory", &Arguments::out)};
}

Fields<Arguments> report_fields() {
  return {text("out", "file to write (default: report.html beside the model)", &Arguments::out),
          text("list", "file with utterances (default: what the model was chosen by)",
               &Arguments::list),
          number("examples", "utterances to draw", &Arguments::examples, 1, 1000)};
}

void add_training(Command& command, TrainOptions& o, const std::set<std::string>& left_out = {}) {
  command.add(training_fields(), o, "Training", left_out)
      .add(network_fields(), o, "Model", left_out)
      .add(feature_fields(), o, "Features");
}

int run(int argc, char** argv) {
  TrainOptions trained;
  Arguments o;
  CompareArguments compared;
  compared.train.out = "speech-compare";
  Commands commands("speech", "Writes what was said, with attention.",
                    "speech train --digits recordings && speech recognise 7_jackson_5.wav");
  const char* const list = "file: RECORDING TAB TRANSCRIPT, a line each";
  add_training(commands
                   .add("train", "train a model on recordings", "--digits recordings",
                        [&] {
                          return then_report(train(trained), trained, [](const auto& best) {
                            return report({.model = best});
                          });
                        })
                   .add(run_fields<TrainOptions>(), trained)
                   .basic({"out", "resume", "digits", "list", "valid-list", "tokens", "steps",
                           "batch", "rate", "seed", "hidden", "layers", "dropout", "ctc", "score"})
                   .resumes(trained, stored_options),
               trained);
  commands
      .add("recognise", "write what is said in recordings", "7_jackson_5.wav --json",
           [&] { return recognise(o); })
      .arguments("files",
                 "recordings (WAV, FLAC, Ogg); without any, raw samples of 16 bits, little-endian, "
                 "of one channel are read from standard input",
                 o.inputs)
      .model(o.model)
      .add(hearing_fields(), o)
      .add(recognise_fields(), o);
  commands
      .add("evaluate", "measure a model, by length", "--digits recordings --first 0 --last 4",
           [&] { return evaluate(o); })
      .arguments("lists", list, o.inputs)
      .model(o.model)
      .add(hearing_fields(), o)
      .add(evaluate_fields(), o);
  commands
      .add("align", "when each word of a transcript was said",
           "list.tsv --format textgrid --out times", [&] { return align(o); })
      .argument("list", list, o.list)
      .model(o.model)
      .add(align_fields(), o);
  commands
      .add("report", "write an HTML page: attention above spectrograms, errors",
           "--list list.tsv --examples 5", [&] { return report(o); })
      .model(o.model)
      .add(report_fields(), o);
  // Without the options that variants and seeds set.
  add_training(commands
                   .add("compare", "train kinds of attention with several seeds; a table",
                        "--digits recordings --seeds 2", [&] { return compare(compared); })
                   .add(comparison_fields<CompareArguments>(names_of(variants())), compared)
                   .in_processes(),
               compared.train,
               {"list", "valid-list", "tokens", "seed", "attends", "score", "window"});
  return commands.run(argc, argv);
}

}  // namespace
}  // namespace attune::speech

int main(int argc, char** argv) {
  return attune::run_program("speech", [&] { return attune::speech::run(argc, argv); });
}
