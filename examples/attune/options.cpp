#include "options.hpp"

#include <algorithm>
#include <set>

#include <attune/models/model_file.hpp>

#include "commands.hpp"
#include "output.hpp"
#include "run_directory.hpp"

namespace attune::pairs {
namespace {

using models::append, models::choice, models::flag, models::only_with, models::option,
    models::Option, models::OptionList, models::OptionTable;

constexpr double many = 1e9;

/// --config and --threads of all commands.
OptionList common_options(std::string& config, Index& threads) {
  return {option("config",
                 "config file, one NAME = VALUE per line; can be repeated; options on the command "
                 "line take precedence",
                 config, "FILE"),
          option("threads", "number of threads (default: ATTUNE_THREADS, or the number of CPUs)",
                 threads, 0, 1024)};
}

Option swap(text::Columns& columns) {
  return flag("swap", "the first column of the TSV is the target", columns);
}

Option tokens(const char* name, const char* help, Tokens& value) {
  return choice(name, help, value, {"auto", "words", "characters", "decomposed", "bpe", "unigram"});
}

OptionList data_options(TrainOptions& o) {
  return {
      option("train",
             "training pairs: a TSV file (source TAB target), or a text file with the sources",
             o.train),
      option("train-target", "text file with the targets of --train, line by line", o.train_target),
      option("valid",
             "validation pairs, which select the best weights (default: held out from --train)",
             o.valid),
      option("valid-target", "text file with the targets of --valid", o.valid_target),
      swap(o.columns),
      option("held-out",
             "without --valid: hold out this many pairs for validation, at most a tenth of all",
             o.held_out, 1, many),
      tokens("tokens",
             "tokenisation; decomposed: characters in Unicode's NFD, which separates accents and "
             "the letters of Hangul syllables; bpe, unigram: learnt subwords; auto: chosen from "
             "the data",
             o.tokens),
      tokens("source-tokens", "tokenisation of the source only", o.source_tokens),
      tokens("target-tokens", "tokenisation of the target only", o.target_tokens),
      option("pieces", "number of subwords to learn per side, or for both with --joint", o.pieces,
             10, many),
      option("source-pieces", "SentencePiece model of the source, or of both sides with --joint",
             o.source_pieces, "FILE"),
      option("target-pieces", "SentencePiece model of the target", o.target_pieces, "FILE"),
      option("source-vocabulary",
             "tokens of the source, or of both sides with --joint, one per line",
             o.source_vocabulary, "FILE"),
      option("target-vocabulary", "tokens of the target, one per line", o.target_vocabulary,
             "FILE"),
      choice("nfc",
             "normalise text to Unicode's NFC, in training and prediction: é is the same token "
             "however it is encoded",
             o.nfc),
      choice("joint", "share one set of subwords and one vocabulary between both sides", o.joint),
      choice("truecase",
             "truecasing: give the first word of each sentence, words in an unknown case and lines "
             "in capitals their most frequent case",
             o.truecase),
      option("min-count", "replace tokens with fewer occurrences than this by <unk>",
             o.minimum_count, 1, many),
      option("vocabulary", "maximum vocabulary size of each side; 0: no limit",
             o.maximum_vocabulary, 0, many),
      option("alignments",
             "word alignments of the training pairs, as 0-0 1-2 (source-target, from 0): "
             "supervise the attention weights",
             o.alignments, "FILE"),
      choice("shortlist",
             "store a table of likely target tokens of each source token, for predict --shortlist",
             o.shortlist),
      option("max-tokens",
             "exclude pairs with more tokens on either side (default: 5000, for sentences 100)",
             o.longest, 1, many)};
}

/// set_given and train_options_from select the model before they set the other options.
OptionList model_options_of(TrainOptions& o) {
  std::string help = "model to train; default sizes depend on the data";
  for (const models::ModelKind& kind : models::model_kinds())
    help += fmt::format("; {}: {}", kind.name, kind.what);
  OptionList all = {option("model", help, o.model.name, "NAME")};
  append(all, fields_of(o.model));
  return all;
}

OptionList training_options(TrainOptions& o) {
  return {
      option("epochs",
             "passes over the training data; replaces --steps of a config file (default "
             "for sentences: 30)",
             o.epochs, 0, many),
      option("steps", "number of updates; 0: by --epochs, or else 8000 and at least 12 epochs",
             o.steps, 0, many),
      option("minutes", "stop training after this many minutes; 0: no limit", o.minutes, 0, many),
      option("batch", "pairs per batch", o.batch, 1, many),
      option("batch-tokens",
             "target tokens per batch, with padding; replaces --batch unless it is 0. Excludes "
             "pairs with as many tokens on either side",
             o.batch_tokens, 0, many),
      option("pool", "number of random pairs that are sorted by length, then split into batches",
             o.pool, 1, many),
      option("from",
             "start from the weights of this model, with its vocabularies and options, on other "
             "data; its learning rate is divided by 4 and constant unless given",
             o.from, "PATH"),
      option("rate", "learning rate of Adam", o.rate, 1e-9, 10),
      option("beta2", "decay rate of Adam's second moment", o.beta2, 0, 0.999999),
      choice("schedule",
             "learning-rate schedule; late-decay: constant for half of the steps, then down to 2 %",
             o.schedule, {"constant", "late-decay", "inverse-sqrt"}),
      option("warm-up", "number of updates over which the learning rate rises from 0", o.warm_up, 0,
             many),
      option("halve",
             "halve the learning rate after this many validations without improvement; 0: never",
             o.halve, 0, many),
      option("weight-decay", "decoupled weight decay of matrices", o.weight_decay, 0, 10),
      option("guided-alignment", "with --alignments: weight of the alignment loss",
             o.guided_alignment, 0, many),
      option("seed", "random seed of initial weights, order of pairs and dropout", o.seed, 0, 1e18),
      option("average", "decay of the moving average of the weights, which is validated; 0: none",
             o.average, 0, 0.999999),
      choice("precision",
             "precision of matrix products in training (weights stay f32); falls back to f32 if "
             "f32 is faster",
             o.precision, {"f32", "bf16x3", "bf16"}),
      option("shards",
             "split each batch into this many parts and add their gradients: the maximum number of "
             "worker processes (mpirun -n WORKERS)",
             o.shards, 1, 1 << 16)};
}

OptionList validation_options(TrainOptions& o) {
  return {
      option("validate-every", "updates between validations; each validation saves a checkpoint",
             o.validate_every, 1, many),
      option("patience", "stop after this many validations without improvement", o.patience, 1,
             many),
      choice("metric", "metric that selects the best weights; auto: bleu for sentences, else exact",
             o.metric, {"auto", "exact", "bleu", "loss"}),
      choice("bleu", "tokenisation for BLEU: sacreBLEU's 13a, or none (split at blanks)", o.bleu,
             {"13a", "none"}),
      option("beam", "beam size in validation", o.beam, 1, 1000)};
}

OptionList run_options(TrainOptions& o) {
  OptionList all = {
      option("out", "output directory: best.safetensors, last.safetensors, log.jsonl, report.html",
             o.out, "PATH"),
      flag("resume",
           "continue the training of last.safetensors in --out, if it exists, also one that was "
           "started with --from",
           o.resume),
      option("seeds", "train an ensemble of this many models with different seeds", o.seeds, 1,
             1000),
      option("jobs",
             "with --seeds: trainings that run in parallel and share the --threads (default: "
             "one for each thread)",
             o.jobs, 0, 1024)};
  append(all, common_options(o.config, o.threads));
  return all;
}

constexpr unsigned measures = evaluate_command | compare_command | report_command;

OptionList search_options(UseOptions& o) {
  return {option("beam", "beam size; 1: greedy search", o.search.beam, 1, 1000),
          option("length-penalty",
                 "α: divide log-probabilities by length^α (default: 1 for sentences, "
                 "else 0)",
                 o.search.length_penalty, 0, 10),
          option("coverage-penalty", "β: penalise source tokens with little attention",
                 o.search.coverage_penalty, 0, 10),
          option("max-length",
                 "maximum tokens of a prediction (default: from the longest training target)",
                 o.search.max_length, 0, 100000),
          flag("shortlist",
               "faster: consider only likely target tokens of each source, from the table of a "
               "model trained with --shortlist yes",
               o.shortlist)};
}

OptionList predict_options(UseOptions& o) {
  return {
      flag("sample", "sample from the model's distribution instead of beam search", o.sample),
      option("temperature", "with --sample: temperature; below 1 favours likely tokens",
             o.sampling.temperature, 1e-3, 1e3),
      option("top-k", "with --sample: sample from the k most likely tokens; 0: all",
             o.sampling.top_k, 0, 1 << 30),
      option("top-p",
             "with --sample: draw among the most likely tokens, up to this probability in total",
             o.sampling.top_p, 1e-9, 1),
      option("seed", "with --sample: random seed", o.sampling.seed, 0, 1e18),
      option("batch", "sources per batch", o.batch, 1, 4096),
      flag("replace-unknown",
           "replace a predicted <unk> by the source token with the largest attention weight",
           o.replace_unknown),
      flag("heatmap", "draw the attention weights of each prediction (default: only in a terminal)",
           o.heatmap),
      choice("format", "columns: source TAB prediction TAB probability; text: predictions only",
             o.format, {"columns", "text"})};
}

OptionList align_options(UseOptions& o) {
  return {choice("format",
                 "pharaoh: links SOURCE-TARGET, from 0; json: weights; terminal, svg, html: heat "
                 "maps; auto: by the file extension of --out",
                 o.align_format, {"auto", "html", "json", "pharaoh", "svg", "terminal"}),
          choice("units",
                 "align words (split at blanks), or the model's tokens; auto: words for sentences",
                 o.units, {"auto", "words", "tokens"}),
          option("gold",
                 "reference alignments, as 1-1 2p3 (from 1; p: possible): print only the alignment "
                 "error rate",
                 o.gold, "FILE")};
}

}  // namespace

OptionList fields_of(TrainOptions& o) {
  OptionList all;
  append(all, data_options(o), "Data");
  append(all, model_options_of(o), "Model");
  append(all, training_options(o), "Training");
  append(all, validation_options(o), "Validation");
  append(all, run_options(o), "Run");
  using O = const TrainOptions&;
  const auto only = [&](std::initializer_list<std::string_view> names, const char* needs,
                        bool (*present)(O)) { only_with(all, names, needs, o, present); };
  only({"valid-target"}, "--valid", [](O o) { return !o.valid.empty(); });
  only({"held-out"}, "held-out pairs, which --valid replaces", [](O o) { return o.valid.empty(); });
  only({"swap"}, "PAIRS in a TSV",
       [](O o) { return o.train_target.empty() || (!o.valid.empty() && o.valid_target.empty()); });
  only({"tokens"}, "a side without tokens or pieces of its own", [](O o) {
    return (o.source_tokens == Tokens::automatic && o.source_pieces.empty()) ||
           (o.target_tokens == Tokens::automatic && o.target_pieces.empty() && !o.joint);
  });
  only({"source-tokens"}, "tokens to choose, which --source-pieces replaces",
       [](O o) { return o.source_pieces.empty(); });
  only({"target-tokens"}, "tokens to choose, which --target-pieces replaces",
       [](O o) { return o.target_pieces.empty(); });
  only({"pieces"}, "--tokens bpe or unigram", [](O o) { return o.learns_subwords; });
  only({"min-count", "vocabulary"}, "a vocabulary to count", [](O o) {
    return o.source_vocabulary.empty() || (!o.joint && o.target_vocabulary.empty());
  });
  only({"epochs"}, "a limit in epochs, which --steps replaces",
       [](O o) { return o.steps == 0 || o.epochs == 0; });
  only({"batch"}, "batches of pairs, which --batch-tokens replaces",
       [](O o) { return o.batch_tokens == 0; });
  only({"halve"}, "a larger --patience", [](O o) { return o.halve < o.patience; });
  only({"guided-alignment"}, "--alignments", [](O o) { return !o.alignments.empty(); });
  only({"jobs"}, "--seeds", [](O o) { return o.seeds > 1; });
  return all;
}

static OptionList fields_of(UseOptions& o, unsigned command) {
  OptionList all;
  const auto add = [&](unsigned commands, OptionList some) {
    if ((commands & command) != 0) append(all, std::move(some));
  };
  add(~(average_command | inspect_command),
      {option("model",
              command == compare_command
                  ? "checkpoint, or output directory of train; repeated for each model to compare"
                  : "checkpoint, or output directory of train (default: the newer one of "
                    "attune-model and build/quickstart); several models, or a directory of train "
                    "--seeds, form an ensemble",
              o.models, "PATH")});
  add(evaluate_command,
      {option("reference", "text file with more references for BLEU and chrF; can be repeated",
              o.references, "PATH")});
  add(measures | align_command | score_command,
      {option("target", "text file with the targets, if PAIRS has only sources", o.target),
       swap(o.columns)});
  add(predict_command, {option("file", "text file with one source per line", o.file)});
  add(measures | predict_command | align_command, search_options(o));
  add(measures | predict_command | align_command | score_command,
      {flag("unk",
            command == predict_command ? "allow <unk> in predictions; implied by --replace-unknown"
                                       : "allow <unk> as a target token",
            o.search.output_tokens)});
  add(report_command | predict_command,
      {option("best", "number of predictions per source (n-best list)", o.search.best, 1, 1000)});
  add(predict_command, predict_options(o));
  add(align_command, align_options(o));
  add(measures, {choice("bleu", "tokenisation for BLEU: 13a, or none (split at blanks)", o.bleu,
                        {"as-trained", "13a", "none"})});
  add(compare_command, {option("lengths", "maximum source lengths, in words, of the BLEU columns",
                               o.lengths, 0, many)});
  add(inspect_command,
      {option("export",
              "write subword models and vocabularies to PREFIX..., as input for train "
              "--source-pieces and --source-vocabulary",
              o.exported, "PREFIX")});
  add(evaluate_command | align_command | predict_command | report_command | average_command,
      {option("out",
              command == average_command ? "output file (default: average.safetensors)"
              : command == report_command
                  ? "output file (default: report.html in the directory of the model)"
              : command == evaluate_command ? "write the predictions to this file, one per line"
              : command == predict_command
                  ? "also write heat maps of the attention weights to this file, .html or .svg"
                  : "output file (default: standard output)",
              o.out)});
  add(predict_command | evaluate_command | score_command | compare_command | inspect_command,
      {flag("json", "print JSON, one object per line", o.json)});
  add(~0u, common_options(o.config, o.threads));
  using O = const UseOptions&;
  const auto only = [&](std::initializer_list<std::string_view> names, const char* needs,
                        bool (*present)(O)) { only_with(all, names, needs, o, present); };
  if (command == align_command)
    only({"beam", "length-penalty", "coverage-penalty", "max-length", "shortlist"},
         "targets to predict, as PAIRS has targets", predicts_targets);
  if (command == predict_command)
    only({"beam", "length-penalty", "coverage-penalty", "best"},
         "beam search, which --sample replaces", [](O o) { return !o.sample; });
  only({"temperature", "top-k", "top-p", "seed"}, "--sample", [](O o) { return o.sample; });
  only({"batch"}, "lines to read, which SOURCE replaces", [](O o) { return o.sources.empty(); });
  only({"target"}, "PAIRS", [](O o) { return !o.file.empty(); });
  only({"swap"}, "PAIRS in a TSV", [](O o) { return !o.file.empty() && o.target.empty(); });
  only({"json"}, "text output, which --export replaces", [](O o) { return o.exported.empty(); });
  only({"format", "heatmap"}, "text output, which --json replaces", [](O o) { return !o.json; });
  if (command == align_command)
    only({"format", "units", "out"}, "alignments, which --gold replaces",
         [](O o) { return o.gold.empty(); });
  return all;
}

const OptionTable<TrainOptions>& options_of(const TrainOptions& options) {
  static const auto tables = [] {
    std::map<std::string, OptionTable<TrainOptions>> all;
    for (const models::ModelKind& kind : models::model_kinds()) {
      TrainOptions prototype;
      prototype.model = kind.defaults;
      all.emplace(kind.name, OptionTable<TrainOptions>(prototype));
    }
    return all;
  }();
  return tables.at(options.model.name);
}

OptionTable<UseOptions> options_of(const UseOptions&, unsigned commands) {
  UseOptions prototype;
  return {fields_of(prototype, commands), prototype};
}

TrainOptions train_options(bool sentences) {
  TrainOptions o;
  o.sentences = sentences;
  set_model(o, "nematus");
  if (sentences) {
    o.epochs = 30;
  } else {
    o.longest = 5000, o.pool = 1280, o.schedule = RateSchedule::late_decay;
    o.validate_every = 250, o.patience = 12, o.average = 0.998;
  }
  return o;
}

void set_model(TrainOptions& o, const std::string& name) {
  if (models::with_hyphens(name) == o.model.name) return;
  o.model = models::model_options(name);
  o.model.label_smoothing = 0.1;
  const Index size = o.sentences ? 256 : 128;
  const double dropout = o.sentences ? 0.2 : 0.3;
  const auto set_sizes = [&](auto& own) {
    if constexpr (requires { own.layer; }) {
      own.layer.size = size, own.layer.dropout = dropout;
    } else {
      own.embedding = o.sentences ? 256 : 64, own.hidden = size, own.dropout = dropout;
      if constexpr (requires { own.readout; }) own.readout = size;
      if constexpr (requires { own.score; }) own.score.attention = size;
      if constexpr (requires { own.encoder_layers; }) own.encoder_layers = o.sentences ? 1 : 2;
    }
  };
  std::visit(set_sizes, o.model.own);
}

std::vector<Given> read_config(const std::filesystem::path& path) {
  require_regular(path);
  const auto trimmed = [](std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
    return begin == text.npos ? std::string() : std::string(text.substr(begin, end + 1 - begin));
  };
  std::vector<Given> all;
  text::LineReader reader(path);
  while (const auto line = reader.next()) {
    const std::string text = trimmed(*line);
    if (text.empty() || text.starts_with('#')) continue;
    const std::size_t equals = text.find('=');
    if (equals == text.npos) reader.fail("expected NAME = VALUE");
    all.push_back({trimmed(std::string_view(text).substr(0, equals)),
                   trimmed(std::string_view(text).substr(equals + 1)),
                   fmt::format("{}:{}: ", path.string(), reader.number())});
    if (all.back().name == "config") reader.fail("'config' is not allowed in a config file");
  }
  return all;
}

void set_given(TrainOptions& o, const std::vector<Given>& given) {
  for (const Given& one : given)
    if (one.name == "model") examples::naming(one, [&] { set_model(o, one.value); });
  const std::string model = o.model.name;
  for (const Given& one : given)
    if (!models::find(options_of(o), one.name))
      examples::naming(one, [&] { models::check_option(o.model, one.name); });
  const Given* limit = nullptr;  // the last of --steps and --epochs
  for (const Given& one : given) {
    examples::set_given({options_of(o), o}, one, "--help-all");
    o.model.name = model;  // as it is spelt in the table of models
    if (one.name != "steps" && one.name != "epochs") continue;
    // Replaces the other limit of a checkpoint or the defaults and, on the command line, of a
    // config file. If both are given in one place, --epochs has no effect.
    const bool replaces = !limit || limit->place.empty() != one.place.empty();
    if (replaces && one.name == "steps" && o.steps > 0) o.epochs = 0;
    if (replaces && one.name == "epochs" && o.epochs > 0) o.steps = 0;
    limit = &one;
  }
}

void set_given(UseOptions& o, unsigned command, const std::vector<Given>& given) {
  const OptionTable<UseOptions> options = options_of(o, command);
  for (const Given& one : given) examples::set_given({options, o}, one, "--help-all");
}

Metadata to_metadata(const TrainOptions& o) {
  Metadata all{{"sentences", o.sentences ? "yes" : "no"}};
  const OptionTable<TrainOptions>& table = options_of(o);
  for (const Option& one : table)
    if (one.group != "Run") all[one.name] = table.get(o, one);
  return all;
}

TrainOptions train_options_from(const Metadata& metadata) {
  TrainOptions o;
  o.model = models::model_options(nn::load_text(metadata, "model"));
  Metadata all = metadata;
  for (const char* newer : {"nfc", "sentences", "shortlist"})
    all.emplace(newer, "no");  // in old checkpoints
  all.emplace("from", "");
  const OptionTable<TrainOptions>& table = options_of(o);
  for (const Option& one : table)
    if (one.group != "Run") table.set(o, one, models::entry_of(all, one.name));
  o.sentences = all.at("sentences") == "yes";
  return o;
}

TrainOptions stored_options(const std::filesystem::path& checkpoint) {
  const Safetensors file = load_safetensors(checkpoint);
  return reading(checkpoint, [&] { return train_options_from(file.metadata); });
}

void check_same(const TrainOptions& stored, const TrainOptions& given) {
  // Names of data files are free: Run compares the data by their fingerprints.
  std::set<std::string> free = {"steps",        "epochs", "minutes",      "patience",  "train",
                                "train-target", "valid",  "valid-target", "alignments"};
  const bool resumes = given.resumes();
  if (!resumes) {  // what changes neither tokens nor the function of the parameters is free, too
    free.insert({"swap", "held-out", "shortlist", "max-tokens", "label-smoothing"});
    for (const Option& one : options_of(stored))
      if ((one.group != "Data" && one.group != "Model") || one.name.ends_with("dropout") ||
          one.name.starts_with("coverage-loss"))
        free.insert(one.name);
  }
  const auto same_file = [](const std::filesystem::path& a, const std::filesystem::path& b) {
    std::error_code none;
    return std::filesystem::equivalent(a, b, none);
  };
  const Metadata before = to_metadata(stored), now = to_metadata(given);
  std::vector<std::string> names = {"model"};  // first, as others depend on it
  for (const auto& [name, value] : before) names.push_back(name);
  for (const std::string& name : names) {
    const std::string &old = before.at(name), &value = now.at(name);
    if (old != value && !free.contains(name) && !same_file(old, value))
      fail(resumes ? "--resume" : "--from", "{} was trained with {} = {}, not {}",
           (resumes ? given.last() : given.from).string(), name, in_quotes(old), in_quotes(value));
  }
}

}  // namespace attune::pairs
