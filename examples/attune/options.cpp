#include "options.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/tensor/check.hpp>

#include "model.hpp"
#include "support/checkpoint.hpp"
#include "support/commands.hpp"

namespace attune::pairs {
namespace {

constexpr double many = 1e9;

/// Rows of a table: each method adds one.
template <class Row, class Options>
struct Rows {
  std::vector<Row> all;

  Row& add(models::OptionField<Options> field, const char* type = nullptr) {
    if (type) field.type = type;
    all.push_back({std::move(field)});
    return all.back();
  }
  Row& number(const char* name, const char* help, auto member, double low, double high) {
    return add(models::number_field<Options>(name, help, member, low, high));
  }
  Row& text(const char* name, const char* help, auto member, const char* type = "TEXT") {
    return add(models::text_field<Options>(name, help, member), type);
  }
  Row& file(const char* name, const char* help, auto member) {
    return text(name, help, member, "FILE");
  }
  template <class T>
  Row& choice(const char* name, const char* help, auto member,
              const std::vector<std::pair<T, const char*>>& names) {
    return add(models::choice_field<Options, T>(name, help, member, names));
  }
  Row& flag(const char* name, const char* help, auto member) {
    return add(models::flag_field<Options, bool>(name, help, member, false, true));
  }
  Row& swap(std::filesystem::path Options::*target) {
    Row& row = add(models::flag_field<Options, text::Columns>(
        "swap", "the target is the first column of a TSV", &Options::columns,
        text::Columns::source_first, text::Columns::target_first));
    row.needs = "a TSV";
    row.has_effect = [target](const Options& o) { return (o.*target).empty(); };
    return row;
  }
};

template <class Options>
void only_with(models::OptionField<Options>& row, const char* needs,
               std::function<bool(const Options&)> has_effect) {
  row.needs = needs, row.has_effect = std::move(has_effect);
}

/// Of `train`: rows get a heading and marks as they are added.
struct TrainRows : Rows<TrainField, TrainOptions> {
  void group(const char* heading, void (*add)(TrainRows&)) {
    const std::size_t begin = all.size();
    add(*this);
    for (std::size_t i = begin; i < all.size(); ++i) all[i].heading = heading;
  }
  /// Those from this one on.
  std::span<TrainField> from(std::size_t begin) { return std::span(all).subspan(begin); }
};

/// Of the other commands: rows are for the commands that are set.
struct UseField : models::OptionField<UseOptions> {
  unsigned commands = ~0u;
};
struct UseRows : Rows<UseField, UseOptions> {
  std::size_t begin = 0;
  /// All that were added since the last call.
  void of(unsigned commands) {
    for (; begin < all.size(); ++begin) all[begin].commands = commands;
  }
};

bool learns_subwords(const TrainOptions& o) {
  return std::ranges::any_of(std::array{o.tokens, o.source_tokens, o.target_tokens}, [](Tokens t) {
    return t == Tokens::bpe || t == Tokens::unigram || t == Tokens::automatic;
  });
}

void add_tokens(TrainRows& rows) {
  using O = TrainOptions;
  const std::vector<std::pair<Tokens, const char*>> kinds = {{Tokens::automatic, "auto"},
                                                             {Tokens::words, "words"},
                                                             {Tokens::characters, "characters"},
                                                             {Tokens::decomposed, "decomposed"},
                                                             {Tokens::bpe, "bpe"},
                                                             {Tokens::unigram, "unigram"}};
  rows.choice<Tokens>("tokens",
                      "what lines are cut into; decomposed: characters, with accents and the "
                      "letters of Hangul syllables apart; bpe, unigram: subwords that are learnt; "
                      "auto looks at the data",
                      &O::tokens, kinds);
  rows.choice<Tokens>("source-tokens", "the same for the source alone", &O::source_tokens, kinds)
      .rare = true;
  rows.choice<Tokens>("target-tokens", "the same for the target alone", &O::target_tokens, kinds)
      .rare = true;
  const char* subwords = "tokens bpe or unigram";
  only_with<O>(
      rows.number("pieces", "subwords to learn, for each side or for both", &O::pieces, 10, many),
      subwords, learns_subwords);
  auto& learn =
      rows.number("learn-from", "learn subwords from at most this many lines (a random sample)",
                  &O::learn_from, 1, many);
  only_with<O>(learn, subwords, learns_subwords);
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
  for (TrainField& row : rows.from(begin)) row.rare = true;
}

void add_data(TrainRows& rows) {
  using O = TrainOptions;
  rows.file("train", "pairs to train on: a TSV (source TAB target), or a text file of sources",
            &O::train)
      .rare = true;
  rows.file("train-target", "text file of targets, line by line", &O::train_target).rare = true;
  rows.file("valid", "pairs to choose the best weights by (default: some are held out)", &O::valid);
  rows.file("valid-target", "their targets, where these are in another file", &O::valid_target);
  rows.swap(&O::train_target);
  rows.number("held-out",
              "hold out at most this many pairs, and at most a tenth, where no --valid is given",
              &O::held_out, 1, many)
      .rare = true;
  add_tokens(rows);
  rows.number("max-tokens",
              "exclude pairs with more tokens on a side (default: 5000, of sentences 100)",
              &O::longest, 1, many)
      .rare = true;
}

void add_training(TrainRows& rows) {
  using O = TrainOptions;
  rows.number("epochs", "passes over the data (0: by --steps; default of sentences: 30)",
              &O::epochs, 0, many);
  rows.number("steps", "updates; 0: by --epochs, or 8000 and at least 12 epochs", &O::steps, 0,
              many);
  rows.number("minutes", "end after this many minutes; 0: no limit", &O::minutes, 0, many);
  rows.number("batch", "pairs in a batch", &O::batch, 1, many);
  rows.number("batch-tokens", "instead: target tokens in a batch, with padding; 0: count pairs",
              &O::batch_tokens, 0, many)
      .rare = true;
  rows.number("pool",
              "pairs, taken at random, that are sorted by length before batches are cut from them",
              &O::pool, 1, many)
      .rare = true;
  rows.number("rate", "learning rate of Adam", &O::rate, 1e-9, 10);
  rows.choice<RateSchedule>("schedule",
                            "of the learning rate; late-decay: constant for half of the steps, "
                            "then down to 2 %",
                            &O::schedule,
                            {{RateSchedule::constant, "constant"},
                             {RateSchedule::late_decay, "late-decay"},
                             {RateSchedule::inverse_sqrt, "inverse-sqrt"}})
      .rare = true;
  rows.number("seed", "of initial values, the order of pairs and dropout", &O::seed, 0, 1e18);
  rows.number("average", "decay of a moving average of the weights, which is validated; 0: none",
              &O::average, 0, 0.999999)
      .rare = true;
  const std::size_t begin = rows.all.size();
  rows.number("warm-up", "updates in which the learning rate rises", &O::warm_up, 0, many);
  rows.number("halve", "halve the rate after this many validations without a new best; 0: never",
              &O::halve, 0, many);
  rows.number("weight-decay", "decoupled weight decay of matrices", &O::weight_decay, 0, 10);
  only_with<O>(rows.number("guided-alignment", "with --alignments: weight of their loss",
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
  for (TrainField& row : rows.from(begin)) row.rare = true;
}

void add_validation(TrainRows& rows) {
  using O = TrainOptions;
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

void add_run(TrainRows& rows) {
  using O = TrainOptions;
  const std::size_t begin = rows.all.size();
  rows.text("out", "directory for best.safetensors, last.safetensors, log.jsonl and report.html",
            &O::out, "PATH");
  rows.flag("resume", "continue from last.safetensors, where there is one", &O::resume);
  rows.number("seeds", "train this many models, each with a seed of its own: an ensemble",
              &O::seeds, 1, 1000);
  only_with<O>(rows.number("jobs",
                           "with --seeds: trainings at once, each on one thread (default: as many "
                           "as CPUs)",
                           &O::jobs, 0, 1024),
               "seeds", [](const O& o) { return o.seeds > 1; });
  rows.file("config", "file with more options, NAME = VALUE on each line; the command line wins",
            &O::config);
  for (TrainField& row : rows.from(begin)) row.stored = false;
}

constexpr unsigned measures = evaluate_command | compare_command | report_command;

void add_data(UseRows& rows) {
  using O = UseOptions;
  rows.text("target", "text file of targets, where FILE has sources alone", &O::target, "FILE");
  rows.swap(&O::target);
  rows.of(measures | align_command | score_command);
  rows.file("file", "file of lines to read", &O::file);
  rows.of(predict_command);
}

void add_search(UseRows& rows) {
  using O = UseOptions;
  using models::SearchOptions, models::SamplingOptions;
  const auto search = [](auto member) {
    return [member](O & o) -> auto& { return o.search.*member; };
  };
  rows.number("beam", "beam size; 1 is greedy search", search(&SearchOptions::beam), 1, 1000);
  rows.number("length-penalty",
              "α: log-probabilities are divided by length^α (default: 1 for sentences, else 0)",
              search(&SearchOptions::length_penalty), -1, 10);
  rows.number("coverage-penalty", "β, against source tokens that are left out",
              search(&SearchOptions::coverage_penalty), 0, 10);
  rows.number("max-length", "most tokens of a prediction (default: by the targets of the training)",
              search(&SearchOptions::max_length), 0, 100000);
  const auto searches = [](const O& o) { return !o.sample; };
  only_with<O>(rows.all[rows.begin], "a search, which --sample replaces", searches);
  only_with<O>(rows.all[rows.begin + 2], "a search, which --sample replaces", searches);
  rows.of(measures | predict_command | align_command);
  rows.number("best", "predictions for each source (n-best)", search(&SearchOptions::best), 1,
              1000);
  rows.of(report_command | predict_command);
  const auto sampling = [](auto member) {
    return [member](O & o) -> auto& { return o.sampling.*member; };
  };
  rows.number("batch", "sources in a batch", &O::batch, 1, 4096);
  rows.flag("replace-unknown", "write the source token with the largest attention for <unk>",
            &O::replace_unknown);
  rows.flag("sample", "draw tokens from their probabilities instead of searching", &O::sample);
  const std::size_t begin = rows.all.size();
  rows.number("temperature", "with --sample: below 1, likely tokens become likelier",
              sampling(&SamplingOptions::temperature), 1e-3, 1e3);
  rows.number("top-k", "with --sample: draw from the k likeliest tokens; 0: from all",
              sampling(&SamplingOptions::top_k), 0, 1 << 30);
  rows.number("top-p", "with --sample: draw from the likeliest tokens with this probability",
              sampling(&SamplingOptions::top_p), 1e-9, 1);
  rows.number("seed", "with --sample: of what is drawn", sampling(&SamplingOptions::seed), 0, 1e18);
  for (std::size_t i = begin; i < rows.all.size(); ++i)
    only_with<O>(rows.all[i], "sample", [](const O& o) { return o.sample; });
  rows.of(predict_command);
}

void add_align(UseRows& rows) {
  using O = UseOptions;
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
  rows.of(align_command);
}

void add_output(UseRows& rows) {
  using O = UseOptions;
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
  rows.of(predict_command);
  rows.number("width", "columns of a drawing in the terminal (default: the terminal's)", &O::width,
              10, 100000);
  rows.of(predict_command | align_command);
  rows.choice<BleuChoice>("bleu", "BLEU counts words as 13a does, or (none) all between blanks",
                          &O::bleu,
                          {{BleuChoice::trained, "as-trained"},
                           {BleuChoice::mteval_13a, "13a"},
                           {BleuChoice::none, "none"}});
  rows.of(measures);
  rows.file("sentences", "file for each pair's BLEU TAB chrF TAB prediction", &O::sentences);
  rows.of(evaluate_command);
  rows.add(list_field<O, std::int64_t>(
      "lengths", "source lengths, in words, at which a column of BLEU ends", &O::lengths, 0));
  rows.file("curves", "SVG file to draw learning curves into, of models or files of JSON lines",
            &O::curves);
  rows.text("field", "with --curves: what to draw (default: what the best weights are chosen by)",
            &O::field, "NAME");
  rows.text("against", "with --curves: along the bottom, minutes or a field such as step",
            &O::against, "NAME");
  rows.text("title", "with --curves: above the chart", &O::title);
  rows.of(compare_command);
  rows.number("examples", "examples to show", &O::examples, 0, 1000);
  rows.of(report_command);
  rows.text("export",
            "write subword models and vocabularies to files that begin so, for train "
            "--source-pieces and --source-vocabulary",
            &O::exported, "PREFIX");
  rows.of(inspect_command);
  rows.file("out", "file to write", &O::out);
  rows.of(evaluate_command | align_command | report_command | average_command);
  rows.add(json_field<O>(&O::json, "print JSON, one object a line"));
  rows.of(predict_command | evaluate_command | score_command | compare_command | inspect_command);
  rows.file("config", "file with more options, NAME = VALUE on each line; the command line wins",
            &O::config);
  rows.of(~0u);
}

/// Calls set(name, value) for each line; false where there is no such option.
void read_lines(const std::filesystem::path& path,
                const std::function<bool(const std::string&, const std::string&)>& set) {
  text::LineReader reader(path);
  while (const auto line = reader.next()) {
    const auto trimmed = [](std::string_view text) {
      const std::size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
      return begin == text.npos ? std::string() : std::string(text.substr(begin, end + 1 - begin));
    };
    const std::string text = trimmed(*line);
    if (text.empty() || text.starts_with('#')) continue;
    const std::size_t equals = text.find('=');
    if (equals == text.npos) reader.fail("NAME = VALUE was expected");
    const std::string name = trimmed(std::string_view(text).substr(0, equals));
    bool is_option = false;
    try {
      is_option = name != "config" && set(name, trimmed(std::string_view(text).substr(equals + 1)));
    } catch (const Error& error) {
      reader.fail(error.what());
    }
    if (!is_option) reader.fail(fmt::format("there is no option '{}'", name));
  }
}

template <class Options>
bool set_by_name(const auto& fields, Options& options, const std::string& name,
                 const std::string& value) {
  for (const auto& field : fields)
    if (field.name == name) return field.set(options, value), true;
  return false;
}

}  // namespace

std::span<const TrainField> train_fields() {
  static const std::vector<TrainField> fields = [] {
    TrainRows rows;
    rows.group("Data", add_data);
    rows.group("Training", add_training);
    rows.group("Validation", add_validation);
    rows.group("Run", add_run);
    return std::move(rows.all);
  }();
  return fields;
}

std::vector<models::OptionField<UseOptions>> use_fields(unsigned command) {
  UseRows rows;
  add_data(rows), add_search(rows), add_align(rows), add_output(rows);
  std::vector<models::OptionField<UseOptions>> fields;
  for (UseField& row : rows.all)
    if ((row.commands & command) != 0) fields.push_back(std::move(row));
  return fields;
}

TrainOptions train_options(bool sentences) {
  TrainOptions o;
  o.sentences = sentences;
  set_model(o, "seq2seq");
  if (sentences) {
    o.epochs = 30;
  } else {
    o.longest = 5000, o.pool = 1280, o.schedule = RateSchedule::late_decay;
    o.validate_every = 250, o.patience = 12, o.average = 0.998;
  }
  return o;
}

/// seq2seq starts as the conditional GRU of Nematus.
void set_model(TrainOptions& o, const std::string& name) {
  if (name == o.model.name) return;
  const char* size = o.sentences ? "256" : "128";
  o.model = models::model_options(name, {{"embedding", o.sentences ? "256" : "64"},
                                         {"hidden", size},
                                         {"attention", size},
                                         {"readout", size},
                                         {"encoder-layers", o.sentences ? "1" : "2"},
                                         {"start", "mean"},
                                         {"attend", "between"},
                                         {"readout-kind", "tanh"},
                                         {"dropout", o.sentences ? "0.2" : "0.3"},
                                         {"label-smoothing", "0.1"}});
}

void read_config(TrainOptions& options) {
  // A model's name decides the defaults of its options, wherever it stands.
  read_lines(options.config, [&](const std::string& name, const std::string& value) {
    if (name == "model") set_model(options, value);
    return true;
  });
  read_lines(options.config, [&](const std::string& name, const std::string& value) {
    return name == "model" || set_by_name(train_fields(), options, name, value) ||
           set_by_name(models::all_model_fields(), options.model, name, value);
  });
}

void read_config(UseOptions& options, unsigned command) {
  read_lines(options.config, [&](const std::string& name, const std::string& value) {
    if (name == "model") return options.models.emplace_back(value), true;
    return set_by_name(use_fields(command), options, name, value);
  });
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
  o.sentences = o.metric == Metric::bleu;
  return o;
}

TrainOptions stored_options(const std::filesystem::path& checkpoint) {
  const Safetensors file = load_safetensors(checkpoint);
  return reading(checkpoint, [&] {
    check_format(file.metadata);
    return train_options_from(file.metadata);
  });
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
