// speech: attention models that listen.
#include <fmt/format.h>

#include <attune/models/heatmap.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/threads.hpp>

#include "speech.hpp"
#include "support/chart.hpp"
#include "support/commands.hpp"
#include "support/comparing.hpp"
#include "support/output.hpp"
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
  Input validation_input = {};
};

Data read_data(const TrainOptions& o) {
  if (!o.digits.empty() && (!o.list.empty() || !o.valid_list.empty()))
    fail("train", fmt::format("--digits {} and --list {} --valid-list {} are two kinds of data: "
                              "one was expected",
                              o.digits, o.list, o.valid_list));
  if (!o.digits.empty()) {
    const Digits validation = Digits::for_validation(o.digits, o.features.rate);
    return {Digits::codec(), digit_strings(o), validation.strings(1, o.longest, 30, o.seed),
            input(o.digits, validation.single())};
  }
  if (o.list.empty() || o.valid_list.empty())
    fail("train", "--digits DIRECTORY, or --list FILE and --valid-list FILE were expected");
  const text::Tokenizer tokenizer =
      o.tokens == Tokens::words ? text::Tokenizer(text::Words{}) : text::Characters{};
  require_regular(o.list);
  if (o.report) require_regular(o.valid_list);
  const text::Codec codec{tokenizer, vocabulary_of(o.list, tokenizer)};
  Data data{codec, listed_recordings(o, codec),
            read_utterances(o.valid_list, codec, o.features.rate)};
  data.validation_input = input(o.valid_list, data.validation);
  return data;
}

/// The features of a recording under augmentation: another speed, silence around it, noise, and
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
    check_resumable(options.out, to_metadata(all_fields(), last.options),
                    to_metadata(all_fields(), options),
                    {"digits", "list", "valid-list", "steps", "validate-every", "max-skipped"});
  }
  const Data data = read_data(options);
  frames::check(data.train.scaling);
  Model model(options, data.codec, data.train.scaling,
              std::make_unique<nn::Parameters>(options.seed));
  nn::Adam adam(*model.parameters, {.rate = options.rate});
  Epochs epochs(data.train.batches);
  Best best;
  Run run(
      options,
      {.seed = options.seed,
       .unit = "utterances",
       .data = fmt::format("{}\n{} utterances to validate on", data.train.description,
                           data.validation.size()),
       .inputs = {{"training_data", data.train.input}, {"validation_data", data.validation_input}}},
      files, *model.parameters, [&](Safetensors& file) { model.save(file); }, {adam, epochs, best});
  const nn::WarmUp<nn::LinearDecay> schedule{.steps = 200,
                                             .next = late_decay(options.rate, options.steps)};
  while (run.goes_on(options.steps)) {
    if (run.trains()) {
      const auto& chosen = epochs.next();
      nn::Workers::Sum sum = run.backward(std::ssize(chosen), [&](Index begin, Index end) {
        const auto some = std::span(chosen).subspan(begin, end - begin);
        return model.loss(draw(data.train, some, model, run.step(), begin));
      });
      run.update(adam, std::move(sum),
                 {.rate = schedule(run.step()), .size = static_cast<double>(chosen.size())});
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
  std::vector<std::pair<std::string, TrainOptions>> runs;
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
              options.variants, errors, 2);
  return 0;
}

// ---- report

struct ReportArguments {
  std::filesystem::path model = default_model;
  std::filesystem::path list = {};  // empty: the data of the training
  std::filesystem::path out = {};   // empty: report.html beside the model
  Index examples = 6;
};

/// The utterances that a report measures and draws, and their description.
struct TestData {
  std::string name;
  std::vector<Utterance> utterances;
};

TestData test_data(const Model& model, const ReportArguments& options) {
  if (options.list.empty() && !model.options.digits.empty())
    return {
        "strings of recordings 5 to 9 of each digit and speaker, by which the weights were chosen",
        Digits::for_validation(model.options.digits, model.rate()).strings(1, 12, 10, 1)};
  const std::string list = options.list.empty() ? model.options.valid_list : options.list.string();
  return {list, read_utterances(list, model.codec, model.rate())};
}

/// Rows of the mean of two bands each, the highest first, in columns of `joined` frames, as shares
/// of the range of all.
void add_spectrogram(report::Heatmap& map, const Tensor& heard, Index places, Index joined) {
  const Index frames = heard.dim(0), bands = heard.dim(1), rows = (bands + 1) / 2;
  const std::vector<double> values = heard.to_vector<double>();
  const auto [low, high] = std::ranges::minmax(values);
  for (Index row = rows - 1; row >= 0; --row) {
    map.rows.push_back(row == rows - 1 ? "high" : row == 0 ? "low" : "");
    for (Index s = 0; s < places; ++s) {
      double sum = 0, count = 0;
      for (Index t = s * joined; t < std::min(frames, (s + 1) * joined); ++t)
        for (Index band = 2 * row; band < std::min(bands, 2 * row + 2); ++band, ++count)
          sum += values[t * bands + band];
      map.weights.push_back(high > low ? (sum / count - low) / (high - low) : 0);
    }
  }
}

/// A column for each annotation: its attention weight at each token, and the spectrogram below.
report::Heatmap picture(const Model& model, const Utterance& utterance,
                        const models::Hypothesis& h) {
  const Index places = h.weights.dim(1);
  report::Heatmap map{
      .rows = {}, .columns = {}, .weights = h.weights.to_vector<double>(), .caption = ""};
  for (Index s = 0; s < places; ++s)
    map.columns.push_back(s % 5 == 0 ? fmt::format("{:.2f} s", model.time(s)) : "");
  for (const std::int32_t word : h.words) map.rows.push_back(model.codec.vocabulary.token(word));
  if (h.complete) map.rows.push_back("end");
  add_spectrogram(map, model.hear(utterance.samples), places, model.options.frames_joined());
  return map;
}

void add_examples(report::Page& page, const Model& model, const TestData& data, Index count) {
  page.heading("What was attended to");
  page.paragraph(
      "Each row above is a token that was written, and how much of its attention each stretch of "
      "the recording had. Below it is the spectrogram that was heard, high tones at the top.");
  const Index all = std::ssize(data.utterances);
  count = std::min(count, all);
  for (Index i = 0; i < count; ++i) {
    const Utterance& one = data.utterances[(2 * i + 1) * all / (2 * count)];
    const auto found = model.recognise(std::span(&one.samples, 1)).front();
    const std::string caption =
        fmt::format("said: {}; heard: {}", isolated(model.codec.decode(one.tokens)),
                    isolated(model.codec.decode(found.words)));
    if (!found.weights.defined())
      page.paragraph(caption);
    else
      page.figure(report::svg(picture(model, one, found), {.cell = 9}), caption);
  }
}

/// An HTML page: attention above spectrograms, errors.
int report(const ReportArguments& options) {
  const auto path = page_path(options.out, options.model.parent_path());
  const Model model = Model::load(options.model);
  const TestData data = test_data(model, options);
  const CountsByLength counts = evaluate(model, data.utterances, {});
  const Counts all = total(counts);
  report::Page page(run_names(std::span(&options.model, 1)).front() + ": what was heard");
  page.definitions({{"Token error", share(all.edits.count(), all.edits.expected)},
                    {"All right", share(all.right, all.examples)},
                    {"Parameters", grouped(model.parameters->count())},
                    {"Trained for", duration(seconds_in(model.metadata))}});
  page.paragraph(fmt::format("Measured on {}; beam size {}.", data.name, HearOptions().beam));
  add_examples(page, model, data, options.examples);
  report::Series errors{.name = "", .x = {}, .y = {}};
  for (const auto& [length, some] : counts) {
    errors.x.push_back(static_cast<double>(length));
    errors.y.push_back(100 * some.edits.rate());
  }
  page.heading("Errors").figure(report::svg(report::Chart{.title = "By length",
                                                          .x_label = "tokens that were said",
                                                          .y_label = "token error (%)",
                                                          .series = {errors}}),
                                "");
  add_learning_curves(page, options.model.parent_path() / "log.jsonl", "loss, and token error (%)",
                      {{"loss", "loss in training"}, {"token_error", "error, validation", 100}},
                      true);
  add_card(page, model.metadata);
  write_page(page, path);
  return 0;
}

void add_training(Command& command, TrainOptions& o, const std::set<std::string>& left_out = {}) {
  command.add(training_fields(), o, "Training", left_out)
      .add(network_fields(), o, "Model", left_out)
      .add(feature_fields(), o, "Features");
}

int run(int argc, char** argv) {
  TrainOptions trained;
  ReportArguments o;
  CompareArguments compared;
  compared.train.out = "speech-compare";
  Commands commands("speech", "Writes what was said, with attention.",
                    "speech train --digits recordings && speech recognise 7_jackson_5.wav");
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
  add_uses(commands);
  using Report = ReportArguments;
  commands
      .add("report", "write an HTML page: attention above spectrograms, errors",
           "--list list.tsv --examples 5", [&] { return report(o); })
      .model(o.model)
      .add({models::text_field<Report>(
                "out", "file to write (default: report.html beside the model)", &Report::out),
            models::text_field<Report>(
                "list", "file with utterances (default: what the model was chosen by)",
                &Report::list),
            models::number_field<Report>("examples", "utterances to draw", &Report::examples, 1,
                                         1000)},
           o);
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
