#include "run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include <fmt/ranges.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <attune/autograd/anomaly.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/nn/layers.hpp>
#include <attune/tensor/buffer.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/platform.hpp>
#include <attune/tensor/threads.hpp>
#include <attune/version.hpp>

namespace attune {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr Index log_every = 50;     // steps without a validation
constexpr Index most_skipped = 10;  // updates in a row

/// Falls back to a higher precision, with a message, if this CPU computes it at least as fast.
Precision fastest(Precision asked_for) {
  const Precision precision = fastest_precision(asked_for);
  if (precision != asked_for)
    complain("matrix products are computed in {}: {} is not faster on this CPU\n",
             to_string(precision), to_string(asked_for));
  return precision;
}

}  // namespace

void Fingerprint::add_bytes(std::span<const std::byte> bytes) {
  value_ = XXH3_64bits_withSeed(bytes.data(), bytes.size(), value_);
}

Run::Run(const pairs::TrainOptions& options, RunData data, RunDirectory& files,
         nn::Parameters& parameters, std::function<void(Safetensors&)> model,
         std::vector<Saved> progress)
    : options_(options),
      data_(std::move(data)),
      files_(files),
      parameters_(parameters),
      model_(std::move(model)),
      progress_(std::move(progress)),
      precision_(fastest(options.precision)),
      exceptions_(std::uncaught_exceptions()) {
  if (options.average > 0) average_.emplace(parameters, options.average);
  for (const auto& [name, value] : checkpoint().metadata)  // file names can be any bytes
    if (text::find_bad_byte(value))
      fail("--" + name, in_quotes(value) + " is not UTF-8, which checkpoints require");
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  const std::string here =
      fmt::format("{} {} {}", now, platform::process_id(), platform::host_name());
  training_ = all_gather([&] { return Texts{Fingerprint().add(here).text()}; }).front();
  files_.make();
  catch_signals();
  options_.resumes() ? resume() : files_.keep_previous();
  if (is_first_worker()) log_.emplace(files_.log().string(), options_.resumes());
  say("{}\n", data_.text);
  check_equal_workers();  // synchronises: afterwards all workers catch signals
  const int n = workers().count();
  say("{} parameters, {}{} thread{}\n", parameters_.count(),
      n > 1 ? fmt::format("{} workers of ", n) : "", threads(), threads() == 1 ? "" : "s");
  started_ = logged_ = Clock::now();
}

Run::~Run() {
  if (std::uncaught_exceptions() <= exceptions_ || !unsaved_ || saving_) return;
  try {
    save_last();
  } catch (...) {  // the exception in flight is reported instead
  }
}

double Run::seconds() const {
  return workers().count() > 1 ? agreed_seconds_ : seconds_before_ + seconds_since(started_);
}

/// All workers agree on the elapsed time and on whether to stop.
void Run::synchronize() {
  stop_ = interrupted();
  if (workers().count() == 1) return;
  const double seconds = seconds_before_ + seconds_since(started_);
  const Numbers all = all_gather([&] { return Numbers{seconds, stop_ ? 1.0 : 0.0}; });
  agreed_seconds_ = all[0];
  for (std::size_t i = 1; i < all.size(); i += 2) stop_ = stop_ || all[i] != 0;
}

/// Throws if workers differ in options, data or version.
void Run::check_equal_workers() const {
  if (workers().count() == 1) return;
  Safetensors file = checkpoint();
  for (const Saved& one : progress_) one.save(file);
  file.metadata["seconds"] = "";
  Texts own;  // data first: if they differ, so do the vocabularies, which are long
  for (const auto& [name, input] : data_.inputs)
    own.push_back(fmt::format("{} = {} of {}", name, input.fingerprint.text(), input.from));
  for (const auto& [name, entry] : file.metadata) own.push_back(name + " = " + entry);
  require_equal("train", own);
}

double Run::mean_loss() const {
  return state_.loss_weights > 0 ? state_.loss_sum / state_.loss_weights : state_.shown_loss;
}

bool Run::goes_on(Index total) {
  total_ = total;
  if (!shown_) {
    if (options_.resumes()) {
      say("resuming at step {} of {}\n", step_, std::max(step_, total));
      if (step_ > total) say("the checkpoint is already past the requested {} steps\n", total);
    } else if (options_.resume) {
      say("no checkpoint to resume in {}: starting a new run\n", files_.path().string());
    }
    shown_.emplace(step_, std::max(total, step_));
  }
  synchronize();
  end_ = step_ >= total_ ? "finished"
         : options_.minutes > 0 && seconds() >= 60 * options_.minutes
             ? fmt::format("out of time, --minutes {}", options_.minutes)
             : "";
  if (!end_.empty() && step_ > 0 && !state_.validated) pending_ = true;
  if (!is_due() && unsaved_ && state_.line.empty() && step_ > 0 && step_ % log_every == 0)
    write_log(report::Json::object(), false);
  if (!end_.empty() && !pending_) return false;
  if (!stop_) return true;
  end_.clear();
  save_last();
  return false;
}

nn::Workers::Sum Run::backward(Index examples, const std::function<Var(Index, Index)>& loss,
                               const std::function<double(Index)>& weight) try {
  const Index shards = options_.shards;
  const auto begin = [=](Index shard) { return shard * examples / shards; };
  std::vector<double> shares(shards);
  double all = 0;
  for (Index shard = 0; shard < shards; ++shard) {
    for (Index i = begin(shard); i < begin(shard + 1); ++i) shares[shard] += weight ? weight(i) : 1;
    all += shares[shard];
  }
  for (double& share : shares) share /= all;
  const InPrecision products(precision_);
  const Cancellable cancellable;
  return workers().backward(parameters_, shares, [&](Index shard) {
    const std::string stream = fmt::format("dropout {}", step_);
    Random dropout(options_.seed, shards == 1 ? stream : fmt::format("{} {}", stream, shard));
    const nn::Training training(dropout);
    return loss(begin(shard), begin(shard + 1));
  });
} catch (const Cancelled&) {
  return {};
}

bool Run::update(nn::Adam& adam, nn::Workers::Sum sum, double rate, double tokens) {
  auto& [loss, gradients] = sum;
  if (gradients.all().empty()) return false;
  const auto [usable, message] = divergence_.observe(loss, parameters_, gradients);
  if (!message.empty()) complain("step {}: {}\n", step_ + 1, message);
  state_.rate = rate;
  if (usable) {
    nn::clip_by_global_norm(gradients, 1.0);
    adam.set_rate(rate);
    adam.step(gradients);
    if (average_) average_->update();
    state_.loss_sum += loss * tokens, state_.loss_weights += tokens;
  }
  ++step_;
  state_.validated = false, unsaved_ = true, state_.line.clear();
  // Computed here to exclude the time of validations.
  tokens_ += tokens, per_second_ = tokens_ / std::max(1e-9, seconds_since(logged_));
  if (divergence_.skipped_in_a_row() >= most_skipped) {
    save_last();  // skipped updates have changed no weight
    fail("train", "{} consecutive updates were skipped, the last one at step {}",
         divergence_.skipped_in_a_row(), step_);
  }
  show(false);
  return true;
}

void Run::show(bool line) {
  const std::string text =
      fmt::format("{:5.0f} tokens/s  loss {:.4f}{}{}", per_second_, mean_loss(),
                  state_.status.empty() ? "" : "  ", state_.status);
  if (!is_silent())
    shown_->show(step_, text, line,
                 options_.minutes > 0 ? TimeLimit{seconds(), 60 * options_.minutes} : TimeLimit{});
}

bool Run::is_due() const {
  return pending_ || (!state_.validated && step_ > 0 &&
                      (step_ % options_.validate_every == 0 || step_ >= total_));
}

void Run::with_average(const std::function<void()>& validation) try {
  all_gather([&] {
    std::optional<nn::ScopedAverage> averaged;
    if (average_) averaged.emplace(*average_);
    const Cancellable cancellable;
    validation();
    return Texts();
  });
} catch (const Interrupted&) {  // goes_on() saves
}

void Run::save_best(std::string result) {
  state_.best = std::move(result), state_.best_step = step_;
  saving_ = true;
  std::optional<nn::ScopedAverage> averaged;
  if (average_) averaged.emplace(*average_);
  if (is_first_worker()) save_safetensors(files_.best(), checkpoint());
  saving_ = false;
}

/// save_best comes before: a run that is killed in between computes the same best weights again.
/// The line of the log comes after: it is also in the checkpoint, from which resuming adds it.
void Run::save(const report::Json& measures, std::string status) {
  state_.status = std::move(status);
  state_.validated = true, pending_ = false;
  write_log(measures, true);
  show(true);
}

void Run::write_log(const report::Json& measures, bool saves) {
  state_.shown_loss = mean_loss();
  const auto mib = [](std::size_t bytes) {
    return std::round(10.0 * static_cast<double>(bytes) / (1 << 20)) / 10;
  };
  report::Json fields{{"training", training_}, {"step", step_}};
  if (data_.epoch) fields["epoch"] = data_.epoch();
  fields.update({{"loss", state_.shown_loss},
                 {"rate", state_.rate},
                 {"tokens_per_s", std::round(per_second_)},
                 {"seconds", std::round(10 * seconds()) / 10},
                 {"skipped", divergence_.skipped()},
                 {"rss_mib", mib(platform::resident_memory())},
                 {"peak_mib", mib(buffer_statistics().peak)}});  // of tensors
  fields.update(measures);
  state_.line = report::json_line(fields);
  state_.loss_sum = state_.loss_weights = tokens_ = 0;
  if (saves) save_last();
  if (log_) log_->write(fields);
  logged_ = Clock::now();
}

/// The matrix-product backends of all processes of this run. The result is portable_matmul_backend
/// (reproducible bit for bit on any CPU) only if each process used nothing else.
std::string Run::products_of_run() const {
  const std::string now = matmul_backends_used();
  if (products_before_.empty() || products_before_ == portable_matmul_backend) return now;
  const std::string list = "; " + products_before_ + "; ", item = "; " + now + "; ";
  const bool is_known = now == portable_matmul_backend || list.find(item) != list.npos;
  return products_before_ + (is_known ? "" : "; " + now);
}

/// The contents of best.safetensors.
Safetensors Run::checkpoint() const {
  Safetensors file;
  model_(file);
  file.metadata["training"] = training_;
  file.metadata["step"] = std::to_string(step_);
  file.metadata["seconds"] = fmt::format("{}", seconds());
  file.metadata["attune_version"] = ATTUNE_VERSION;
  file.metadata["products"] = products_of_run();
  for (const auto& [name, input] : data_.inputs) file.metadata[name] = input.fingerprint.text();
  return file;
}

models::OptionList fields_of(RunState& s) {
  using models::option;
  return {models::choice("validated", "", s.validated, {"0", "1"}),
          option("loss_sum", "", s.loss_sum, -inf, inf),
          option("loss_weights", "", s.loss_weights, 0, inf),
          option("shown_loss", "", s.shown_loss, -inf, inf),
          option("rate_before", "", s.rate, 0, inf),
          option("log_line", "", s.line),
          option("best_result", "", s.best),
          option("status", "", s.status),
          option("best_step", "", s.best_step, 0, inf)};
}

void Run::save_last() {
  saving_ = true;
  if (is_first_worker()) {
    Safetensors file = checkpoint();
    for (const Saved& one : progress_) one.save(file);
    file.metadata.merge(models::to_map(state_));
    divergence_.save(file);
    if (average_) average_->save(file);
    save_safetensors(files_.last(), file);
  }
  saving_ = unsaved_ = false;
}

/// True if best.safetensors exists. Throws if it does not belong to `last`. It is of a later step if
/// the run was killed before it saved `last`.
bool Run::has_best(const Metadata& last) const {
  const auto look = [&]() -> Texts {
    if (!is_first_worker() || !std::filesystem::exists(files_.best())) return {};
    Metadata best = load_safetensors(files_.best()).metadata;
    const Index step = nn::load_count(best, "step"), expected = nn::load_count(last, "best_step");
    if (best["training"] != training_ ||
        (step != expected && expected > 0 && step <= nn::load_count(last, "step")))
      fail_foreign(files_.best());
    return {"found"};
  };
  return !all_gather(look).empty();
}

void Run::resume() {
  Safetensors file = load_safetensors(files_.last());
  Metadata& state = file.metadata;
  require_equal("--resume", {"the checkpoint " + file.checksum});
  state.insert({{"training", ""}, {"best_step", "0"}});  // of old versions
  training_ = state["training"];
  const bool lost = !has_best(state) && !state["best_result"].empty();
  if (lost) {  // the next validation is the first one
    complain("{} is missing: the next validation writes it again\n", files_.best().string());
    state["best"] = state["best_result"] = state["log_line"] = "";
    state["validated"] = state["waited"] = "0";
  }
  reading(files_.last(), [&] {
    for (const auto& [name, input] : data_.inputs)
      if (nn::load_text(state, name) != input.fingerprint.text())
        fail("checkpoint", "{} differs: the checkpoint was trained on other data than {}", name,
             input.from);
    for (const Saved& one : progress_) one.load(file);
    nn::load_parameters(file, parameters_);
    if (average_) average_->load(file);
    divergence_.load(file);
    step_ = nn::load_count(state, "step");
    seconds_before_ = nn::load_number(state, "seconds", 0, 1e10);
    models::set_from(state_, state);
    std::error_code missing;
    const bool has_log = std::filesystem::file_size(files_.log(), missing) > 0 && !missing;
    if (!state_.status.empty() && !has_log)
      complain("{} is missing: the learning curves begin at step {}\n", files_.log().string(),
               step_);
  });
  files_.cut_log(step_ - (lost ? 1 : 0), state_.line, training_);
  products_before_ = nn::load_text(file.metadata, "products");
  const InPrecision products_now(precision_);
  if (products_before_ != matmul_backends_used() && products_before_ != matmul_backends()) {
    complain("matrix products were computed by {} before: results differ in their last bits\n",
             products_before_);
  }
  pending_ = !state_.validated && step_ > 0 && step_ % options_.validate_every == 0;
}

int Run::finish() {
  shown_.reset();
  const bool stopped = stop_ && end_.empty();
  const std::string end = stopped ? "stopped" : end_.empty() ? "no improvement" : end_;
  const std::filesystem::path file = state_.best.empty() ? files_.last() : files_.best();
  say("{} after {} steps, {}: {}{}\n{}products: {}\n", end, step_, duration(seconds()),
      state_.best.empty() ? "no validation yet" : state_.best,
      stopped ? "  (--resume continues)" : "",
      std::filesystem::exists(file) ? file.string() + "\n" : "", products_of_run());
  return stopped ? interrupted_status() : 0;
}

bool Best::improves(const Run& run, std::vector<double> values) {
  for (double& value : values)
    if (!std::isfinite(value)) value = std::numeric_limits<double>::lowest();
  const bool counts = values_.empty() || !run.diverges(), better = values > values_,
             as_good = values == values_ && values.front() != 0;
  waited_ = better && counts ? 0 : waited_ + 1;
  if (!counts || !(better || as_good)) return false;
  values_ = std::move(values);
  return true;
}

void Best::save(Safetensors& file) const {
  file.metadata["best"] = fmt::format("{}", fmt::join(values_, " "));
  file.metadata["waited"] = std::to_string(waited_);
}

void Best::load(const Safetensors& file) {
  values_.clear();
  std::istringstream parts(nn::load_text(file.metadata, "best"));
  for (std::string part; std::getline(parts, part, ' ');)
    values_.push_back(nn::load_number({{"best", part}}, "best", -inf, inf));
  waited_ = nn::load_count(file.metadata, "waited");
}

Epochs::Epochs(std::function<Batches(Index)> batches)
    : make_(std::move(batches)), batches_(make_(0)) {}

const std::vector<std::uint32_t>& Epochs::next() {
  if (made_ != epoch_) batches_ = make_(made_ = epoch_);
  const auto& batch = batches_.at(position_);
  if (++position_ == size()) position_ = 0, ++epoch_;
  return batch;
}

void Epochs::take_back() {
  if (position_ == 0) --epoch_, position_ = size();
  --position_;
}

void Epochs::save(Safetensors& file) const {
  file.metadata["epoch"] = std::to_string(epoch_);
  file.metadata["position"] = std::to_string(position_);
}

void Epochs::load(const Safetensors& file) {
  epoch_ = nn::load_count(file.metadata, "epoch");
  position_ = nn::load_count(file.metadata, "position");
  if (made_ != epoch_) batches_ = make_(made_ = epoch_);
  if (position_ >= size())
    throw Error(
        fmt::format("position is {}, expected less than the {} batches", position_, size()));
}

}  // namespace attune
