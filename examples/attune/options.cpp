#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/tensor/check.hpp>

#include "support/checkpoint.hpp"

namespace attune::pairs {
namespace {

constexpr double many = 1e9;

/// Rows of a table: each method makes one.
template <class Options>
struct Rows {
  std::vector<Option<Options>> all;
  const char* heading = "";
  unsigned commands = ~0u;

  Option<Options>& add(models::OptionField<Options> field, const char* type = nullptr) {
    if (type) field.type = type;
    all.push_back({std::move(field), heading});
    all.back().commands = commands;
    return all.back();
  }
  auto& number(const char* name, const char* help, auto member, double low, double high) {
    return add(models::number_field<Options>(name, help, member, low, high));
  }
  auto& file(const char* name, const char* help, auto member) {
    return add(models::text_field<Options>(name, help, member), "FILE");
  }
  auto& text(const char* name, const char* help, auto member, const char* type = "TEXT") {
    return add(models::text_field<Options>(name, help, member), type);
  }
  template <class T>
  auto& choice(const char* name, const char* help, auto member,
               std::vector<std::pair<T, std::string>> names) {
    return add(models::choice_field<Options, T>(name, help, member, std::move(names)));
  }
  auto& flag(const char* name, const char* help, auto member) {
    return add(models::flag_field<Options, bool>(name, help, member, false, true));
  }
  auto& swap() {
    return add(models::flag_field<Options, text::Columns>(
        "swap", "the target is the first column of a TSV", &Options::columns,
        text::Columns::source_first, text::Columns::target_first));
  }
  /// Values are collected.
  template <class T>
  auto& list(const char* name, const char* help, std::vector<T> Options::*member,
             const char* type) {
    const auto get = [](const Options&) { return std::string(); };
    const auto set = [member](Options& o, const std::string& text) {
      (o.*member).emplace_back(text);
    };
    auto& row = add({name, help, {}, type, get, set});
    row.is_list = true;
    return row;
  }
};

template <class Options>
void has_effect_with(Option<Options>& row, const char* needs,
                     std::function<bool(const Options&)> has_effect) {
  row.needs = needs, row.has_effect = std::move(has_effect);
}

bool learns_subwords(const TrainOptions& o) {
  return std::ranges::any_of(std::array{o.tokens, o.source_tokens, o.target_tokens}, [](Tokens t) {
    return t == Tokens::bpe || t == Tokens::unigram || t == Tokens::automatic;
  });
}

void add_tokens(Rows<TrainOptions>& rows) {
  using O = TrainOptions;
  const std::vector<std::pair<Tokens, std::string>> kinds = {{Tokens::automatic, "auto"},
                                                             {Tokens::words, "words"},
                                                             {Tokens::characters, "characters"},
                                                             {Tokens::decomposed, "decomposed"},
                                                             {Tokens::bpe, "bpe"},
                                                             {Tokens::unigram, "unigram"}};
  rows.choice<Tokens>("tokens",
                      "what lines are cut into: words between blanks, characters (decomposed: "
                      "accents and the letters of Hangul syllables are some), or subwords that are "
                      "learnt, bpe or unigram; auto looks at the data and says what it chose",
                      &O::tokens, kinds);
  rows.choice<Tokens>("source-tokens", "the same for the source alone", &O::source_tokens, kinds);
  rows.choice<Tokens>("target-tokens", "the same for the target alone", &O::target_tokens, kinds);
  const char* subwords = "tokens bpe or unigram";
  has_effect_with<O>(
      rows.number("pieces", "subwords to learn, for each side or for both", &O::pieces, 10, many),
      subwords, learns_subwords);
  auto& learn =
      rows.number("learn-from", "learn subwords from at most this many lines (a random sample)",
                  &O::learn_from, 1, many);
  has_effect_with<O>(learn, subwords, learns_subwords);
  learn.rare = true;
  const std::size_t begin = rows.all.size();
  rows.file("source-pieces", "SentencePiece model for the source, or for both sides",
            &O::source_pieces);
  rows.file("target-pieces", "SentencePiece model for the target", &O::target_pieces);
  rows.file("source-vocabulary", "tokens of the source, or of both sides, one on each line",
            &O::source_vocabulary);
  rows.file("target-vocabulary", "tokens of the target", &O::target_vocabulary);
  rows.choice<Switch>("joint", "one set of subwords and one vocabulary for both sides", &O::joint,
                      {{Switch::no, "no"}, {Switch::yes, "yes"}});
  rows.choice<Switch>("truecase",
                      "give words at the beginning of sentences, and lines in capitals, the case "
                      "they mostly have",
                      &O::truecase, {{Switch::no, "no"}, {Switch::yes, "yes"}});
  rows.number("min-count", "replace tokens that are rarer than this by <unk>", &O::minimum_count, 1,
              many);
  rows.number("vocabulary", "largest vocabulary of a side; 0: no limit", &O::maximum_vocabulary, 0,
              many);
  rows.file("alignments",
            "links between the words of each pair, as 0-0 1-2 (source first): attention learns "
            "from them",
            &O::alignments);
  for (std::size_t i = begin; i < rows.all.size(); ++i) rows.all[i].rare = true;
}

void add_data(Rows<TrainOptions>& rows) {
  using O = TrainOptions;
  rows.heading = "Data";
  rows.file("train", "pairs to train on: a TSV (source TAB target), or a text file of sources",
            &O::train);
  rows.file("train-target", "text file of targets, line by line", &O::train_target);
  rows.file("valid", "pairs to choose the best weights by (default: some are held out)", &O::valid);
  rows.file("valid-target", "their targets, where these are in another file", &O::valid_target);
  rows.swap();
  rows.number("held-out",
              "hold out at most this many pairs, and at most a tenth, where no --valid is given",
              &O::held_out, 1, many);
  add_tokens(rows);
  rows.number("max-tokens",
              "exclude pairs with more tokens on a side (default: 5000, of sentences 100)",
              &O::longest, 1, many);
}

void add_training(Rows<TrainOptions>& rows) {
  using O = TrainOptions;
  rows.heading = "Training";
  rows.number("epochs", "passes over the data (0: by --steps; default of sentences: 30)",
              &O::epochs, 0, many);
  rows.number("steps", "updates; 0: by --epochs, or 8000 and at least 12 epochs", &O::steps, 0,
              many);
  rows.number("minutes", "end after this many minutes; 0: no limit", &O::minutes, 0, many);
  rows.number("batch", "pairs in a batch", &O::batch, 1, many);
  rows.number("batch-tokens", "instead: target tokens in a batch, with padding; 0: count pairs",
              &O::batch_tokens, 0, many)
      .rare = true;
  rows.number("rate", "learning rate of Adam", &O::rate, 1e-9, 10);
  rows.choice<RateSchedule>("schedule",
                            "of the learning rate; late-decay: constant for half of the steps, "
                            "then down to 2 %",
                            &O::schedule,
                            {{RateSchedule::constant, "constant"},
                             {RateSchedule::late_decay, "late-decay"},
                             {RateSchedule::inverse_sqrt, "inverse-sqrt"}});
  rows.number("seed", "of initial values, the order of pairs and dropout", &O::seed, 0, 1e18);
  rows.number("average", "decay of a moving average of the weights, which is validated; 0: none",
              &O::average, 0, 0.999999);
  const std::size_t begin = rows.all.size();
  rows.number("warm-up", "updates in which the learning rate rises", &O::warm_up, 0, many);
  rows.number("halve", "halve the rate after this many validations without a new best; 0: never",
              &O::halve, 0, many);
  rows.number("weight-decay", "decoupled weight decay of matrices", &O::weight_decay, 0, 10);
  has_effect_with<O>(rows.number("guided-alignment", "with --alignments: weight of their loss",
                                 &O::guided_alignment, 0, many),
                     "alignments", [](const O& o) { return !o.alignments.empty(); });
  rows.number("clip", "largest global norm of the gradients", &O::clip, 1e-9, many);
  rows.number("max-skipped",
              "end training when this many updates in a row have a loss or gradients that are not "
              "finite",
              &O::max_skipped, 1, many);
  rows.choice<Precision>("precision",
                         "of matrix products in training: bf16 where the CPU has it (weights stay "
                         "f32)",
                         &O::precision, {{Precision::f32, "f32"}, {Precision::bf16, "bf16"}});
  rows.number("shards",
              "parts of a batch whose gradients are added; at most as many workers can share them "
              "(mpirun -n WORKERS)",
              &O::shards, 1, 1 << 16);
  for (std::size_t i = begin; i < rows.all.size(); ++i) rows.all[i].rare = true;
}

void add_validation(Rows<TrainOptions>& rows) {
  using O = TrainOptions;
  rows.heading = "Validation";
  rows.number("validate-every", "updates between validations, each of which saves a checkpoint",
              &O::validate_every, 1, many);
  rows.number("patience", "end after this many validations without a new best", &O::patience, 1,
              many);
  rows.choice<Metric>("metric",
                      "chooses the best weights; auto: bleu of sentences, otherwise exact matches",
                      &O::metric,
                      {{Metric::automatic, "auto"},
                       {Metric::exact, "exact"},
                       {Metric::bleu, "bleu"},
                       {Metric::loss, "loss"}});
  rows.choice<metrics::BleuTokens>(
          "bleu", "BLEU counts words as sacreBLEU's 13a does, or (none) all between blanks",
          &O::bleu, {{metrics::BleuTokens::mteval_13a, "13a"}, {metrics::BleuTokens::none, "none"}})
      .rare = true;
  rows.number("beam", "beam size of the search in validation", &O::beam, 1, 1000).rare = true;
}

void add_run(Rows<TrainOptions>& rows) {
  using O = TrainOptions;
  rows.heading = "Run";
  const std::size_t begin = rows.all.size();
  rows.text("out", "directory for best.safetensors, last.safetensors, log.jsonl and report.html",
            &O::out, "DIRECTORY");
  rows.flag("resume", "go on from last.safetensors, where there is one", &O::resume);
  rows.number("seeds", "train this many models, each with a seed of its own: an ensemble",
              &O::seeds, 1, 1000);
  has_effect_with<O>(rows.number("jobs",
                                 "with --seeds: trainings at once, each on one thread (default: as "
                                 "many as CPUs)",
                                 &O::jobs, 0, 1024),
                     "seeds", [](const O& o) { return o.seeds > 1; });
  rows.number("threads", "threads (default: ATTUNE_THREADS, or all CPUs)", &O::threads, 0, 1024);
  for (std::size_t i = begin; i < rows.all.size(); ++i) rows.all[i].stored = false;
}

void add_models(Rows<UseOptions>& rows) {
  using O = UseOptions;
  rows.heading = "Model and data";
  rows.commands = ~average_command;
  rows.list("model",
            "checkpoint, or directory of a training (default: the one trained last); several, or a "
            "directory of --seeds, are an ensemble",
            &O::models, "PATH");
  rows.commands = average_command;
  rows.list("model", "checkpoints of one training", &O::models, "PATH");
  rows.commands =
      evaluate_command | align_command | score_command | compare_command | report_command;
  rows.file("file",
            "pairs: a TSV (source TAB target), or a text file of sources (default of evaluate and "
            "report: the pairs the model was chosen by)",
            &O::file);
  rows.file("target", "text file of their targets", &O::target);
  rows.swap();
  rows.commands = predict_command;
  rows.list("source", "what to read (default: lines of standard input)", &O::sources, "TEXT");
  rows.file("file", "file of lines to read", &O::file);
}

void add_search(Rows<UseOptions>& rows) {
  using O = UseOptions;
  rows.heading = "Search";
  rows.commands =
      predict_command | evaluate_command | align_command | compare_command | report_command;
  const auto search = [](auto member) {
    return [member](O & o) -> auto& { return o.search.*member; };
  };
  rows.number("beam", "beam size; 1 is greedy search", search(&models::SearchOptions::beam), 1,
              1000);
  rows.number("length-penalty",
              "α: log-probabilities are divided by length^α (default -1: 1 for sentences, else 0)",
              search(&models::SearchOptions::length_penalty), -1, 10);
  rows.number("coverage-penalty", "β, against source tokens that are left out",
              search(&models::SearchOptions::coverage_penalty), 0, 10);
  rows.number("max-length", "most tokens of a prediction; 0: by the targets of training",
              search(&models::SearchOptions::max_length), 0, 100000);
  rows.commands = predict_command | report_command;
  rows.number("best", "predictions for each source (n-best)", search(&models::SearchOptions::best),
              1, 1000);
  rows.commands = predict_command;
  const auto sampling = [](auto member) {
    return [member](O & o) -> auto& { return o.sampling.*member; };
  };
  rows.number("batch", "sources in a batch", &O::batch, 1, 4096);
  rows.flag("replace-unknown", "write the source token with the largest attention for <unk>",
            &O::replace_unknown);
  rows.flag("sample", "draw tokens from their probabilities instead of searching", &O::sample);
  const std::size_t begin = rows.all.size();
  rows.number("temperature", "with --sample: below 1, likely tokens become likelier",
              sampling(&models::SamplingOptions::temperature), 1e-3, 1e3);
  rows.number("top-k", "with --sample: draw from the k likeliest tokens; 0: from all",
              sampling(&models::SamplingOptions::top_k), 0, 1 << 30);
  rows.number("top-p", "with --sample: draw from the likeliest tokens with this probability",
              sampling(&models::SamplingOptions::top_p), 1e-9, 1);
  rows.number("seed", "with --sample: of what is drawn", sampling(&models::SamplingOptions::seed),
              0, 1e18);
  for (std::size_t i = begin; i < rows.all.size(); ++i)
    has_effect_with<O>(rows.all[i], "sample", [](const O& o) { return o.sample; });
}

/// Numbers with commas between them, each larger than the one before.
std::vector<std::int64_t> rising_numbers(const std::string& text) {
  std::vector<std::int64_t> numbers;
  for (const char *at = text.data(), *const end = at + text.size();; ++at) {
    std::int64_t number = -1;
    const auto [rest, error] = std::from_chars(at, end, number);
    if (error != std::errc() || number < 0 || (!numbers.empty() && number <= numbers.back()) ||
        (rest != end && *rest != ',')) {
      fail("lengths", fmt::format("'{}' is not rising whole numbers with commas between them, as "
                                  "8,12,16",
                                  text));
    }
    numbers.push_back(number);
    if (rest == end) return numbers;
    at = rest;
  }
}

void add_align(Rows<UseOptions>& rows) {
  using O = UseOptions;
  rows.commands = align_command;
  rows.choice<AlignFormat>(
      "format",
      "pharaoh for links SOURCE-TARGET, from 0; tsv, json or npy (one array after the other) for "
      "weights; terminal, svg or html for drawings; scores for log-probabilities: source TAB "
      "target TAB sum TAB that of each token and of the end; auto: by the name of --out",
      &O::align_format,
      {{AlignFormat::automatic, "auto"},
       {AlignFormat::html, "html"},
       {AlignFormat::json, "json"},
       {AlignFormat::npy, "npy"},
       {AlignFormat::pharaoh, "pharaoh"},
       {AlignFormat::scores, "scores"},
       {AlignFormat::svg, "svg"},
       {AlignFormat::terminal, "terminal"},
       {AlignFormat::tsv, "tsv"}});
  rows.choice<AlignUnits>("units", "align words between blanks, or the model's tokens", &O::units,
                          {{AlignUnits::words, "words"}, {AlignUnits::tokens, "tokens"}});
  rows.choice<report::AlignedWord>(
      "rule",
      "which token a step's weights speak of: the one it writes, or "
      "the one before",
      &O::rule,
      {{report::AlignedWord::current, "current"}, {report::AlignedWord::previous, "previous"}});
  rows.file("gold",
            "gold links, as 1-1 2p3 (from 1; p: possible): prints the alignment error rate instead",
            &O::gold);
}

void add_output(Rows<UseOptions>& rows) {
  using O = UseOptions;
  rows.heading = "Output";
  rows.commands = predict_command;
  rows.choice<PredictFormat>("format",
                             "columns: source TAB prediction TAB probability; text: predictions "
                             "alone; moses: an n-best list as of Moses",
                             &O::format,
                             {{PredictFormat::columns, "columns"},
                              {PredictFormat::text, "text"},
                              {PredictFormat::moses, "moses"}});
  rows.choice<Show>("attention", "when to draw the attention (auto: for what is typed)",
                    &O::attention,
                    {{Show::always, "always"}, {Show::automatic, "auto"}, {Show::never, "never"}});
  add_align(rows);
  rows.commands = predict_command | align_command;
  rows.number("width", "columns of a drawing in the terminal (default: the terminal's)", &O::width,
              0, 100000);
  rows.commands = evaluate_command | compare_command | report_command;
  rows.choice<BleuChoice>("bleu", "BLEU counts words as 13a does, or (none) all between blanks",
                          &O::bleu,
                          {{BleuChoice::trained, "as-trained"},
                           {BleuChoice::mteval_13a, "13a"},
                           {BleuChoice::none, "none"}});
  rows.commands = evaluate_command;
  rows.list("reference", "another text file of targets; may be given several times", &O::references,
            "FILE");
  rows.file("sentences", "file for each pair's BLEU TAB chrF TAB prediction", &O::sentences);
  rows.commands = compare_command;
  rows.add({"lengths",
            "source lengths, in words, at which a column of BLEU ends",
            {},
            "LIST",
            [](const O& o) { return fmt::format("{}", fmt::join(o.lengths, ",")); },
            [](O& o, const std::string& text) { o.lengths = rising_numbers(text); }});
  rows.file("curves", "draw learning curves of the models, or of files of JSON lines, as SVG",
            &O::curves);
  rows.text("field", "with --curves: what to draw (default: what the best weights are chosen by)",
            &O::field, "NAME");
  rows.text("against", "with --curves: along the bottom, minutes or a field such as step",
            &O::against, "NAME");
  rows.text("title", "with --curves: above the chart", &O::title);
  rows.commands = report_command;
  rows.number("examples", "examples to show", &O::examples, 0, 1000);
  rows.commands = inspect_command;
  rows.text("export",
            "write the subword models and vocabularies to files that begin so, for train "
            "--source-pieces and --source-vocabulary",
            &O::exported, "PREFIX");
  rows.commands = evaluate_command | align_command | report_command | average_command;
  rows.file("out", "file to write", &O::out);
  rows.commands =
      predict_command | evaluate_command | score_command | compare_command | inspect_command;
  rows.flag("json", "print JSON, one object a line", &O::json);
  rows.commands = ~0u;
  rows.number("threads", "threads (default: ATTUNE_THREADS, or all CPUs)", &O::threads, 0, 1024);
}

/// Rethrows errors of `set` behind the place of what was given.
template <class F>
void setting(const Given& given, F set) {
  try {
    set();
  } catch (const Error& error) {
    throw Error(given.where + error.what());
  }
}

/// In sizes that suit sentences, or shorter pairs; seq2seq starts as the conditional GRU of Nematus.
models::AnyModelOptions model_options(std::string_view name, bool sentences) {
  const char* size = sentences ? "256" : "128";
  return models::model_options(name, {{"embedding", sentences ? "256" : "64"},
                                      {"hidden", size},
                                      {"attention", size},
                                      {"readout", size},
                                      {"encoder-layers", sentences ? "1" : "2"},
                                      {"start", "mean"},
                                      {"attend", "between"},
                                      {"readout-kind", "tanh"},
                                      {"dropout", sentences ? "0.2" : "0.3"},
                                      {"label-smoothing", "0.1"}});
}

void apply(TrainOptions& o, std::span<const Given> given) {
  for (const Given& one : given) {
    if (one.name == "model" || one.name == "config") continue;
    const auto row = std::ranges::find(train_fields(), one.name, &Option<TrainOptions>::name);
    setting(one, [&] {
      row != train_fields().end() ? row->set(o, one.value)
                                  : models::set(o.model, one.name, one.value);
    });
  }
}

template <class Options>
void check_effects_of(std::span<const Given> given, const auto& fields, const Options& options) {
  for (const auto& field : fields) {
    if (!field.has_effect || field.has_effect(options)) continue;
    for (const Given& one : given) {
      if (one.name == field.name && one.where == "--")
        fail("--" + field.name, fmt::format("it has no effect without {}", field.needs));
    }
  }
}

}  // namespace

std::span<const Option<TrainOptions>> train_fields() {
  static const std::vector<Option<TrainOptions>> fields = [] {
    Rows<TrainOptions> rows;
    add_data(rows), add_training(rows), add_validation(rows), add_run(rows);
    return std::move(rows.all);
  }();
  return fields;
}

std::span<const Option<UseOptions>> use_fields() {
  static const std::vector<Option<UseOptions>> fields = [] {
    Rows<UseOptions> rows;
    add_models(rows), add_search(rows), add_output(rows);
    return std::move(rows.all);
  }();
  return fields;
}

TrainOptions train_options(std::span<const Given> given, bool sentences) {
  TrainOptions o;
  o.model = model_options("seq2seq", sentences);
  for (const Given& one : given) {
    if (one.name == "model") setting(one, [&] { o.model = model_options(one.value, sentences); });
  }
  if (sentences) {
    o.epochs = 30;
  } else {
    o.longest = 5000, o.schedule = RateSchedule::late_decay;
    o.validate_every = 250, o.patience = 12, o.average = 0.998;
  }
  apply(o, given);
  if (o.metric == Metric::automatic) o.metric = sentences ? Metric::bleu : Metric::exact;
  return o;
}

TrainOptions resumed_options(const std::filesystem::path& checkpoint,
                             std::span<const Given> given) {
  const Safetensors file = load_safetensors(checkpoint);
  TrainOptions o = reading(checkpoint, [&] { return train_options_from(file.metadata); });
  for (const Given& one : given) {
    if (one.name == "model" && one.value != o.model.name)
      setting(one, [&] { o.model = model_options(one.value, o.metric == Metric::bleu); });
  }
  apply(o, given);
  return o;
}

UseOptions use_options(std::span<const Given> given, unsigned command) {
  UseOptions o;
  for (const Given& one : given) {
    for (const auto& field : use_fields()) {
      if (field.name == one.name && (field.commands & command) != 0)
        setting(one, [&] { field.set(o, one.value); });
    }
  }
  check_effects_of(given, use_fields(), o);
  return o;
}

void check_effects(std::span<const Given> given, const TrainOptions& options) {
  check_effects_of(given, train_fields(), options);
  check_effects_of(given, models::all_model_fields(), options.model);
}

Metadata to_metadata(const TrainOptions& options) {
  Metadata map;
  for (const auto& field : train_fields())
    if (field.stored) map[field.name] = field.get(options);
  map.merge(models::to_map(options.model));
  return map;
}

TrainOptions train_options_from(const Metadata& metadata) {
  TrainOptions o;
  o.model = models::model_options_from(metadata);
  for (const auto& field : train_fields()) {
    if (!field.stored) continue;
    const auto at = metadata.find(field.name);
    if (at == metadata.end()) fail("options", "there is no '" + field.name + "'");
    field.set(o, at->second);
  }
  return o;
}

void check_same(const TrainOptions& stored, const TrainOptions& given) {
  const std::filesystem::path last = given.out / "last.safetensors";
  const Metadata before = to_metadata(stored);
  Metadata after = to_metadata(given);
  attune::check_same("--resume", last, {{"model", stored.model.name}},
                     {{"model", given.model.name}});
  for (const char* name : {"steps", "epochs", "minutes", "patience", "max-skipped"})
    after[name] = before.at(name);
  attune::check_same("--resume", last, before, after);
}

}  // namespace attune::pairs
