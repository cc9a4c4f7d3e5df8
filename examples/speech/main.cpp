// speech: attention models that listen.
#include "program.hpp"
#include "support/commands.hpp"
#include "support/page.hpp"
#include "support/processes.hpp"

namespace attune::speech {
namespace {

using models::choice_field, models::flag_field, models::number_field, models::text_field;

/// How to search, of a command whose options are `Arguments`.
template <class Arguments>
std::vector<models::OptionField<Arguments>> hearing_fields() {
  return {number_field<Arguments>(
              "beam", "beam size of the search; 1 is greedy",
              [](Arguments & o) -> auto& { return o.hear.beam; }, 1, 100),
          flag_field<Arguments, bool>(
              "no-ctc", "search by attention alone",
              [](Arguments & o) -> auto& { return o.hear.ctc; }, true, false)};
}

std::vector<models::OptionField<RecogniseArguments>> recognise_fields() {
  using Options = RecogniseArguments;
  return {
      number_field<Options>("rate", "samples per second of standard input (default: the model's)",
                            &Options::rate, 1000, 192000),
      number_field<Options>("pause",
                            "seconds of quiet after which a line is written for what was said "
                            "until then on standard input; 0: one line at its end",
                            &Options::pause, 0, 60),
      json_field(&Options::json, "one JSON object a line: text, probability, tokens with times")};
}

std::vector<models::OptionField<EvaluateArguments>> evaluate_fields() {
  using Options = EvaluateArguments;
  return {
      text_field<Options>("digits",
                          "instead of lists: directory of the Free Spoken Digit Dataset, whose "
                          "recordings are measured one by one, and joined to strings",
                          &Options::digits),
      number_field<Options>("first", "number of the first recording; weights are chosen by 5 to 9",
                            &Options::first, 0, 1e6),
      number_field<Options>("last", "number of the last recording", &Options::last, 0, 1e6),
      number_field<Options>("max-digits", "digits of a string at most", &Options::longest, 1, 100),
      number_field<Options>("strings", "of each length", &Options::strings, 1, 10000),
      json_field(&Options::json, "a line of JSON for each of them")};
}

std::vector<models::OptionField<AlignArguments>> align_fields() {
  using Options = AlignArguments;
  return {choice_field<Options, AlignFormat>(
              "format", "of the times; textgrid, Praat's, is a file for each recording",
              &Options::format,
              {{AlignFormat::json, "json"},
               {AlignFormat::textgrid, "textgrid"},
               {AlignFormat::tsv, "tsv"}}),
          text_field<Options>("out", "file to write (default: standard output), or directory",
                              &Options::out)};
}

std::vector<models::OptionField<ReportArguments>> report_fields() {
  using Options = ReportArguments;
  return {
      text_field<Options>("out", "file to write (default: report.html beside the model)",
                          &Options::out),
      text_field<Options>("list", "file with utterances (default: what the model was chosen by)",
                          &Options::list),
      number_field<Options>("examples", "utterances to draw", &Options::examples, 1, 1000)};
}

void add_training(Command& command, TrainOptions& o, const std::set<std::string>& left_out = {}) {
  command.add(train_fields(), o, "Training", left_out)
      .add(recogniser_fields(), o.network, "Model", left_out)
      .add(log_mel_fields(), o.features, "Features");
}

int run(int argc, char** argv) {
  TrainOptions trained;
  RecogniseArguments recognised;
  EvaluateArguments evaluated;
  AlignArguments aligned;
  ReportArguments reported;
  CompareArguments compared;
  compared.train.out = "speech-compare";
  Commands commands("speech", "Writes what was said, with attention.",
                    "speech train --digits recordings && speech recognise 7_jackson_5.wav");
  const char* const list = "file: RECORDING TAB TRANSCRIPT, a line each";
  add_training(commands
                   .add("train", "train a model on recordings", "--digits recordings",
                        [&] {
                          return then_report(train(trained), trained, [](const auto& best) {
                            return report({.model = best});
                          });
                        })
                   .add(run_fields<TrainOptions>(), trained)
                   .basic({"out", "resume", "digits", "list", "valid-list", "tokens", "steps",
                           "batch", "rate", "seed", "hidden", "layers", "dropout", "ctc", "score"})
                   .resumes(trained, stored_options),
               trained);
  commands
      .add("recognise", "write what is said in recordings", "7_jackson_5.wav --json",
           [&] { return recognise(recognised); })
      .arguments("files",
                 "recordings (WAV, FLAC, Ogg); without any, raw samples of 16 bits, little-endian, "
                 "of one channel are read from standard input",
                 recognised.files)
      .model(recognised.model)
      .add(hearing_fields<RecogniseArguments>(), recognised)
      .add(recognise_fields(), recognised);
  commands
      .add("evaluate", "measure a model, by length", "--digits recordings --first 0 --last 4",
           [&] { return evaluate(evaluated); })
      .arguments("lists", list, evaluated.lists)
      .model(evaluated.model)
      .add(hearing_fields<EvaluateArguments>(), evaluated)
      .add(evaluate_fields(), evaluated);
  commands
      .add("align", "when each word of a transcript was said",
           "list.tsv --format textgrid --out times", [&] { return align(aligned); })
      .argument("list", list, aligned.list)
      .model(aligned.model)
      .add(align_fields(), aligned);
  commands
      .add("report", "write an HTML page: attention above spectrograms, errors",
           "--list list.tsv --examples 5", [&] { return report(reported); })
      .model(reported.model)
      .add(report_fields(), reported);
  // What the variants and the seeds say is left out.
  add_training(commands
                   .add("compare", "train kinds of attention with several seeds; a table",
                        "--digits recordings --seeds 2", [&] { return compare(compared); })
                   .add(comparison_fields<CompareArguments>(variant_names()), compared)
                   .in_processes(),
               compared.train,
               {"list", "valid-list", "tokens", "seed", "attends", "score", "window"});
  return commands.run(argc, argv);
}

}  // namespace
}  // namespace attune::speech

int main(int argc, char** argv) {
  return attune::run_program("speech", [&] { return attune::speech::run(argc, argv); });
}
