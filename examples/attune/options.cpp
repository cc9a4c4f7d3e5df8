#include "options.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/models/metrics.hpp>
#include <attune/models/model_file.hpp>
#include <attune/tensor/check.hpp>

#include "output.hpp"
#include "run_directory.hpp"

namespace attune::pairs {
namespace {

using models::choice, models::flag, models::only_with, models::option, models::Option,
    models::OptionList;

constexpr double many = 1e9;

/// Files that may be given several times: each is appended.
Option paths(const char* name, const char* help, std::vector<std::filesystem::path>& to) {
  return {.name = name,
          .help = help,
          .type = "PATH",
          .get = [] { return std::string(); },
          .set = [&to](const std::string& text) { to.emplace_back(text); }};
}

/// --config and --threads of all commands.
OptionList common_options(std::string& config, Index& threads) {
  Option files = option("config",
                        "file with more options, NAME = VALUE on each line; may be given several "
                        "times; the command line wins",
                        config, "FILE");
  return {files,
          option("threads", "threads (default: ATTUNE_THREADS, or all CPUs)", threads, 0, 1024)};
}

Option swap(text::Columns& columns, const std::filesystem::path& target) {
  Option field = choice("swap", "the target is the first column of a TSV", columns, {"no", "yes"});
  field.is_flag = true;
  return only_with("a TSV", target.empty(), field);
}

Option tokens(const char* name, const char* help, Tokens& value) {
  return choice(name, help, value, {"auto", "words", "characters", "decomposed", "bpe", "unigram"});
}

OptionList data_options(TrainOptions& o) {
  const bool subwords = std::ranges::any_of(
      std::array{o.tokens, o.source_tokens, o.target_tokens},
      [](Tokens t) { return t == Tokens::bpe || t == Tokens::unigram || t == Tokens::automatic; });
  const auto of_subwords = [&](Option one) {
    return only_with("tokens bpe or unigram", subwords, std::move(one));
  };
  return {
      option("train", "pairs to train on: a TSV (source TAB target), or a text file of sources",
             o.train),
      option("train-target", "text file of targets, line by line", o.train_target),
      option("valid", "pairs to choose the best weights by (default: some are held out)", o.valid),
      only_with(
          "valid", !o.valid.empty(),
          option("valid-target", "their targets, where these are in another file", o.valid_target)),
      swap(o.columns, o.train_target),
      option("held-out",
             "hold out at most this many pairs, and at most a tenth, where no --valid is given",
             o.held_out, 1, many),
      tokens("tokens",
             "what lines are cut into; decomposed: characters, with accents and the letters of "
             "Hangul syllables apart; bpe, unigram: subwords that are learnt; auto looks at the "
             "data",
             o.tokens),
      tokens("source-tokens", "the same for the source alone", o.source_tokens),
      tokens("target-tokens", "the same for the target alone", o.target_tokens),
      of_subwords(
          option("pieces", "subwords to learn, for each side or for both", o.pieces, 10, many)),
      option("source-pieces", "SentencePiece model for the source, or for both sides",
             o.source_pieces, "FILE"),
      option("target-pieces", "SentencePiece model for the target", o.target_pieces, "FILE"),
      option("source-vocabulary", "tokens of the source, or of both sides, one on each line",
             o.source_vocabulary, "FILE"),
      option("target-vocabulary", "tokens of the target", o.target_vocabulary, "FILE"),
      choice("nfc",
             "compose characters as Unicode's NFC does, in training and in all that is read later: "
             "é is the same token however it is encoded",
             o.nfc),
      choice("joint", "one set of subwords and one vocabulary for both sides", o.joint),
      choice("truecase",
             "give words at the beginning of sentences, and lines in capitals, the case they "
             "mostly have",
             o.truecase),
      option("min-count", "replace tokens that are rarer than this by <unk>", o.minimum_count, 1,
             many),
      option("vocabulary", "largest vocabulary of a side; 0: no limit", o.maximum_vocabulary, 0,
             many),
      option("alignments",
             "links between the words of each pair, as 0-0 1-2 (source first): attention learns "
             "from them",
             o.alignments, "FILE"),
      option("max-tokens",
             "exclude pairs with more tokens on a side (default: 5000, of sentences 100)",
             o.longest, 1, many)};
}

/// The model's name, and the options that the named model has.
OptionList model_options_of(TrainOptions& o) {
  Option name{
      .name = "model", .help = "what to train; sizes are set to suit the data", .type = "NAME"};
  for (const models::ModelKind& kind : models::model_kinds())
    name.help += fmt::format("; {}: {}", kind.name, kind.what);
  name.get = [&o] { return o.model.name; };
  name.set = [](const std::string&) {};  // set_given and train_options_from do, before the others
  OptionList all = {name};
  models::append(all, options_of(o.model));
  return all;
}

OptionList training_options(TrainOptions& o) {
  return {
      option("epochs", "passes over the data (0: by --steps; default of sentences: 30)", o.epochs,
             0, many),
      option("steps", "updates; 0: by --epochs, or 8000 and at least 12 epochs", o.steps, 0, many),
      option("minutes", "end after this many minutes; 0: no limit", o.minutes, 0, many),
      option("batch", "pairs in a batch", o.batch, 1, many),
      option("batch-tokens", "instead: target tokens in a batch, with padding; 0: count pairs",
             o.batch_tokens, 0, many),
      option("pool",
             "pairs, taken at random, that are sorted by length before batches are cut from them",
             o.pool, 1, many),
      option("rate", "learning rate of Adam", o.rate, 1e-9, 10),
      option("beta2", "decay of Adam's second moment", o.beta2, 0, 0.999999),
      choice("schedule",
             "of the learning rate; late-decay: constant for half of the steps, then down to 2 %",
             o.schedule, {"constant", "late-decay", "inverse-sqrt"}),
      option("warm-up", "updates in which the learning rate rises", o.warm_up, 0, many),
      option("halve", "halve the rate after this many validations without a new best; 0: never",
             o.halve, 0, many),
      option("weight-decay", "decoupled weight decay of matrices", o.weight_decay, 0, 10),
      only_with("alignments", !o.alignments.empty(),
                option("guided-alignment", "with --alignments: weight of their loss",
                       o.guided_alignment, 0, many)),
      option("seed", "of initial values, the order of pairs and dropout", o.seed, 0, 1e18),
      option("average", "decay of a moving average of the weights, which is validated; 0: none",
             o.average, 0, 0.999999),
      choice("precision",
             "of matrix products in training (weights stay f32); f32 where that is faster",
             o.precision, {"f32", "bf16x3", "bf16"}),
      option("shards",
             "parts of a batch whose gradients are added; at most as many workers can share them "
             "(mpirun -n WORKERS)",
             o.shards, 1, 1 << 16)};
}

OptionList validation_options(TrainOptions& o) {
  return {
      option("validate-every", "updates between validations, each of which saves a checkpoint",
             o.validate_every, 1, many),
      option("patience", "end after this many validations without a new best", o.patience, 1, many),
      choice("metric", "chooses the best weights; auto: bleu of sentences, otherwise exact matches",
             o.metric, {"auto", "exact", "bleu", "loss"}),
      choice("bleu", "tokenisation for BLEU: sacreBLEU's 13a, or none: words between blanks",
             o.bleu, {"13a", "none"}),
      option("beam", "beam size of the search in validation", o.beam, 1, 1000)};
}

OptionList run_options(TrainOptions& o) {
  OptionList all = {
      option("out", "directory for best.safetensors, last.safetensors, log.jsonl and report.html",
             o.out, "PATH"),
      flag("resume", "continue from last.safetensors, where there is one", o.resume),
      option("seeds", "train this many models, each with a seed of its own: an ensemble", o.seeds,
             1, 1000),
      only_with("seeds", o.seeds > 1,
                option("jobs",
                       "with --seeds: trainings at once, each on one thread (default: as many as "
                       "CPUs)",
                       o.jobs, 0, 1024))};
  models::append(all, common_options(o.config, o.threads));
  return all;
}

constexpr unsigned measures = evaluate_command | compare_command | report_command;

OptionList search_options(UseOptions& o) {
  const auto of_search = [&](Option one) {
    return only_with("a search, which --sample replaces", !o.sample, std::move(one));
  };
  return {
      of_search(option("beam", "beam size; 1 is greedy search", o.search.beam, 1, 1000)),
      option("length-penalty",
             "α: log-probabilities are divided by length^α (default: 1 for sentences, else 0)",
             o.search.length_penalty, 0, 10),
      of_search(option("coverage-penalty", "β, against source tokens that are left out",
                       o.search.coverage_penalty, 0, 10)),
      option("max-length", "most tokens of a prediction (default: by the targets of the training)",
             o.search.max_length, 0, 100000)};
}

OptionList predict_options(UseOptions& o) {
  const auto sampled = [&](Option one) { return only_with("sample", o.sample, std::move(one)); };
  return {
      flag("sample", "draw tokens from their probabilities instead of searching", o.sample),
      sampled(option("temperature", "with --sample: below 1, likely tokens become likelier",
                     o.sampling.temperature, 1e-3, 1e3)),
      sampled(option("top-k", "with --sample: draw from the k likeliest tokens; 0: from all",
                     o.sampling.top_k, 0, 1 << 30)),
      sampled(option("top-p",
                     "with --sample: draw from the likeliest tokens of this total probability",
                     o.sampling.top_p, 1e-9, 1)),
      sampled(option("seed", "with --sample: of what is drawn", o.sampling.seed, 0, 1e18)),
      option("batch", "sources in a batch", o.batch, 1, 4096),
      flag("replace-unknown", "write the source token with the largest attention for <unk>",
           o.replace_unknown),
      choice("format", "columns: source TAB prediction TAB probability; text: predictions alone",
             o.format, {"columns", "text"})};
}

OptionList align_options(UseOptions& o) {
  return {
      choice("format",
             "pharaoh for links SOURCE-TARGET, from 0; json for weights; terminal, svg or html for "
             "drawings; auto: by the name of --out",
             o.align_format, {"auto", "html", "json", "pharaoh", "svg", "terminal"}),
      choice("units", "align words between blanks, or the model's tokens", o.units,
             {"words", "tokens"}),
      option("gold",
             "gold links, as 1-1 2p3 (from 1; p: possible): prints the alignment error rate "
             "instead",
             o.gold, "FILE")};
}

/// Errors of `set`, which begin with an option's name, say where it was given.
template <class Set>
void naming(const Given& given, Set set) {
  try {
    set();
  } catch (const Error& error) {
    throw Error((given.place.empty() ? "--" : given.place) + error.what());
  }
}

}  // namespace

OptionList options_of(TrainOptions& o) {
  OptionList all;
  models::append(all, data_options(o), "Data");
  models::append(all, model_options_of(o), "Model");
  models::append(all, training_options(o), "Training");
  models::append(all, validation_options(o), "Validation");
  models::append(all, run_options(o), "Run");
  return all;
}

OptionList options_of(UseOptions& o, unsigned command) {
  OptionList all;
  const auto add = [&](unsigned commands, OptionList some) {
    if ((commands & command) != 0) models::append(all, std::move(some));
  };
  add(~(average_command | inspect_command),
      {paths("model",
             "checkpoint, or directory of a training (default: the model trained last); given "
             "several times, or a directory of --seeds: an ensemble",
             o.models)});
  add(evaluate_command,
      {paths("reference", "text file of other targets; may be given several times", o.references)});
  add(measures | align_command | score_command,
      {option("target", "text file of targets, where FILE has sources alone", o.target),
       swap(o.columns, o.target)});
  add(predict_command, {option("file", "file of lines to read", o.file)});
  add(measures | predict_command | align_command, search_options(o));
  Option unknown =
      choice("unk", "<unk> may be written, and has a probability; --replace-unknown implies it",
             o.search.output_tokens, {"no", "yes"});
  unknown.is_flag = true;
  add(measures | predict_command | align_command | score_command, {unknown});
  add(report_command | predict_command,
      {only_with("a search, which --sample replaces", !o.sample,
                 option("best", "predictions for each source (n-best)", o.search.best, 1, 1000))});
  add(predict_command, predict_options(o));
  add(align_command, align_options(o));
  add(measures, {choice("bleu", "tokenisation for BLEU: 13a, or none: words between blanks", o.bleu,
                        {"as-trained", "13a", "none"})});
  add(compare_command,
      {option("lengths", "source lengths, in words, at which a column of BLEU ends", o.lengths,
              0)});
  add(report_command, {option("live",
                              "write a page that runs the model instead of a report: FILE, from "
                              "examples/page/build.sh, with the model in it",
                              o.live)});
  add(inspect_command,
      {option("export",
              "write subword models and vocabularies to files that begin so, for train "
              "--source-pieces and --source-vocabulary",
              o.exported, "PREFIX")});
  add(evaluate_command | align_command | report_command | average_command,
      {option("out", "file to write", o.out)});
  add(predict_command | evaluate_command | score_command | compare_command | inspect_command,
      {flag("json", "print JSON, one object a line", o.json)});
  add(~0u, common_options(o.config, o.threads));
  return all;
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
  if (name == o.model.name) return;
  o.model = models::model_options(name);
  const OptionList own = options_of(o.model);
  const char* size = o.sentences ? "256" : "128";
  for (const auto& [option, value] : {std::pair("embedding", o.sentences ? "256" : "64"),
                                      {"hidden", size},
                                      {"attention", size},
                                      {"readout", size},
                                      {"encoder-layers", o.sentences ? "1" : "2"},
                                      {"dropout", o.sentences ? "0.2" : "0.3"},
                                      {"label-smoothing", "0.1"}})
    if (const Option* one = models::find(own, option)) one->set(value);
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
    if (equals == text.npos) reader.fail("NAME = VALUE was expected");
    all.push_back({trimmed(std::string_view(text).substr(0, equals)),
                   trimmed(std::string_view(text).substr(equals + 1)),
                   fmt::format("{}:{}: ", path.string(), reader.number())});
    if (all.back().name == "config") reader.fail("there is no option 'config'");
  }
  return all;
}

void set_given(const OptionList& options, const std::vector<Given>& given) {
  for (const Given& one : given) {
    const Option* option = models::find(options, one.name);
    if (!option) {
      const std::string whole = (one.place.empty() ? "--" : "") + one.name;
      throw Error(one.place + in_quotes(whole) + " is not an option; --help-all lists them");
    }
    naming(one, [&] { option->set(one.value); });
  }
}

void set_given(TrainOptions& o, const std::vector<Given>& given) {
  for (const Given& one : given)
    if (one.name == "model") naming(one, [&] { set_model(o, one.value); });
  const OptionList options = options_of(o);
  for (const Given& one : given)
    if (!models::find(options, one.name))
      naming(one, [&] { models::check_option(o.model, one.name); });
  set_given(options, given);
}

void check_effects(const OptionList& options, const std::vector<Given>& given) {
  for (const Given& typed : given) {
    const Option* one = models::find(options, typed.name);
    if (one && typed.place.empty() && !one->has_effect)
      fail("--" + typed.name, fmt::format("it has no effect without {}", one->needs));
  }
}

namespace {

/// What a checkpoint has.
OptionList stored_part(TrainOptions& o) {
  OptionList all = options_of(o);
  std::erase_if(all, [](const Option& one) { return one.group == "Run"; });
  return all;
}

}  // namespace

Metadata to_metadata(const TrainOptions& options) {
  TrainOptions o = options;
  Metadata map = models::to_map(stored_part(o));
  map["sentences"] = o.sentences ? "yes" : "no";
  return map;
}

TrainOptions train_options_from(const Metadata& metadata) {
  TrainOptions o;
  o.model = models::model_options(nn::load_text(metadata, "model"));
  Metadata all = metadata;
  all.emplace("nfc", "no");  // as was done before there was such an option
  models::set_from(stored_part(o), all);
  const auto sentences = metadata.find("sentences");
  o.sentences = sentences != metadata.end() && sentences->second == "yes";
  return o;
}

TrainOptions stored_options(const std::filesystem::path& checkpoint) {
  const Safetensors file = load_safetensors(checkpoint);
  return reading(checkpoint, [&] { return train_options_from(file.metadata); });
}

void check_same(const TrainOptions& stored, const TrainOptions& given) {
  // Data are the same where their fingerprints are, which Run compares.
  const std::set<std::string> free = {"steps",    "epochs",       "minutes",
                                      "patience", "train",        "train-target",
                                      "valid",    "valid-target", "alignments"};
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
      fail("--resume", fmt::format("{} was trained with {} = {}, not {}", given.last().string(),
                                   name, in_quotes(old), in_quotes(value)));
  }
}

}  // namespace attune::pairs
