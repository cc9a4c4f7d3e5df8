#include "support/training_run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <attune/autograd/backward.hpp>
#include <attune/nn/checkpoint.hpp>
#include <attune/nn/clip.hpp>
#include <attune/nn/dropout.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/threads.hpp>
#include <attune/version.hpp>

#include "support/checkpoint.hpp"
#include "support/memory_fields.hpp"
#include "support/output.hpp"
#include "support/precision.hpp"
#include "support/signals.hpp"

namespace attune {
namespace {

using Clock = std::chrono::steady_clock;

void append(report::LogFields& line, const report::LogFields& more) {
  line.insert(line.end(), more.begin(), more.end());
}

}  // namespace

StepBatch in_shards(Index shards, Index examples, const std::function<double(Index)>& count,
                    std::function<Var(Index begin, Index end)> loss) {
  const auto begin = [=](Index shard) { return shard * examples / shards; };
  StepBatch batch{.shares = std::vector<double>(static_cast<std::size_t>(shards)), .loss = {}};
  double all = 0;
  for (Index shard = 0; shard < shards; ++shard) {
    double& share = batch.shares[static_cast<std::size_t>(shard)];
    for (Index i = begin(shard); i < begin(shard + 1); ++i) share += count(i);
    all += share;
  }
  for (double& share : batch.shares) share /= all;
  batch.loss = [=, loss = std::move(loss)](Index shard) {
    return loss(begin(shard), begin(shard + 1));
  };
  return batch;
}

TrainingRun::TrainingRun(const TrainingOptions& options, const RunKind& kind, std::uint64_t seed,
                         RunDirectory& files, nn::Parameters& parameters,
                         const nn::AdamOptions& adam)
    : options_(options),
      kind_(kind),
      seed_(seed),
      files_(files),
      parameters_(parameters),
      adam_(parameters, adam),
      precision_(available(options.precision)),
      owed_(kind.starts_with_validation) {
  if (options.average > 0) average_.emplace(parameters, options.average);
}

int TrainingRun::go() {
  files_.make();
  catch_signals();
  resumes() ? resume() : files_.keep_previous();
  if (is_first_worker()) log_.emplace(files_.log().string(), resumes());
  describe();
  if (resumes() && step_ > total_steps() && !end().empty())
    say("it is beyond the {} steps that are asked for already\n", total_steps());
  check_equal_workers();
  started_ = logged_ = Clock::now();
  const std::string why = loop(), best = best_result();
  say("{} after {} steps, {}: ", why.empty() ? "stopped" : why, step_, duration(seconds()));
  say("{}\n{}\n", best.empty() ? "before a validation" : best,
      (best.empty() ? files_.last() : files_.best()).string());
  return why.empty() ? interrupted_status() : 0;
}

double TrainingRun::seconds() const {
  return workers().count() > 1 ? agreed_seconds_ : seconds_before_ + seconds_since(started_);
}

/// What depends on a machine's clock and on signals is the same for all workers.
void TrainingRun::synchronize() {
  stop_ = interrupted();
  if (workers().count() == 1) return;
  const double seconds = seconds_before_ + seconds_since(started_);
  const std::vector<std::string> all =
      workers().gather(fmt::format("{} {}", stop_ ? "stop" : "on", seconds));
  stop_ = std::ranges::any_of(all, [](const std::string& s) { return s.starts_with("stop"); });
  agreed_seconds_ = std::stod(all.front().substr(all.front().find(' ')));
}

/// Throws where one has other options, data, or another version.
void TrainingRun::check_equal_workers() const {
  if (workers().count() == 1) return;
  Safetensors file = checkpoint();
  save_progress(file);
  file.metadata["seconds"] = "";
  Texts own;
  for (const auto& [name, entry] : file.metadata) own.push_back(name + " = " + entry);
  const Texts first = each_makes([&] { return is_first_worker() ? own : Texts(); });
  const Texts differences = each_makes([&] {
    const auto [found, expected] = std::ranges::mismatch(own, first);
    if (found == own.end() || expected == first.end()) return Texts();
    return Texts{fmt::format("{} has {}, but {} has {}", workers().name(), *found,
                             workers().name(0), *expected)};
  });
  if (!differences.empty()) fail("train", differences.front());
}

double TrainingRun::mean_loss() const {
  return loss_weights_ > 0 ? loss_sum_ / loss_weights_ : shown_loss_;
}

std::string TrainingRun::machinery() const {
  const int n = workers().count();
  return fmt::format("{} parameters, {}{} thread{}, products: {}", parameters_.count(),
                     n > 1 ? fmt::format("{} workers of ", n) : "", threads(),
                     threads() == 1 ? "" : "s", products());
}

TimeLimit TrainingRun::time_limit() const {
  return most_minutes() > 0 ? TimeLimit{seconds(), 60 * most_minutes()} : TimeLimit{};
}

/// Why it ended; empty when it was interrupted. Whatever ends it, the last step is saved.
std::string TrainingRun::loop() {
  Progress progress(step_, std::max(total_steps(), step_));
  while (true) {
    synchronize();
    std::string why = end();
    if (owed_ && !settle(!why.empty(), progress)) break;
    if (why.empty() && validated_) why = end();  // which the validation may have decided
    if (!why.empty()) return why;
    if (stop_) break;
    train_step();
    progress.show(step_, status(), false, time_limit());
  }
  save();
  return {};
}

/// What a step is followed by: a validation where one is due, a checkpoint, a line of the log; in
/// this order, for a line that is missing can be written later, by a run that is resumed. The best
/// weights are saved before the checkpoint: a run that is killed in between makes the same ones
/// once more. False when it was interrupted before the validation was over: nothing has changed.
bool TrainingRun::settle(bool last, Progress& progress) {
  const bool due = validated_ || last || step_ % options_.validate_every == 0;
  if (due && !validated_) {
    try {
      each_makes([&] {
        std::optional<nn::AverageInPlace> averaged;
        if (average_) averaged.emplace(*average_);
        validate();
        return Texts();
      });
    } catch (const Interrupted&) {
      return false;
    } catch (const std::exception&) {
      // A run whose best weights could not be written makes them once more, from the step before.
      if (step_ > 0 && !saves_best_) save_after_error();
      throw;
    }
    validated_ = true;
    if (step_ > 0) save();
  }
  if (due || step_ % 50 == 0) write_log();
  if (due && step_ > 0) {
    progress.show(step_, status(), true, time_limit());
    say("{}", samples());
  }
  owed_ = false;
  return true;
}

/// Where a batch cannot be made, as a file is not there any more, what was learnt is saved.
nn::Workers::Sum TrainingRun::gradients_or_save() {
  try {
    batch_ = next_batch();
    return workers().backward(parameters_, batch_.shares, [&](Index shard) {
      const std::string stream = fmt::format("dropout {}", step_);
      // One shard draws the same numbers as versions without shards did.
      Random dropout(seed_, options_.shards == 1 ? stream : fmt::format("{} {}", stream, shard));
      const nn::Training training(dropout);
      return batch_.loss(shard);
    });
  } catch (const std::exception&) {
    save_after_error();
    throw;
  }
}

void TrainingRun::train_step() {
  const InPrecision products(precision_);
  auto [loss, gradients] = gradients_or_save();
  const auto [usable, message] = watch_.observe(loss, parameters_, gradients);
  if (!message.empty()) complain("step {}: {}\n", step_ + 1, message);
  if (usable) {
    nn::clip_by_global_norm(gradients, options_.clip);
    adam_.set_rate(rate());
    adam_.step(gradients);
    if (average_) average_->update();
    loss_sum_ += loss * batch_.weight, loss_weights_ += batch_.weight;
  }
  ++step_;
  validated_ = false, owed_ = true;
  after_step();
  // Here, for the time of a validation does not count.
  size_ += batch_.size, per_second_ = size_ / std::max(1e-9, seconds_since(logged_));
  if (watch_.skipped_in_a_row() >= options_.max_skipped) give_up();
}

/// Skipped updates have changed no weight.
void TrainingRun::give_up() const {
  save();
  fail("train", fmt::format("{} updates in a row were skipped, the last one of step {}",
                            watch_.skipped_in_a_row(), step_));
}

void TrainingRun::write_log() {
  shown_loss_ = mean_loss();
  report::LogFields line{{"step", step_}};
  append(line, place());
  if (step_ > 0) line.push_back({"loss", shown_loss_});
  append(line, {{"rate", rate()},
                {kind_.speed, std::round(per_second_)},
                {"seconds", std::round(10 * seconds()) / 10},
                {"skipped", watch_.skipped()}});
  append(line, memory_fields());
  if (validated_) append(line, measures());
  try {
    if (log_) log_->write(line);
  } catch (const Error&) {
    if (!validated_) save();  // or the step would be lost
    throw;
  }
  loss_sum_ = loss_weights_ = size_ = 0;
  logged_ = Clock::now();
}

Safetensors TrainingRun::checkpoint() const {
  Safetensors file;
  save_model(file);
  file.metadata["step"] = std::to_string(step_);
  file.metadata["seconds"] = fmt::format("{}", seconds());
  file.metadata["attune_version"] = ATTUNE_VERSION;
  file.metadata["products"] = products();
  return file;
}

void TrainingRun::save_best() {
  saves_best_ = true;
  if (is_first_worker()) save_safetensors(files_.best(), checkpoint());
  saves_best_ = false;
}

/// Everything that resuming needs.
void TrainingRun::save() const {
  if (!is_first_worker()) return;
  Safetensors file = checkpoint();
  save_progress(file);
  file.metadata["validated"] = validated_ ? "1" : "0";
  file.metadata["loss_sum"] = fmt::format("{}", loss_sum_);
  file.metadata[kind_.weights] = fmt::format("{}", loss_weights_);
  watch_.save(file.metadata);
  adam_.save(file);
  if (average_) average_->save(file);
  save_safetensors(files_.last(), file);
}

void TrainingRun::save_after_error() const {
  try {
    save();
  } catch (const std::exception&) {  // the first error is the one to tell
  }
}

void TrainingRun::resume() {
  const Safetensors file = load_safetensors(files_.last());
  const bool settled = !file.metadata.contains("validated");  // older ones were
  reading(files_.last(), [&] {
    check(file);
    nn::load_parameters(file, parameters_);
    adam_.load(file);
    if (average_) average_->load(file);
    step_ = nn::load_count(file.metadata, "step");
    seconds_before_ = seconds_in(file.metadata);
    load_progress(file);
    if (settled) return;
    const auto load = [&](const char* name, double high) {
      return nn::load_number(file.metadata, name, 0, high);
    };
    validated_ = load("validated", 1) == 1;
    loss_sum_ = load("loss_sum", std::numeric_limits<double>::infinity());
    loss_weights_ = load(kind_.weights, std::numeric_limits<double>::infinity());
    watch_.load(file.metadata);
  });
  if (end().empty()) compare_products(file.metadata);
  const bool logged = files_.cut_log(step_);
  owed_ = !logged && !settled && (step_ > 0 || kind_.starts_with_validation);
  if (!owed_) loss_sum_ = loss_weights_ = 0;  // they are in the log
}

}  // namespace attune
