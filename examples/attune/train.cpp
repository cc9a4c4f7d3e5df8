#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include <fmt/ranges.h>

#include <attune/nn/schedules.hpp>
#include <attune/tensor/file.hpp>
#include <attune/tensor/reduce.hpp>
#include <attune/tensor/threads.hpp>

#include "commands.hpp"
#include "evaluation.hpp"
#include "output.hpp"
#include "processes.hpp"
#include "report.hpp"
#include "run.hpp"
#include "run_directory.hpp"

namespace attune::pairs {
namespace {

nn::Schedule schedule_of(const TrainOptions& o, Index total) {
  if (o.schedule == RateSchedule::inverse_sqrt)
    return nn::InverseSquareRoot{.rate = o.rate, .warm_up = std::max<Index>(1, o.warm_up)};
  const nn::Schedule after =
      o.schedule == RateSchedule::late_decay
          ? nn::Schedule(nn::LinearDecay{
                .rate = o.rate, .last = o.rate / 50, .steps = total, .after = total / 2})
          : nn::Schedule([rate = o.rate](std::int64_t) { return rate; });
  if (o.warm_up == 0) return after;
  return nn::WarmUp{.steps = o.warm_up, .next = after};
}

Index total_steps(const TrainOptions& o, Index batches) {
  if (o.steps > 0) return o.steps;
  return o.epochs > 0 ? o.epochs * batches : std::max<Index>(8000, 12 * batches);
}

/// The values that select the best weights, for Best::improves.
std::vector<double> values_of(const Evaluation& result, Metric metric) {
  if (metric == Metric::bleu) return {result.bleu};
  if (metric == Metric::loss) return {-result.loss};
  const Counts counts = result.total();
  return {static_cast<double>(counts.right), -static_cast<double>(counts.edits.count())};
}

report::Json log_of(const Evaluation& result) {
  return {{"valid_loss", result.loss},
          {"valid_perplexity", result.perplexity()},
          {"exact_match", result.exact_match()},
          {"token_error", result.token_error()},
          {"bleu", result.bleu},
          {"chrf", result.chrf}};
}

/// Prints the predictions for two fixed pairs, at 1/4 and 3/4 of the text.
void say_examples(const TestPairs& pairs, const Evaluation& result) {
  for (const std::size_t i : std::set{pairs.size() / 4, 3 * pairs.size() / 4})
    say("  source      {}\n  target      {}\n  prediction  {}\n", pairs.lines[i],
        pairs.references[i].front(), result.written[i].text);
}

/// Resolves Metric::automatic. The metrics bleu and exact also determine `sentences`.
TrainOptions with_metric(TrainOptions o) {
  if (o.metric == Metric::automatic) o.metric = o.sentences ? Metric::bleu : Metric::exact;
  if (o.metric != Metric::loss) o.sentences = o.metric == Metric::bleu;
  return o;
}

/// Trains one model: batch, loss, backward, clip, step, validate, save.
int train_alone(const TrainOptions& given, const std::optional<Survey>& surveyed,
                RunDirectory& files) {
  const TrainOptions o = with_metric(given);
  const std::filesystem::path last = files.last();
  if (o.resumes()) {
    check_same(stored_options(last), o);  // after locking, so that no other process changes them
    reading(last, [&] { check_files(o); });
  }
  if (!o.alignments.empty() && !models::model_kind(o.model.name).attends)
    fail("--alignments", "the model has no attention");
  const Survey survey = surveyed ? *surveyed : survey_of(o);
  // A resumed run, and one with --from, takes tokenizers and vocabularies from a checkpoint. Loading
  // throws if the checkpoint's sizes and tensors disagree, before memory of these sizes is allocated.
  std::optional<Model> before;
  const std::filesystem::path start = o.resumes()      ? last
                                      : o.from.empty() ? ""
                                                       : model_file({&o.from, 1});
  if (!start.empty()) before = Model::load(start);
  if (before) require_equal("--from", {"the checksum " + before->checksum});
  Codecs codecs = before ? before->codecs : make_codecs(o, survey);
  const bool ties_all =
      std::visit([](const auto& own) { return own.tied == models::Tied::all; }, o.model.own);
  if (ties_all && codecs.source.vocabulary != codecs.target.vocabulary)
    fail("--tied", "all requires the same vocabulary for both sides (--joint yes)");
  const TestPairs valid = validation_pairs(o, survey, codecs);
  TrainingPairs pairs(o, survey, codecs);
  const Index longest = std::max(pairs.longest_target(), before ? before->longest : 0);
  Model model = Model::initial(o.model, std::move(codecs), longest, o.seed);
  if (before) nn::load_parameters(load_safetensors(start), *model.parameters);
  if (o.shortlist) model.shortlist = pairs.shortlist(model.codecs);
  nn::Adam adam(*model.parameters, {.rate = o.rate,
                                    .beta2 = o.beta2,
                                    .weight_decay = o.weight_decay,
                                    .decays = nn::matrices_only});
  Epochs epochs([&](Index epoch) { return pairs.batches(epoch); });
  nn::HalveOnPlateau plateau(
      {.rate = o.rate, .patience = std::max<Index>(0, o.halve - 1), .higher_is_better = true});
  Best best;
  const Index steps = total_steps(o, epochs.size());
  const nn::Schedule schedule = schedule_of(o, steps);
  const bool by_epochs = o.steps == 0 && o.epochs > 0;
  // The same search as in `evaluate`, so that BLEU is the same.
  const models::SearchOptions search{
      .beam = o.beam, .max_length = model.most_tokens(), .length_penalty = o.sentences ? 1.0 : 0.0};
  const auto save_model = [&](Safetensors& file) {
    model.save(file);
    file.metadata.merge(to_metadata(o));
  };
  const std::string data = fmt::format(
      "{} pairs to train on, {} to validate on{}\nsource: {}; target: {}", pairs.size(),
      valid.size(), valid.left_out > 0 ? fmt::format(" ({} too long)", valid.left_out) : "",
      kinds_of(model.source()), kinds_of(model.target()));
  const std::string from = o.alignments.empty() ? "" : ", " + o.alignments;
  Run run(o,
          {.text = data,
           .inputs = {{"training_data", {o.train_files().name() + from, pairs.fingerprint()}},
                      {"validation_data", {valid.name, valid.fingerprint()}}},
           .epoch = [&] { return epochs.epoch(); }},
          files, *model.parameters, save_model,
          {saved(adam), saved(epochs), saved(plateau), saved(best)});
  const auto last_step = [&] {  // with --batch-tokens, epochs differ in their number of batches
    if (!by_epochs) return steps;
    return epochs.epoch() < o.epochs ? std::max(steps, run.step() + 1) : run.step();
  };
  while (run.goes_on(last_step()) && best.waited() < o.patience) {
    if (run.trains()) {
      const std::vector<std::uint32_t>& chosen = epochs.next();
      const auto tokens = [&](Index i) { return pairs.target_tokens(chosen[i]); };
      const auto loss = [&](Index begin, Index end) {
        const auto some = std::span(chosen).subspan(begin, end - begin);
        const text::Batch batch = pairs.batch(some);
        return model.model.loss(batch, pairs.guide(some, batch));
      };
      nn::Workers::Sum sum{};
      try {
        sum = run.backward(std::ssize(chosen), loss, tokens);
      } catch (...) {
        epochs.take_back();  // ~Run saves: the resumed run repeats the batch
        throw;
      }
      const double rate = schedule(run.step()) * plateau.rate() / o.rate;
      double size = 0;
      for (const std::uint32_t pair : chosen) size += pairs.target_tokens(pair);
      if (!run.update(adam, std::move(sum), rate, size)) epochs.take_back();
    }
    const auto result = run.validate([&] { return evaluate({&model, 1}, valid, search, o.bleu); });
    if (!result) continue;
    const std::vector<double> values = values_of(*result, o.metric);
    const std::string text = summary(*result, o.metric != Metric::exact);
    if (best.improves(run, values))
      run.save_best(fmt::format("{} on {} pairs (beam {})", text, valid.size(), o.beam));
    // Improvements as counted by `best`, which compares more than one value.
    if (o.halve > 0) plateau.observe(std::max(0.0, plateau.best()) + (best.waited() == 0));
    run.save(log_of(*result), text);
    if (o.metric != Metric::exact) say_examples(valid, *result);
  }
  return run.finish();
}

/// BLEU, or percentage of exact matches, on the validation pairs.
double measured(const TrainOptions& o) {
  UseOptions how;
  how.trained = o;
  const Measured m(how, model_files({&o.out, 1}));
  return m.sentences() ? m.result.bleu : 100 * m.result.exact_match();
}

/// Writes the report, and prints how to use the model.
void finish(const TrainOptions& o) {
  const std::filesystem::path& out = o.out;
  UseOptions how;
  how.trained = o;
  how.models = {out}, how.out = out / report_file;
  using examples::in_shell;
  try {
    report(how);
  } catch (const Interrupted&) {
    complain("{} was not written; 'attune report --model {}' writes it\n", how.out.string(),
             in_shell(out.string()));
    throw;
  }
  say("Try it: {} predict{}    and type a source\n", examples::program_in_shell(),
      out == TrainOptions().out ? "" : fmt::format(" --model {}", in_shell(out.string())));
}

std::filesystem::path run_path(const TrainOptions& o, std::uint64_t seed) {
  return o.out / fmt::format("seed-{}", seed);
}

/// Trains with one seed in this process, resuming from an existing checkpoint. Redirects standard
/// output to progress.txt in the directory. Throws if the directory has a run with another number
/// of steps or epochs, unless `resume` is set and the new number is larger.
int train_or_continue(TrainOptions o, const std::optional<Survey>& survey) {
  const bool may_be_longer = o.resume;
  o.resume = std::filesystem::exists(o.last());
  const TrainOptions before = o.resume ? stored_options(o.last()) : o;
  const auto duration_of = [](const TrainOptions& t) -> std::string {
    if (t.steps > 0) return fmt::format("{} steps", t.steps);
    return t.epochs > 0 ? fmt::format("{} epochs", t.epochs) : "the default number of steps";
  };
  const bool longer = before.steps > 0
                          ? before.steps < o.steps
                          : before.epochs > 0 && o.steps == 0 && before.epochs < o.epochs;
  if (duration_of(before) != duration_of(o) && !(longer && may_be_longer))
    fail("--out", "{} was trained for {}, not {}", o.last().string(), duration_of(before),
         duration_of(o));
  RunDirectory files(o.out);
  files.make();  // locks it
  if (!std::freopen((o.out / "progress.txt").string().c_str(), "a", stdout))
    fail(o.out.string(), "progress.txt cannot be written");
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // freopen restores the default
  const int status = train_alone(o, survey, files);
  flush_output();  // the process ends with _exit, which does not flush
  return status;
}

/// Mean ± sample standard deviation: "0.35 ± 0.04".
std::string spread(const std::vector<double>& values) {
  const Tensor x = Tensor::of({std::ssize(values)}, std::span(values)), centre = mean(x);
  return fmt::format("{:.2f} ± {:.2f}", centre.item(),
                     norm(x - centre).item() / std::sqrt(values.size() - 1));
}

/// One training per seed, each in its own directory and child process. They share the threads.
int train_several(const TrainOptions& o, const std::optional<Survey>& survey) {
  const int cpus = threads();
  const Index jobs = std::min<Index>(o.seeds, o.jobs > 0 ? o.jobs : cpus);
  const bool sentences = with_metric(o).sentences;
  make_directories(o.out);
  const DirectoryLock lock(o.out);
  say("{} trainings, {} at a time; their output is in {}\n", o.seeds, jobs,
      (o.out / "seed-*" / "progress.txt").string());
  const auto run_of = [&](std::size_t i) {
    TrainOptions one = o;
    one.seeds = 1, one.seed = o.seed + i, one.out = run_path(o, one.seed);
    return one;
  };
  Progress progress(0, o.seeds, "training");
  Index ended = 0;
  set_threads(1);  // ends the threads of this process, as fork requires
  const int status = in_processes(
      o.seeds, jobs,
      [&](std::size_t i) {
        set_threads(std::max(1, cpus / static_cast<int>(jobs)));
        return reading(run_of(i).out, [&] { return train_or_continue(run_of(i), survey); });
      },
      [&](std::size_t i) {
        progress.show(++ended, fmt::format("seed-{}", o.seed + i), /*line=*/true);
      });
  if (status != 0) return status;
  set_threads(cpus);
  std::vector<double> measures;
  for (Index i = 0; i < o.seeds; ++i) measures.push_back(measured(run_of(i)));
  say("{}, each of the {} models: {}; {}\n", sentences ? "BLEU" : "exact match, %", o.seeds,
      fmt::format("{:.2f}", fmt::join(measures, ", ")), spread(measures));
  const double together = measured(o);
  say("the ensemble: {}\n", sentences ? fmt::format("BLEU {:.2f}", together)
                                      : fmt::format("exact match {:.2f} % (word error {:.2f} %)",
                                                    together, 100 - together));
  finish(o);
  return 0;
}

/// Throws if the directory contains a model of another training, or if the report would replace a
/// file that is not an HTML page.
void check_directory(const TrainOptions& o) {
  std::vector<std::filesystem::path> others = models_in(o.out);
  for (Index i = 0; i < o.seeds; ++i)
    std::erase(others, (o.seeds == 1 ? o.out : run_path(o, o.seed + i)) / best_file);
  if (!others.empty())
    fail("--out", "{} contains another training, expected another directory",
         others.front().parent_path().string());
  if (std::filesystem::is_directory(o.out)) require_page(o.out / report_file);
}

}  // namespace

void check_files(const TrainOptions& o) {
  if (o.train.empty()) {
    fail("train", o.resume ? "no pairs, and there is no " + o.last().string() + " to resume"
                           : "no pairs, expected attune train PAIRS.tsv (source TAB target on each "
                             "line) or attune train SOURCES TARGETS (two text files)");
  }
  std::vector<std::filesystem::path> files = {o.train, o.train_target, o.valid, o.valid_target};
  const std::size_t read_again = files.size();
  files.push_back(o.alignments);
  // A resumed run, and one with --from, takes tokenizers and vocabularies from a checkpoint.
  if (!o.resumes() && o.from.empty())
    files.insert(files.end(),
                 {o.source_vocabulary, o.target_vocabulary, o.source_pieces, o.target_pieces});
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (i < read_again || o.seeds > 1) require_regular(files[i]);
    std::error_code none;  // opening and closing a named pipe would lose its data
    if (!files[i].empty() && !std::filesystem::is_fifo(files[i], none))
      text::LineReader{files[i]};  // throws if it cannot be read
  }
  if (!o.valid.empty()) check_pairs(o.valid_files());
}

TrainOptions options_to_start_from(const TrainOptions& given) {
  const std::filesystem::path file = model_file({&given.from, 1});
  std::error_code none;
  if (std::filesystem::equivalent(absolute(file).parent_path(), given.out, none))
    fail("--out", "{} contains the model of --from, expected another directory",
         given.out.string());
  const Model model = Model::load(file);
  const TrainOptions fresh = train_options(model.of_sentences());
  TrainOptions o = fresh;
  if (!model.entry("train").empty())
    o = reading(file, [&] { return train_options_from(model.metadata); });
  o.model = model.model.options(), o.nfc = model.nfc();
  o.train = o.train_target = o.valid = o.valid_target = "";
  o.alignments = "", o.shortlist = false;
  o.steps = 0, o.epochs = fresh.epochs, o.minutes = 0;
  o.rate /= 4, o.schedule = RateSchedule::constant, o.warm_up = 0;
  return o;
}

int train(const TrainOptions& o, const std::optional<Survey>& survey) {
  check_directory(o);
  if (o.seeds > 1) return train_several(o, survey);
  RunDirectory files(o.out);
  const int status = train_alone(o, survey, files);
  // All workers take part in the report, but those on other machines may not see the directory.
  const Texts seen = all_gather(
      [&] { return std::filesystem::exists(o.out / best_file) ? Texts{best_file} : Texts(); });
  if (status == 0 && std::ssize(seen) == workers().count()) finish(o);
  return status;
}

}  // namespace attune::pairs
