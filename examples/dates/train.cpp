#include "train.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <attune/models/report/log.hpp>
#include <attune/nn/adam.hpp>
#include <attune/nn/checkpoint.hpp>
#include <attune/nn/clip.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/threads.hpp>

#include "metrics.hpp"
#include "support/output.hpp"
#include "support/precision.hpp"
#include "support/progress.hpp"
#include "support/run_directory.hpp"

namespace attune::dates {
namespace {

using Clock = std::chrono::steady_clock;

std::string text_of(double value) { return fmt::format("{}", value); }

/// The options that a checkpoint keeps beside the model's own.
struct Field {
  const char* name;
  std::string (*get)(const TrainOptions&);
  void (*set)(TrainOptions&, const std::string&);
};

const Field fields[] = {
    {"steps", [](const TrainOptions& o) { return std::to_string(o.steps); },
     [](TrainOptions& o, const std::string& s) { o.steps = std::stol(s); }},
    {"validate_every", [](const TrainOptions& o) { return std::to_string(o.validate_every); },
     [](TrainOptions& o, const std::string& s) { o.validate_every = std::stol(s); }},
    {"batch", [](const TrainOptions& o) { return std::to_string(o.batch); },
     [](TrainOptions& o, const std::string& s) { o.batch = std::stol(s); }},
    {"rate", [](const TrainOptions& o) { return text_of(o.rate); },
     [](TrainOptions& o, const std::string& s) { o.rate = std::stod(s); }},
    {"clip", [](const TrainOptions& o) { return text_of(o.clip); },
     [](TrainOptions& o, const std::string& s) { o.clip = std::stod(s); }},
    {"precision", [](const TrainOptions& o) { return o.precision; },
     [](TrainOptions& o, const std::string& s) { o.precision = s; }},
    {"locales", [](const TrainOptions& o) { return o.data.locales; },
     [](TrainOptions& o, const std::string& s) { o.data.locales = s; }},
    {"train", [](const TrainOptions& o) { return o.data.train_file; },
     [](TrainOptions& o, const std::string& s) { o.data.train_file = s; }},
    {"valid", [](const TrainOptions& o) { return o.data.valid_file; },
     [](TrainOptions& o, const std::string& s) { o.data.valid_file = s; }},
    {"held_out", [](const TrainOptions& o) { return std::to_string(o.data.held_out); },
     [](TrainOptions& o, const std::string& s) { o.data.held_out = std::stoi(s); }},
    {"seed", [](const TrainOptions& o) { return std::to_string(o.data.seed); },
     [](TrainOptions& o, const std::string& s) { o.data.seed = std::stoull(s); }},
};

std::map<std::string, std::string> to_map(const TrainOptions& options) {
  std::map<std::string, std::string> map;
  for (const Field& field : fields) map[field.name] = field.get(options);
  return map;
}

/// Constant for the first half, then down to a fiftieth along a line.
double rate_at(long step, const TrainOptions& o) {
  const double progress = static_cast<double>(step) / static_cast<double>(o.steps);
  return o.rate * std::clamp(2 - 2 * progress, 0.02, 1.0);
}

/// A training run: the model, the optimiser, and how far it has come.
class Run {
 public:
  explicit Run(const TrainOptions& options)
      : options_(options),
        data_(options.data),
        model_(options.model, text::Vocabulary(data_.source_alphabet()),
               text::Vocabulary(data_.target_alphabet()), options.data.seed),
        adam_(model_.parameters(), {.rate = options.rate}) {}

  int go() {
    catch_signals();
    const bool resumed = options_.resume && resume();
    if (!resumed) files_.keep_previous();
    log_.emplace(files_.log().string(), resumed);
    say("{}\n{} parameters, {} thread{}\n", data_.description(), model_.parameters().count(),
        threads(), threads() == 1 ? "" : "s");
    if (resumed) {
      say("resuming at step {} of {}\n", step_, std::max(step_, options_.steps));
    } else if (options_.resume) {
      say("nothing to resume in {}: starting anew\n", options_.out.string());
    }
    started_ = Clock::now();
    const bool stopped = !loop();
    say("{} after {} steps, {}: ", stopped ? "stopped" : "finished", step_, duration(seconds()));
    say("exact match {:.2f} % on {} examples\n{}\n", 100 * best_.exact_match,
        data_.validation().size(), files_.best().string());
    return stopped ? 130 : 0;
  }

 private:
  double seconds() const {
    return seconds_before_ + std::chrono::duration<double>(Clock::now() - started_).count();
  }

  /// False when it was interrupted. Whatever ends it, the last step is validated and saved.
  bool loop() {
    Progress progress(step_, options_.steps);
    if (step_ == 0) validate();  // where the curves begin
    bool stop = false;
    while (step_ < options_.steps && !stop) {
      train_step();
      progress.show(step_, status(), false);
      stop = interrupted();
      if (step_ % options_.validate_every == 0 || step_ == options_.steps || stop) {
        validate();
        progress.show(step_, status(), true);
        save();
      } else if (step_ % 50 == 0) {
        write_log({});
      }
    }
    return !stop;
  }

  void train_step() {
    const text::Batch batch = data_.batch(model_, step_, options_.batch);
    Random dropout(options_.data.seed, fmt::format("dropout {}", step_));
    const nn::Training training(dropout);
    const InPrecision products(precision_);
    const Var loss = model_.network().loss(batch);
    Gradients gradients = backward(loss);
    nn::clip_by_global_norm(gradients, options_.clip);
    adam_.set_rate(rate_at(step_, options_));
    adam_.step(gradients);
    ++step_;
    loss_sum_ += loss.item();
    ++loss_count_;
  }

  void validate() {
    shown_rate_ = examples_per_second();  // before the validation, whose time does not count
    last_ = evaluate(model_, data_.validation());
    write_log(
        {{"exact_match", last_.exact_match}, {"character_accuracy", last_.character_accuracy}});
  }

  /// Over the steps since the last line of the log; over those before it when there are none yet.
  double examples_per_second() const {
    if (step_ == rate_step_) return shown_rate_;
    return static_cast<double>((step_ - rate_step_) * options_.batch) /
           std::max(1e-9, std::chrono::duration<double>(Clock::now() - rate_time_).count());
  }

  /// Over the same steps.
  double mean_loss() const {
    return loss_count_ ? loss_sum_ / static_cast<double>(loss_count_) : shown_loss_;
  }

  std::string status() {
    return fmt::format("{:5.0f} examples/s  loss {:.4f}  exact {:6.2f} %", examples_per_second(),
                       mean_loss(), 100 * last_.exact_match);
  }

  void write_log(report::LogFields more) {
    shown_loss_ = mean_loss();
    report::LogFields line{{"step", std::int64_t{step_}}};
    if (step_ > 0) line.push_back({"loss", shown_loss_});
    line.push_back({"rate", rate_at(step_, options_)});
    line.push_back(
        {"examples_per_s", std::round(more.empty() ? examples_per_second() : shown_rate_)});
    line.push_back({"seconds", std::round(10 * seconds()) / 10});
    line.push_back({"rss_mib", std::round(10 * resident_mib()) / 10});
    line.insert(line.end(), more.begin(), more.end());
    log_->write(line);
    if (more.empty()) shown_rate_ = examples_per_second();
    loss_sum_ = 0, loss_count_ = 0;
    rate_step_ = step_, rate_time_ = Clock::now();
  }

  Safetensors checkpoint() const {
    Safetensors file;
    model_.save(file);
    file.metadata.merge(to_map(options_));
    file.metadata["step"] = std::to_string(step_);
    file.metadata["seconds"] = text_of(seconds());
    file.metadata["exact_match"] = text_of(last_.exact_match);
    file.metadata["character_accuracy"] = text_of(last_.character_accuracy);
    file.metadata["attune_version"] = ATTUNE_VERSION;
    file.metadata["compiler"] = __VERSION__;
    return file;
  }

  /// The best weights (of equals the later ones, which are surer) first, then everything that
  /// resuming needs: a run that is killed in between makes the same best weights once more.
  void save() {
    Safetensors file = checkpoint();
    if (std::pair(last_.exact_match, last_.character_accuracy) >=
        std::pair(best_.exact_match, best_.character_accuracy)) {
      best_ = {{}, last_.exact_match, last_.character_accuracy, {}};
      save_safetensors(files_.best(), file);
    }
    file.metadata["best_exact_match"] = text_of(best_.exact_match);
    file.metadata["best_character_accuracy"] = text_of(best_.character_accuracy);
    adam_.save(file);
    save_safetensors(files_.last(), file);
  }

  /// False when there is nothing to resume.
  bool resume() {
    if (!std::filesystem::exists(files_.last())) return false;
    const Safetensors file = load_safetensors(files_.last());
    reading(files_.last(), [&] {
      model_.load_weights(file);
      adam_.load(file);
      step_ = static_cast<long>(number_in(file.metadata, "step"));
      seconds_before_ = number_in(file.metadata, "seconds");
      last_.exact_match = number_in(file.metadata, "exact_match");
      last_.character_accuracy = number_in(file.metadata, "character_accuracy");
      best_.exact_match = number_in(file.metadata, "best_exact_match");
      best_.character_accuracy = number_in(file.metadata, "best_character_accuracy");
    });
    rate_step_ = step_;
    files_.cut_log(step_);
    return true;
  }

  const TrainOptions& options_;
  Data data_;
  Model model_;
  nn::Adam adam_;
  RunDirectory files_{options_.out};  // made when everything else is sound
  Precision precision_ = available(options_.precision == "bf16" ? Precision::bf16 : Precision::f32);
  std::optional<report::LogWriter> log_;
  long step_ = 0;
  Evaluation last_, best_{.exact_match = -1};
  double loss_sum_ = 0, shown_loss_ = 0;
  long loss_count_ = 0;
  double seconds_before_ = 0;
  Clock::time_point started_ = Clock::now();
  double shown_rate_ = 0;
  long rate_step_ = 0;  // where the rate is measured from
  Clock::time_point rate_time_ = Clock::now();
};

}  // namespace

void set_from(const std::map<std::string, std::string>& map, TrainOptions& options) {
  options.model = model_options_from(map);
  for (const Field& field : fields) {
    const auto at = map.find(field.name);
    if (at == map.end()) fail("checkpoint", fmt::format("its metadata has no '{}'", field.name));
    try {
      field.set(options, at->second);
    } catch (const std::logic_error&) {
      fail("checkpoint", fmt::format("'{}' is '{}', not a number", field.name, at->second));
    }
  }
}

TrainOptions stored_options(const std::filesystem::path& checkpoint) {
  const Safetensors file = load_safetensors(checkpoint);
  return reading(checkpoint, [&] {
    TrainOptions options;
    set_from(file.metadata, options);
    return options;
  });
}

void check_same(const TrainOptions& stored, const TrainOptions& given, const char* operation) {
  const auto check = [&](const std::string& name, const std::string& before,
                         const std::string& after) {
    if (before == after) return;
    fail(operation, fmt::format("{} was trained with {} = '{}', not '{}'",
                                (given.out / "last.safetensors").string(), name, before, after));
  };
  check("model", stored.model.name, given.model.name);
  auto before = to_map(stored), after = to_map(given);
  before.merge(to_map(stored.model)), after.merge(to_map(given.model));
  for (const char* free : {"steps", "validate_every"}) after[free] = before[free];
  for (const auto& [name, value] : before) check(name, value, after[name]);
}

int train(const TrainOptions& options) { return Run(options).go(); }

}  // namespace attune::dates
