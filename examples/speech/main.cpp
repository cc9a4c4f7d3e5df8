// speech: attention models that listen.
#include "speech.hpp"
#include "support/commands.hpp"
#include "support/page.hpp"
#include "support/processes.hpp"

namespace attune::speech {
namespace {

const auto number = [](const char* name, const char* help, auto member, double low, double high) {
  return models::number_field<Arguments>(name, help, member, low, high);
};

const auto text = [](const char* name, const char* help, auto member) {
  return models::text_field<Arguments>(name, help, member);
};

Fields<Arguments> hearing_fields() {
  return {number(
              "beam", "beam size of the search; 1 is greedy",
              [](Arguments & o) -> auto& { return o.hear.beam; }, 1, 100),
          models::flag_field<Arguments, bool>(
              "no-ctc", "search by attention alone",
              [](Arguments & o) -> auto& { return o.hear.ctc; }, true, false)};
}

Fields<Arguments> recognise_fields() {
  return {
      number("rate", "samples per second of standard input (default: the model's)",
             &Arguments::rate, 1000, 192000),
      number("pause",
             "seconds of quiet after which a line is written for what was said "
             "until then on standard input; 0: one line at its end",
             &Arguments::pause, 0, 60),
      json_field(&Arguments::json, "one JSON object a line: text, probability, tokens with times")};
}

Fields<Arguments> evaluate_fields() {
  return {text("digits",
               "instead of lists: directory of the Free Spoken Digit Dataset, whose "
               "recordings are measured one by one, and joined to strings",
               &Arguments::digits),
          number("first", "number of the first recording; weights are chosen by 5 to 9",
                 &Arguments::first, 0, 1e6),
          number("last", "number of the last recording", &Arguments::last, 0, 1e6),
          number("max-digits", "digits of a string at most", &Arguments::longest, 1, 100),
          number("strings", "of each length", &Arguments::strings, 1, 10000),
          json_field(&Arguments::json, "a line of JSON for each of them")};
}

Fields<Arguments> align_fields() {
  return {models::choice_field<Arguments, AlignFormat>(
              "format", "of the times; textgrid, Praat's, is a file for each recording",
              &Arguments::format,
              {{AlignFormat::json, "json"},
               {AlignFormat::textgrid, "textgrid"},
               {AlignFormat::tsv, "tsv"}}),
          text("out", "file to write (default: standard output), or directory", &Arguments::out)};
}

Fields<Arguments> report_fields() {
  return {text("out", "file to write (default: report.html beside the model)", &Arguments::out),
          text("list", "file with utterances (default: what the model was chosen by)",
               &Arguments::list),
          number("examples", "utterances to draw", &Arguments::examples, 1, 1000)};
}

void add_training(Command& command, TrainOptions& o, const std::set<std::string>& left_out = {}) {
  command.add(training_fields(), o, "Training", left_out)
      .add(network_fields(), o, "Model", left_out)
      .add(feature_fields(), o, "Features");
}

int run(int argc, char** argv) {
  TrainOptions trained;
  Arguments o;
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
           [&] { return recognise(o); })
      .arguments("files",
                 "recordings (WAV, FLAC, Ogg); without any, raw samples of 16 bits, little-endian, "
                 "of one channel are read from standard input",
                 o.inputs)
      .model(o.model)
      .add(hearing_fields(), o)
      .add(recognise_fields(), o);
  commands
      .add("evaluate", "measure a model, by length", "--digits recordings --first 0 --last 4",
           [&] { return evaluate(o); })
      .arguments("lists", list, o.inputs)
      .model(o.model)
      .add(hearing_fields(), o)
      .add(evaluate_fields(), o);
  commands
      .add("align", "when each word of a transcript was said",
           "list.tsv --format textgrid --out times", [&] { return align(o); })
      .argument("list", list, o.list)
      .model(o.model)
      .add(align_fields(), o);
  commands
      .add("report", "write an HTML page: attention above spectrograms, errors",
           "--list list.tsv --examples 5", [&] { return report(o); })
      .model(o.model)
      .add(report_fields(), o);
  // Without the options that variants and seeds set.
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
