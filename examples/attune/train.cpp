#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <set>

#include <errno.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/nn/optimisers.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>
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
          ? nn::Schedule(nn::LinearDecay{.rate = o.rate,  // for half of the steps, then down to 2 %
                                         .last = o.rate / 50,
                                         .steps = total,
                                         .after = total / 2})
          : nn::Schedule(nn::ConstantRate{o.rate});
  if (o.warm_up == 0) return after;
  return nn::WarmUp{.steps = o.warm_up, .next = after};
}

/// By --steps, by --epochs, or what suits the number of batches in an epoch.
Index total_steps(const TrainOptions& o, Index batches) {
  if (o.steps > 0) return o.steps;
  return o.epochs > 0 ? o.epochs * batches : std::max<Index>(8000, 12 * batches);
}

/// What the best weights are chosen by: higher is better.
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

/// Two pairs, always the same: from the middle of the text's halves.
void say_examples(const TestPairs& pairs, const Evaluation& result) {
  for (const std::size_t i : std::set{pairs.size() / 4, 3 * pairs.size() / 4})
    say("  source      {}\n  target      {}\n  prediction  {}\n", pairs.lines[i],
        pairs.references[i].front(), result.written[i].text);
}

/// The metric that fits, where that is left open; what BLEU measures are sentences.
TrainOptions with_metric(TrainOptions o) {
  if (o.metric == Metric::automatic) o.metric = o.sentences ? Metric::bleu : Metric::exact;
  if (o.metric != Metric::loss) o.sentences = o.metric == Metric::bleu;
  return o;
}

/// One training: batch, loss, backward, clip, step, validate, save.
int train_alone(const TrainOptions& given, const std::optional<Survey>& surveyed,
                RunDirectory& files) {
  const TrainOptions o = with_metric(given);
  const std::filesystem::path last = files.last();
  if (files.resumes()) {
    check_same(stored_options(last), o);  // now that nobody can change them
    reading(last, [&] { check_files(o); });
  }
  if (!o.alignments.empty() && !models::model_kind(o.model.name).attends)
    fail("--alignments", "the model has no attention");
  const Survey survey = surveyed ? *surveyed : survey_of(o);
  // A resumed run has its own tokenizers and vocabularies. Loading throws where the checkpoint's
  // sizes and tensors disagree, before memory of these sizes is taken.
  Codecs codecs = files.resumes() ? Model::load(last).codecs : make_codecs(o, survey);
  models::AnyModelOptions own = o.model;
  if (models::find(models::options_of(own), "tied")->get() == "all" &&
      to_json(codecs.source.vocabulary) != to_json(codecs.target.vocabulary))
    fail("--tied", "all takes one vocabulary for both sides, as --joint yes makes it");
  const TestPairs valid = validation_pairs(o, survey, codecs);
  TrainingPairs pairs(o, survey, codecs);
  Model model = Model::initial(o.model, std::move(codecs), pairs.longest_target(), o.seed);
  nn::Adam adam(*model.parameters, {.rate = o.rate,
                                    .beta2 = o.beta2,
                                    .weight_decay = o.weight_decay,
                                    .decays = nn::matrices_only});
  Epochs epochs([&](Index epoch) { return pairs.batches(epoch); });
  nn::HalveOnPlateau plateau(
      {.rate = o.rate, .patience = std::max<Index>(0, o.halve - 1), .higher_is_better = true});
  const Saved saved_plateau([&](Safetensors& file) { plateau.save(file.metadata); },
                            [&](const Safetensors& file) { plateau.load(file.metadata); });
  Best best;
  const Index steps = total_steps(o, epochs.size());
  const nn::Schedule schedule = schedule_of(o, steps);
  const bool by_epochs = o.steps == 0 && o.epochs > 0;
  // That of `evaluate`, whose BLEU is then the same.
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
          files, *model.parameters, save_model, {adam, epochs, saved_plateau, best});
  while (run.goes_on(by_epochs && epochs.epoch() >= o.epochs ? run.step() : steps) &&
         best.waited() < o.patience) {
    if (run.trains()) {
      const std::vector<std::uint32_t>& chosen = epochs.next();
      const auto tokens = [&](Index i) {
        return pairs.target_tokens(chosen[static_cast<std::size_t>(i)]);
      };
      nn::Workers::Sum sum = run.backward(
          std::ssize(chosen),
          [&](Index begin, Index end) {
            const auto some = std::span(chosen).subspan(static_cast<std::size_t>(begin),
                                                        static_cast<std::size_t>(end - begin));
            const text::Batch batch = pairs.batch(some);
            return model.model.loss(batch, pairs.guide(some, batch));
          },
          tokens);
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
    if (o.halve > 0) plateau.observe(values.front());
    run.save(log_of(*result), text);
    if (o.metric != Metric::exact) say_examples(valid, *result);
  }
  return run.finish();
}

/// Percent of the pairs that they were chosen by with exactly their target, or BLEU.
double measured(const TrainOptions& o) {
  UseOptions how;
  how.trained = o;
  const Measured m(how, model_files({&o.out, 1}));
  return m.sentences() ? m.result.bleu : 100 * m.result.exact_match();
}

/// Writes the report, and says what to do with what was trained.
void finish(const TrainOptions& o) {
  const std::filesystem::path& out = o.out;
  UseOptions how;
  how.trained = o;
  how.models = {out}, how.out = out / "report.html";
  report(how);
  using examples::in_shell;
  say("Try it: {} predict{}    and type what it should read\n", in_shell(program_invocation_name),
      out == TrainOptions().out ? "" : fmt::format(" --model {}", in_shell(out.string())));
}

/// The directory of a run with a seed.
std::filesystem::path run_path(const TrainOptions& o, std::uint64_t seed) {
  return o.out / fmt::format("seed-{}", seed);
}

/// Trains with one seed, or continues, as far as that is not done yet, in this process. What it
/// prints goes to progress.txt in its directory. Throws when the directory has a run with another
/// number of steps, unless `resume` asks for more of them.
int train_or_continue(TrainOptions o, const std::optional<Survey>& survey) {
  const bool may_be_longer = o.resume;
  o.resume = std::filesystem::exists(o.last());
  const Index steps = o.resume ? stored_options(o.last()).steps : o.steps;
  const bool longer = steps > 0 && steps < o.steps;  // 0 is what the data ask for
  if (steps != o.steps && !(longer && may_be_longer))
    fail("--out",
         fmt::format("{} was trained for {} steps, not {}", o.last().string(), steps, o.steps));
  RunDirectory files(o.out, o.resume);
  files.make();  // nobody else writes there from now on
  if (!std::freopen((o.out / "progress.txt").c_str(), "w", stdout))
    fail(o.out.string(), "progress.txt cannot be written");
  const int status = train_alone(o, survey, files);
  flush_output();  // the process ends without
  return status;
}

/// "0.352 ± 0.004": mean and standard deviation.
std::string spread(const std::vector<double>& values) {
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  return fmt::format("{:.2f} ± {:.2f}", mean,
                     std::sqrt(squares / static_cast<double>(values.size() - 1)));
}

/// One training for each seed, in a directory and a process of its own, on one thread.
int train_several(const TrainOptions& o, const std::optional<Survey>& survey) {
  const Index jobs = std::min<Index>(o.seeds, o.jobs > 0 ? o.jobs : threads());
  const bool sentences = with_metric(o).metric != Metric::exact;
  make_directories(o.out);
  const DirectoryLock lock(o.out);
  say("{} trainings, {} at a time; what each one prints is in {}\n", o.seeds, jobs,
      (o.out / "seed-*" / "progress.txt").string());
  const auto run_of = [&](std::size_t i) {
    TrainOptions one = o;
    one.seeds = 1, one.seed = o.seed + i, one.out = run_path(o, one.seed);
    return one;
  };
  const auto begin = std::chrono::steady_clock::now();
  Index ended = 0;
  const int status = in_processes(
      static_cast<std::size_t>(o.seeds), static_cast<int>(jobs),
      [&](std::size_t i) {
        set_threads(1);
        return reading(run_of(i).out, [&] { return train_or_continue(run_of(i), survey); });
      },
      [&](std::size_t i) {
        ++ended;
        say("{:>3}/{}  seed-{:<8}  {} left\n", ended, o.seeds, o.seed + i,
            duration(seconds_since(begin) / static_cast<double>(ended) *
                     static_cast<double>(o.seeds - ended)));
      });
  if (status != 0) return status;
  std::vector<double> measures;
  for (std::size_t i = 0; i < static_cast<std::size_t>(o.seeds); ++i)
    measures.push_back(measured(run_of(i)));
  say("{}, each of the {} models: {}; {}\n", sentences ? "BLEU" : "exact match, %", o.seeds,
      fmt::format("{:.2f}", fmt::join(measures, ", ")), spread(measures));
  const double together = measured(o);
  say("the ensemble: {}\n", sentences ? fmt::format("BLEU {:.2f}", together)
                                      : fmt::format("exact match {:.2f} % (word error {:.2f} %)",
                                                    together, 100 - together));
  finish(o);
  return 0;
}

/// Throws where a model in the directory would be taken for one of the runs', or theirs for it, and
/// where the report would replace another file.
void check_directory(const TrainOptions& o) {
  std::vector<std::filesystem::path> others = models_in(o.out);
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(o.seeds); ++i)
    std::erase(others, (o.seeds == 1 ? o.out : run_path(o, o.seed + i)) / best_file);
  if (!others.empty())
    fail("--out", fmt::format("{} has another training, another directory was expected",
                              others.front().parent_path().string()));
  if (std::filesystem::is_directory(o.out)) page_path("", o.out);
}

}  // namespace

void check_files(const TrainOptions& o) {
  if (o.train.empty()) {
    fail("--train", o.resume
                        ? o.last().string() + " is not there to resume from, so pairs were expected"
                        : "pairs were expected: a TSV (source TAB target), or two text files");
  }
  std::vector<std::filesystem::path> files = {o.train, o.train_target, o.valid, o.valid_target};
  const std::size_t read_again = files.size();
  files.push_back(o.alignments);
  // A resumed run has its own tokenizers and vocabularies.
  if (!o.resumes())
    files.insert(files.end(),
                 {o.source_vocabulary, o.target_vocabulary, o.source_pieces, o.target_pieces});
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (i < read_again || o.seeds > 1) require_regular(files[i]);
    std::error_code none;  // what a pipe with a name gives is lost when it is closed
    if (!files[i].empty() && !std::filesystem::is_fifo(files[i], none))
      text::LineReader{files[i]};  // throws where it cannot be opened
  }
  if (!o.valid.empty()) check_pairs(o.valid_files());
}

int train(const TrainOptions& o, const std::optional<Survey>& survey) {
  check_directory(o);
  if (o.seeds > 1) return train_several(o, survey);
  RunDirectory files(o.out, o.resume);
  const int status = train_alone(o, survey, files);
  // All workers take part in the report, but those of other machines may not see the directory.
  const Texts seen = each_makes(
      [&] { return std::filesystem::exists(o.out / best_file) ? Texts{best_file} : Texts(); });
  if (status == 0 && std::ssize(seen) == workers().count()) finish(o);
  return status;
}

}  // namespace attune::pairs
