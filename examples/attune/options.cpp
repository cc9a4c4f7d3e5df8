#include "options.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <attune/tensor/check.hpp>

#include "model.hpp"
#include "support/commands.hpp"
#include "support/output.hpp"
#include "support/run_directory.hpp"

namespace attune::pairs {
namespace {

using models::flag_field, models::only_with, models::text_field;

/// An option that is a text of another type: FILE, PATH, ...
template <class Options>
models::OptionField<Options> file(const char* name, const char* help, auto member,
                                  const char* type = "FILE") {
  auto field = text_field<Options>(name, help, member);
  field.type = type;
  return field;
}
template <class Options>
models::OptionField<Options> number(const char* name, const char* help, auto member, double low,
                                    double high = 1e9) {
  return models::number_field<Options>(name, help, member, low, high);
}
template <class Options, class Base>
models::OptionField<Options> flag(const char* name, const char* help, bool Base::*member) {
  return flag_field<Options, bool>(name, help, member, false, true);
}
/// A choice of an enumeration's values, which are named in their order.
template <class Options, class Enum>
models::OptionField<Options> choice(const char* name, const char* help, Enum Options::*member,
                                    std::initializer_list<const char*> names) {
  std::vector<std::pair<Enum, const char*>> values;
  for (const char* one : names) values.emplace_back(static_cast<Enum>(values.size()), one);
  return models::choice_field<Options, Enum>(name, help, member, values);
}

constexpr const char* config_help =
    "file with more options, NAME = VALUE on each line; the command line wins";

template <class Options>
models::OptionField<Options> swap_field(std::filesystem::path Options::*target) {
  return only_with<Options>(
      "a TSV", [target](const Options& o) { return (o.*target).empty(); },
      flag_field<Options, text::Columns>("swap", "the target is the first column of a TSV",
                                         &Options::columns, text::Columns::source_first,
                                         text::Columns::target_first));
}

models::OptionField<TrainOptions> tokens_field(const char* name, const char* help,
                                               Tokens TrainOptions::*member) {
  return choice(name, help, member,
                {"auto", "words", "characters", "decomposed", "bpe", "unigram"});
}

bool learns_subwords(const TrainOptions& o) {
  return std::ranges::any_of(std::array{o.tokens, o.source_tokens, o.target_tokens}, [](Tokens t) {
    return t == Tokens::bpe || t == Tokens::unigram || t == Tokens::automatic;
  });
}

Fields<TrainOptions> data_fields() {
  using O = TrainOptions;
  const char* const subwords = "tokens bpe or unigram";
  return {
      file<O>("train", "pairs to train on: a TSV (source TAB target), or a text file of sources",
              &O::train),
      file<O>("train-target", "text file of targets, line by line", &O::train_target),
      file<O>("valid", "pairs to choose the best weights by (default: some are held out)",
              &O::valid),
      file<O>("valid-target", "their targets, where these are in another file", &O::valid_target),
      swap_field<O>(&O::train_target),
      number<O>("held-out",
                "hold out at most this many pairs, and at most a tenth, where no --valid is given",
                &O::held_out, 1),
      tokens_field("tokens",
                   "what lines are cut into; decomposed: characters, with accents and the letters "
                   "of Hangul syllables apart; bpe, unigram: subwords that are learnt; auto looks "
                   "at the data",
                   &O::tokens),
      tokens_field("source-tokens", "the same for the source alone", &O::source_tokens),
      tokens_field("target-tokens", "the same for the target alone", &O::target_tokens),
      only_with<O>(
          subwords, learns_subwords,
          number<O>("pieces", "subwords to learn, for each side or for both", &O::pieces, 10)),
      only_with<O>(
          subwords, learns_subwords,
          number<O>("learn-from", "learn subwords from at most this many lines (a random sample)",
                    &O::learn_from, 1)),
      file<O>("source-pieces", "SentencePiece model for the source, or for both sides",
              &O::source_pieces),
      file<O>("target-pieces", "SentencePiece model for the target", &O::target_pieces),
      file<O>("source-vocabulary", "tokens of the source, or of both sides, one on each line",
              &O::source_vocabulary),
      file<O>("target-vocabulary", "tokens of the target", &O::target_vocabulary),
      choice("joint", "one set of subwords and one vocabulary for both sides", &O::joint,
             {"no", "yes"}),
      choice("truecase",
             "give words at the beginning of sentences, and lines in capitals, the case they "
             "mostly have",
             &O::truecase, {"no", "yes"}),
      number<O>("min-count", "replace tokens that are rarer than this by <unk>", &O::minimum_count,
                1),
      number<O>("vocabulary", "largest vocabulary of a side; 0: no limit", &O::maximum_vocabulary,
                0),
      file<O>("alignments",
              "links between the words of each pair, as 0-0 1-2 (source first): attention "
              "learns from them",
              &O::alignments),
      number<O>("max-tokens",
                "exclude pairs with more tokens on a side (default: 5000, of sentences 100)",
                &O::longest, 1)};
}

Fields<TrainOptions> training_fields() {
  using O = TrainOptions;
  return joined<O>(
      {{number<O>("epochs", "passes over the data (0: by --steps; default of sentences: 30)",
                  &O::epochs, 0),
        number<O>("steps", "updates; 0: by --epochs, or 8000 and at least 12 epochs", &O::steps, 0),
        number<O>("minutes", "end after this many minutes; 0: no limit", &O::minutes, 0),
        number<O>("batch", "pairs in a batch", &O::batch, 1),
        number<O>("batch-tokens", "instead: target tokens in a batch, with padding; 0: count pairs",
                  &O::batch_tokens, 0),
        number<O>("pool",
                  "pairs, taken at random, that are sorted by length before batches are cut "
                  "from them",
                  &O::pool, 1),
        number<O>("rate", "learning rate of Adam", &O::rate, 1e-9, 10),
        choice("schedule",
               "of the learning rate; late-decay: constant for half of the "
               "steps, then down to 2 %",
               &O::schedule, {"constant", "late-decay", "inverse-sqrt"}),
        number<O>("warm-up", "updates in which the learning rate rises", &O::warm_up, 0),
        number<O>("halve",
                  "halve the rate after this many validations without a new best; 0: never",
                  &O::halve, 0),
        number<O>("weight-decay", "decoupled weight decay of matrices", &O::weight_decay, 0, 10),
        only_with<O>(
            "alignments", [](const O& o) { return !o.alignments.empty(); },
            number<O>("guided-alignment", "with --alignments: weight of their loss",
                      &O::guided_alignment, 0)),
        number<O>("seed", "of initial values, the order of pairs and dropout", &O::seed, 0, 1e18)},
       common_training_fields<O>()});
}

Fields<TrainOptions> validation_fields() {
  using O = TrainOptions;
  return {
      number<O>("patience", "end after this many validations without a new best", &O::patience, 1),
      choice("metric", "chooses the best weights; auto: bleu of sentences, otherwise exact matches",
             &O::metric, {"auto", "exact", "bleu", "loss"}),
      choice("bleu", "tokenisation for BLEU: sacreBLEU's 13a, or none: words between blanks",
             &O::bleu, {"13a", "none"}),
      number<O>("beam", "beam size of the search in validation", &O::beam, 1, 1000)};
}

Fields<TrainOptions> run_fields() {
  using O = TrainOptions;
  return {
      file<O>("out", "directory for best.safetensors, last.safetensors, log.jsonl and report.html",
              &O::out, "PATH"),
      flag<O>("resume", "continue from last.safetensors, where there is one", &O::resume),
      number<O>("seeds", "train this many models, each with a seed of its own: an ensemble",
                &O::seeds, 1, 1000),
      only_with<O>(
          "seeds", [](const O& o) { return o.seeds > 1; },
          number<O>("jobs",
                    "with --seeds: trainings at once, each on one thread (default: as "
                    "many as CPUs)",
                    &O::jobs, 0, 1024)),
      file<O>("config", config_help, &O::config)};
}

constexpr unsigned measures = evaluate_command | compare_command | report_command;

models::OptionField<UseOptions> of_search(models::OptionField<UseOptions> field) {
  return only_with<UseOptions>(
      "a search, which --sample replaces", [](const UseOptions& o) { return !o.sample; },
      std::move(field));
}

Fields<UseOptions> search_fields() {
  using O = UseOptions;
  using models::SearchOptions;
  const auto search = [](auto member) {
    return [member](O & o) -> auto& { return o.search.*member; };
  };
  return {
      of_search(number<O>("beam", "beam size; 1 is greedy search", search(&SearchOptions::beam), 1,
                          1000)),
      number<O>("length-penalty",
                "α: log-probabilities are divided by length^α (default: 1 for sentences, else 0)",
                search(&SearchOptions::length_penalty), 0, 10),
      of_search(number<O>("coverage-penalty", "β, against source tokens that are left out",
                          search(&SearchOptions::coverage_penalty), 0, 10)),
      number<O>("max-length",
                "most tokens of a prediction (default: by the targets of the training)",
                search(&SearchOptions::max_length), 0, 100000)};
}

Fields<UseOptions> sampling_fields() {
  using O = UseOptions;
  using models::SamplingOptions;
  const auto sampled = [](const char* name, const char* help, auto member, double low,
                          double high) {
    return only_with<O>(
        "sample", [](const O& o) { return o.sample; },
        number<O>(
            name, help, [member](O & o) -> auto& { return o.sampling.*member; }, low, high));
  };
  return {
      flag<O>("sample", "draw tokens from their probabilities instead of searching", &O::sample),
      sampled("temperature", "with --sample: below 1, likely tokens become likelier",
              &SamplingOptions::temperature, 1e-3, 1e3),
      sampled("top-k", "with --sample: draw from the k likeliest tokens; 0: from all",
              &SamplingOptions::top_k, 0, 1 << 30),
      sampled("top-p", "with --sample: draw from the likeliest tokens of this total probability",
              &SamplingOptions::top_p, 1e-9, 1),
      sampled("seed", "with --sample: of what is drawn", &SamplingOptions::seed, 0, 1e18)};
}

Fields<UseOptions> predict_fields() {
  using O = UseOptions;
  return {
      number<O>("batch", "sources in a batch", &O::batch, 1, 4096),
      flag<O>("replace-unknown", "write the source token with the largest attention for <unk>",
              &O::replace_unknown),
      choice("format",
             "columns: source TAB prediction TAB probability; text: predictions alone; moses: an "
             "n-best list as of Moses",
             &O::format, {"columns", "text", "moses"}),
      choice("attention", "when to draw the attention (auto: for what is typed)", &O::attention,
             {"auto", "always", "never"})};
}

Fields<UseOptions> align_fields() {
  using O = UseOptions;
  return {
      choice(
          "format",
          "pharaoh for links SOURCE-TARGET, from 0; tsv, json or npy (one array after the other) "
          "for weights; terminal, svg or html for drawings; auto: by the name of --out",
          &O::align_format, {"auto", "html", "json", "npy", "pharaoh", "svg", "terminal", "tsv"}),
      choice("units", "align words between blanks, or the model's tokens", &O::units,
             {"words", "tokens"}),
      file<O>(
          "gold",
          "gold links, as 1-1 2p3 (from 1; p: possible): prints the alignment error rate instead",
          &O::gold)};
}

Fields<UseOptions> compare_fields() {
  using O = UseOptions;
  return {
      list_field<O, std::int64_t>(
          "lengths", "source lengths, in words, at which a column of BLEU ends", &O::lengths, 0),
      file<O>("curves", "SVG file to draw learning curves into, of models or files of JSON lines",
              &O::curves),
      file<O>("field", "with --curves: what to draw (default: what the best weights are chosen by)",
              &O::field, "NAME"),
      file<O>("against", "with --curves: along the bottom, minutes or a field such as step",
              &O::against, "NAME"),
      text_field<O>("title", "with --curves: above the chart", &O::title)};
}

/// Calls set(name, value) for each line; false where there is no such option.
void read_lines(const std::filesystem::path& path,
                const std::function<bool(const std::string&, const std::string&)>& set) {
  const auto trimmed = [](std::string_view text) {
    const std::size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
    return begin == text.npos ? std::string() : std::string(text.substr(begin, end + 1 - begin));
  };
  text::LineReader reader(path);
  while (const auto line = reader.next()) {
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
    if (!is_option) reader.fail("there is no option " + in_quotes(name));
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

std::span<const TrainGroup> train_groups() {
  static const TrainGroup groups[] = {{"Data", data_fields()},
                                      {"Training", training_fields()},
                                      {"Validation", validation_fields()},
                                      {"Run", run_fields()}};
  return groups;
}

std::span<const models::OptionField<TrainOptions>> stored_fields() {
  static const auto fields =
      joined<TrainOptions>({data_fields(), training_fields(), validation_fields()});
  return fields;
}

Fields<UseOptions> use_fields(unsigned command) {
  using O = UseOptions;
  Fields<O> fields;
  const auto add = [&](unsigned commands, Fields<O> some) {
    if ((commands & command) != 0) std::ranges::move(some, std::back_inserter(fields));
  };
  add(measures | align_command | score_command,
      {file<O>("target", "text file of targets, where FILE has sources alone", &O::target),
       swap_field<O>(&O::target)});
  add(predict_command, {file<O>("file", "file of lines to read", &O::file)});
  add(measures | predict_command | align_command, search_fields());
  add(report_command | predict_command,
      {of_search(number<O>(
          "best", "predictions for each source (n-best)",
          [](O& o) -> Index& { return o.search.best; }, 1, 1000))});
  add(predict_command, sampling_fields());
  add(predict_command, predict_fields());
  add(align_command, align_fields());
  add(predict_command | align_command,
      {number<O>("width", "columns of a drawing in the terminal (default: the terminal's)",
                 &O::width, 10, 100000)});
  add(measures, {choice("bleu", "tokenisation for BLEU: 13a, or none: words between blanks",
                        &O::bleu, {"as-trained", "13a", "none"})});
  add(evaluate_command,
      {file<O>("sentences", "file for each pair's BLEU TAB chrF TAB prediction", &O::sentences)});
  add(compare_command, compare_fields());
  add(report_command, {number<O>("examples", "examples to show", &O::examples, 0, 1000),
                       file<O>("live",
                               "write a page that runs the model instead of a report: FILE, from "
                               "examples/page/build.sh, with the model in it",
                               &O::live)});
  add(inspect_command,
      {file<O>("export",
               "write subword models and vocabularies to files that begin so, for train "
               "--source-pieces and --source-vocabulary",
               &O::exported, "PREFIX")});
  add(evaluate_command | align_command | report_command | average_command,
      {file<O>("out", "file to write", &O::out)});
  add(predict_command | evaluate_command | score_command | compare_command | inspect_command,
      {json_field<O>(&O::json, "print JSON, one object a line")});
  add(~0u, {file<O>("config", config_help, &O::config)});
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
  require_regular(options.config);
  // A model's name decides the defaults of its options, wherever it stands; one that is typed wins.
  if (!options.typed_model.empty()) set_model(options, options.typed_model);
  read_lines(options.config, [&](const std::string& name, const std::string& value) {
    if (name == "model" && options.typed_model.empty()) set_model(options, value);
    return true;
  });
  read_lines(options.config, [&](const std::string& name, const std::string& value) {
    const auto sets = [&](const auto& group) {
      return set_by_name(group.fields, options, name, value);
    };
    return name == "model" || std::ranges::any_of(train_groups(), sets) ||
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
  Metadata map = models::fields_to_map(stored_fields(), options);
  map.merge(models::to_map(options.model));
  map["sentences"] = options.sentences ? "yes" : "no";
  return map;
}

TrainOptions train_options_from(const Metadata& metadata) {
  TrainOptions o;
  o.model = models::model_options_from(metadata);
  models::set_fields_from(stored_fields(), o, metadata);
  const auto sentences = metadata.find("sentences");
  o.sentences = sentences != metadata.end() && sentences->second == "yes";
  return o;
}

TrainOptions stored_options(const std::filesystem::path& checkpoint) {
  return from_checkpoint(checkpoint, checkpoint_format,
                         [](const Safetensors& file) { return train_options_from(file.metadata); });
}

void check_same(const TrainOptions& stored, const TrainOptions& given) {
  check_resumable(given.out, {{"model", stored.model.name}}, {{"model", given.model.name}});
  check_resumable(given.out, to_metadata(stored), to_metadata(given),
                  {"steps", "epochs", "minutes", "patience", "max-skipped"});
}

}  // namespace attune::pairs
