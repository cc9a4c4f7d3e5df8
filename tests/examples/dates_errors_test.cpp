// What the dates program says when it cannot do what was asked: status 1 and one line.
#include <optional>

#include <fmt/ranges.h>

#include <attune/models/presets.hpp>

#include "program.hpp"
#include "support/capture.hpp"

namespace attune::dates::test {
namespace {

TEST_CASE("dates: --help of the program and of every command names every option") {
  CHECK(contains(output_of({"--help"}), "Example: "));
  check_examples(ATTUNE_DATES, {"train", "predict", "evaluate", "compare", "align", "report"});
  for (const char* command : {"train", "predict", "evaluate", "compare", "align", "report"})
    CHECK(contains(output_of({"--help"}), fmt::format("\n  {} ", command)));
  const std::vector<std::pair<std::string, Arguments>> commands = {
      {"train",
       {"--out", "--resume", "--steps", "--batch", "--rate", "--clip", "--seed", "--validate-every",
        "--locales", "--held-out", "--train", "--valid", "--model", "--threads"}},
      {"compare",
       {"--out", "--variants", "--markdown", "--steps", "--batch", "--rate", "--clip", "--seed",
        "--validate-every", "--locales", "--held-out", "--train", "--valid", "--embedding",
        "--hidden", "--half-width", "--dropout", "--threads", "luong-local-p"}},
      {"align", {"file", "--model", "--format", "--rule", "--out", "--threads", "html", "current"}},
      {"predict", {"--model", "--beam", "--json", "--attention", "--threads", "always", "dates"}},
      {"evaluate", {"--model", "--beam", "--json", "--threads", "file"}},
      {"report", {"--model", "--out", "--file", "--examples", "--threads"}}};
  for (const auto& [command, options] : commands) {
    const ProcessResult result = run({command, "--help"});
    CHECK(result.status == 0);
    CHECK(result.err.empty());
    for (const std::string& option : options) {
      CAPTURE(option);
      CHECK(contains(result.out, "  " + option + " ") != contains(result.out, " " + option + ","));
    }
  }
}

/// One space for any run of white space.
std::string flowed(const std::string& text) {
  std::istringstream stream(text);
  std::string result;
  for (std::string word; stream >> word;) result += word + " ";
  return result;
}

TEST_CASE("dates train --help: every option of the general model with its choices, in groups") {
  const std::string help = flowed(output_of({"train", "--help"}));
  for (const auto& field : models::seq2seq_fields()) {
    const std::string usage =
        fmt::format(" --{} {}=", field.name, field.choices.empty() ? "NUMBER" : "NAME");
    CHECK_MESSAGE(contains(help, usage), usage);
    CHECK(contains(help, flowed(field.help + (field.choices.empty() ? "" : ":"))));
    CHECK(contains(help, flowed(fmt::format("{}", fmt::join(field.choices, ", ")))));
  }
  for (const models::Preset& preset : models::presets())
    CHECK(contains(help, fmt::format(" - {}: {} ", preset.name, preset.what)));
  std::size_t at = 0;
  for (const char* group :
       {" Training: --steps ", " Data: --locales ", " Model: --model ", " Sizes: --embedding ",
        " Wiring: --encoder-cell ", " Attention: --score ",
        " Output and regularisation: --readout-kind "}) {
    CAPTURE(group);
    CHECK(help.find(group) != help.npos);
    CHECK(help.find(group) > at);
    at = help.find(group);
  }
}

TEST_CASE("dates train --help: its defaults are those of --model, and no line is too long") {
  CHECK(contains(output_of({"train", "--help"}), "--score NAME=additive "));
  const std::string help = output_of({"train", "--help", "--model", "luong"});
  CHECK(contains(help, "--score NAME=general "));
  CHECK(contains(help, "--hidden NUMBER=64 "));
  for (const char* command : {"train", "predict", "evaluate", "compare", "align", "report"}) {
    for (const std::string& line : lines_of(output_of({command, "--help"})))
      CHECK_MESSAGE(line.size() <= 100, line);
  }
}

TEST_CASE("dates: a missing, unknown or second command is an error") {
  CHECK(contains(error_of({}),
                 "no command: train, predict, evaluate, compare, align or report was expected"));
  CHECK(contains(error_of({"evaluate"}), "file is required"));
}

TEST_CASE("dates: an unknown command or option is named, with the one that was perhaps meant") {
  CHECK(error_of({"forecast"}) ==
        "dates: 'forecast' is not a command: train, predict, evaluate, compare, align or report "
        "was expected");
  CHECK(error_of({"trian"}) == "dates: 'trian' is not a command; did you mean train?");
  CHECK(error_of({"--forecast"}) == "dates: '--forecast' is not an option");
  CHECK(error_of({"train", "--learning-rate", "0.1"}) ==
        "dates: train: '--learning-rate' is not an option; did you mean --rate?");
  CHECK(error_of({"train", "--sede=3"}) ==
        "dates: train: '--sede=3' is not an option; did you mean --seed?");
  CHECK(error_of({"evaluate", "a.tsv", "b.tsv"}) == "dates: evaluate: 'b.tsv' is not expected");
}

TEST_CASE("dates: an option out of range is named, with its value and range, and nothing is made") {
  const Directory directory;
  const auto options = std::vector<Arguments>{
      {"--steps", "-1"},       {"--steps", "many"},       {"--batch", "0"},
      {"--hidden", "0"},       {"--hidden", "65537"},     {"--embedding", "-1"},
      {"--attention", "0"},    {"--readout", "1.5"},      {"--dropout", "1"},
      {"--dropout", "-0.1"},   {"--rate", "-1"},          {"--rate", "11"},
      {"--clip", "0"},         {"--validate-every", "0"}, {"--held-out", "0"},
      {"--held-out", "36525"}, {"--threads", "0"}};
  for (const Arguments& option : options) {
    CAPTURE(option[0]);
    CAPTURE(option[1]);
    const std::string line = error_of(train(directory / "out", option));
    CHECK(contains(line, option[0] + ":"));
    CHECK(contains(line, option[1]));
    CHECK(contains(line, " to "));
  }
  CHECK(contents_of(directory.path()).empty());
  for (const char* beam : {"0", "101", "wide"})
    CHECK(contains(error_of(predict({"--beam", beam, "3 May 1979"})), "--beam:"));
}

TEST_CASE("dates: an option that has no effect with the others is an error") {
  const Directory directory;
  const auto error = [&](const Arguments& options) {
    return error_of(train(directory / "out", options));
  };
  CHECK(error({"--heads", "2"}) == "dates: --heads: it has no effect without score multi-head");
  CHECK(error({"--score", "dot", "--filters", "2"}) ==
        "dates: --filters: it has no effect without score location-aware");
  CHECK(error({"--half-width", "3"}) == "dates: --half-width: it has no effect without a window");
  CHECK(error({"--locales", "de", "--train", "a.tsv"}) == "dates: --locales excludes --train");
  CHECK(contents_of(directory.path()).empty());
}

TEST_CASE("dates: --seed that is no number of 64 bits is an error") {
  const Directory directory;
  for (const std::string seed : {"-1", "one", "18446744073709551616"}) {
    CAPTURE(seed);
    CHECK(contains(error_of(train_tiny(directory / "out", forty_steps + Arguments{"--seed", seed})),
                   "--seed"));
  }
  CHECK(contents_of(directory.path()).empty());
}

TEST_CASE("dates: a number's range is not printed as one that contains the number") {
  const Directory directory;
  CHECK_FALSE(contains(error_of(train(directory / "out", {"--rate", "0"})), "range 0.000000"));
  CHECK_FALSE(contains(error_of(train(directory / "out", {"--clip", "0"})), "range 0.000000"));
}

TEST_CASE(
    "dates: a rate, clip or dropout that is not a number is refused before anything is made") {
  const Directory directory;
  for (const std::string option : {"--rate", "--clip", "--dropout"}) {
    CAPTURE(option);
    const std::string line =
        error_of(train_tiny(directory / "out", forty_steps + Arguments{option, "nan"}));
    CHECK(contains(line, option));
    CHECK(contents_of(directory.path()).empty());
  }
}

TEST_CASE("dates: an unknown name is refused with the option and the names there are") {
  const Directory directory;
  const std::vector<std::pair<std::string, std::string>> options = {
      {"--encoder-cell", "gru, gru-reset-before, lstm"},
      {"--decoder-cell", "gru, gru-reset-before, lstm"},
      {"--start", "zero, last, mean, bridge"},
      {"--readout-kind", "tanh, maxout, attentional"},
      {"--model", "bahdanau, luong, conditional, encoder-decoder, sutskever"},
      {"--score",
       "additive, dot, scaled-dot, general, concat, location, cosine, multi-head, location-aware"},
      {"--window", "global, local-m, local-p"},
      {"--readout-state", "current, previous"}};
  for (const auto& [option, names] : options) {
    CAPTURE_BINDING(option);
    const std::string line = error_of(train(directory / "out", {option, "foo"}));
    CHECK(contains(line, option));
    CHECK(contains(line, "'foo' is not one of " + names));
  }
  const std::string line = error_of(predict({"--attention", "sometimes", "3 May 1979"}));
  CHECK(contains(line, "--attention"));
  CHECK(contains(line, "always, auto, never"));
  CHECK(contents_of(directory.path()).empty());
}

TEST_CASE("dates: an unknown option is named") {
  for (const char* command : {"train", "predict", "evaluate", "compare", "align", "report"})
    CHECK(contains(error_of({command, "--colour", "x"}), "--colour"));
}

TEST_CASE("dates: an unknown locale is named, and nothing is made") {
  const Directory directory;
  for (const std::string list : {"xx", "en,xx", "", "en,,de"}) {
    CAPTURE(list);
    const std::string line = error_of(train(directory / "out", {"--locales", list}));
    CHECK(contains(line, "--locales: "));
    CHECK(contains(line, contains(list, "xx") ? "'xx'" : "''"));
  }
  CHECK(contents_of(directory.path()).empty());
}

TEST_CASE("dates: --out that is a file, or below one, is named") {
  const Directory directory;
  write(directory / "file", "mine");
  for (const std::string& out : {directory / "file", directory / "file/out"}) {
    const std::string line = error_of(train_tiny(out, forty_steps));
    CHECK(contains(line, out + ": cannot be made: Not a directory"));
    CHECK(contains(error_of(train_tiny(out, forty_steps + Arguments{"--resume"})), out));
  }
  CHECK(read(directory / "file") == "mine");
  CHECK(contents_of(directory.path()).size() == 1);
}

TEST_CASE("dates: ATTUNE_THREADS that is no number of threads is named") {
  const Directory directory;
  for (const std::string threads : {"abc", "0", "-1", "1.5", "1025"}) {
    CAPTURE(threads);
    const ProcessOptions options{.environment = {{"ATTUNE_THREADS", threads}}};
    const std::string line = error_of(train_tiny(directory / "out", forty_steps), options);
    CHECK(contains(line, fmt::format("ATTUNE_THREADS: '{}'", threads)));
    CHECK(contains(line, "1 to 1024"));
    CHECK(contains(error_of(predict({"3 May 1979"}), options), "ATTUNE_THREADS"));
  }
}

TEST_CASE("dates: an error in ATTUNE_THREADS comes before anything is made") {
  const Directory directory;
  error_of(train_tiny(directory / "out", forty_steps),
           {.environment = {{"ATTUNE_THREADS", "abc"}}});
  CHECK(contents_of(directory.path()).empty());
}

TEST_CASE("dates: --threads counts, whatever ATTUNE_THREADS is") {
  const ProcessOptions options{.environment = {{"ATTUNE_THREADS", "abc"}}};
  CHECK(output_of(predict({"3 May 1979", "--threads", "1"}), options) ==
        output_of(predict({"3 May 1979"})));
}

TEST_CASE("dates: a line of a file that is no example is named by file and line") {
  const Directory directory;
  const std::string file = directory / "rows.tsv", good = "3 May 1979\t1979-05-03\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {good + "3 M\xe4rz 1979\t1979-03-03\n", ":2: byte 4 of the line (0xE4) is not UTF-8"},
      {good + good + "3 May 1979\n", ":3: one column, expected source TAB target"},
      {"\t1979-05-03\n", ":1: the source is empty"},
      {good + "3 May 1979\t\n", ":2: the target is empty"},
      {"3 May 1979\t1979-05-03\ty:6-11\n", ":1: span 'y:6-11' is beyond the source"},
      {"3 May 1979\t1979-05-03\tyear\n", ":1: span 'year' is malformed"},
      {std::string(10'001, '1') + "\t1979-05-03\n", ":1: the source has 10001 code points"},
      {"", ": no examples"}};
  for (const auto& [content, expected] : cases) {
    CAPTURE_BINDING(expected);
    write(file, content);
    const std::string message = file + expected;
    CHECK(contains(error_of({"evaluate", "--model", Trained::get().model(), file}), message));
    CHECK(contains(error_of(train_tiny(directory / "out", {"--train", file})), message));
    CHECK(contains(error_of(train_tiny(directory / "out", {"--valid", file})), message));
    CHECK(error_of({"report", "--model", Trained::get().model(), "--file", file, "--out",
                    directory / "page.html"})
              .starts_with("dates: " + message));
  }
  CHECK(contents_of(directory.path()).size() == 1);
}

TEST_CASE("dates: a file that is missing or a directory is named") {
  const Directory directory;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {directory / "missing", "No such file or directory"}, {directory.path(), "Is a directory"}};
  for (const auto& [file, reason] : cases) {
    const std::string message = file + ": cannot be read: " + reason;
    CHECK(contains(error_of({"evaluate", "--model", Trained::get().model(), file}), message));
    CHECK(contains(error_of(train_tiny(directory / "out", {"--train", file})), message));
    const std::string of_model =
        std::filesystem::exists(file)
            ? file + "/best.safetensors: cannot be read: No such file or directory"
            : message;
    CHECK(contains(error_of({"predict", "--model", file, "3 May 1979"}), of_model));
    CHECK(contains(error_of({"report", "--model", file}), of_model));
  }
  CHECK(contents_of(directory.path()).empty());
}

TEST_CASE("dates: a checkpoint that was cut short anywhere is refused by name") {
  const Directory directory;
  output_of(train_tiny(directory.path(), {"--steps", "5"}));
  const std::string whole = read(directory / "last.safetensors");
  const std::string cut = directory / "cut.safetensors";
  const std::string resumed = directory / "resumed";
  std::filesystem::create_directory(resumed);
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, std::size_t{8}, std::size_t{100},
                                 std::size_t{5000}, whole.size() / 2, whole.size() - 1}) {
    CAPTURE(size);
    write(cut, whole.substr(0, size));
    CHECK(contains(error_of({"predict", "--model", cut, "3 May 1979"}), cut));
    write(resumed + "/last.safetensors", whole.substr(0, size));
    CHECK(contains(error_of(train(resumed, {"--resume"})), resumed + "/last.safetensors"));
    CHECK(contents_of(resumed).size() == 1);
  }
  write(cut, whole + "x");
  CHECK(contains(error_of({"predict", "--model", cut, "3 May 1979"}), cut));
}

TEST_CASE("dates: a file of something else is refused as a checkpoint, by name") {
  const Directory directory;
  const std::string file = directory / "other.safetensors";
  write(file, example_rows(100));
  CHECK(contains(error_of({"predict", "--model", file, "3 May 1979"}), file));
  CHECK(contains(error_of({"report", "--model", file}), file));
  save_safetensors(file, {.tensors = {{"w", Tensor::of<float>({2}, {1, 2})}},
                          .metadata = {{"made by", "something else"}}});
  CHECK(contains(error_of({"predict", "--model", file, "3 May 1979"}), file));
  CHECK(contains(error_of({"evaluate", "--model", file, file}), file));
}

TEST_CASE("dates: --resume from a checkpoint of something else is refused by name") {
  const Directory directory;
  const std::string file = directory / "last.safetensors";
  save_safetensors(file, {.tensors = {{"w", Tensor::of<float>({2}, {1, 2})}}, .metadata = {}});
  CHECK(contains(error_of(train(directory.path(), {"--resume"})), file));
  std::filesystem::copy(Trained::get().model(), file,
                        std::filesystem::copy_options::overwrite_existing);
  CHECK(contains(error_of(train(directory.path(), {"--resume"})), file));  // no state of Adam
  CHECK(contents_of(directory.path()).size() == 1);
}

/// The shared model with another entry in its metadata, or without the entry.
void save_changed(const std::string& path, const std::string& name,
                  const std::optional<std::string>& value) {
  Safetensors file = load_safetensors(Trained::get().model());
  REQUIRE(file.metadata.erase(name) == 1);
  if (value) file.metadata[name] = *value;
  save_safetensors(path, file);
}

TEST_CASE("dates: a checkpoint whose options do not fit its tensors is refused by name") {
  const Directory directory;
  const std::string file = directory / "changed.safetensors";
  const std::vector<std::pair<std::string, std::string>> changes = {
      {"hidden", "33"},
      {"hidden", "0"},
      {"hidden", "-32"},
      {"hidden", "65537"},
      {"hidden", "wide"},
      {"embedding", "17"},
      {"attention", "15"},
      {"readout", "99999999999999999999"},
      {"encoder-cell", "lstm"},
      {"decoder-cell", "transformer"},
      {"readout-kind", "tanh"},
      {"score", "general"},
      {"window", "local-p"},
      {"attend", "never"},
      {"encoder-layers", "2"},
      {"start", "anywhere"},
      {"dropout", "2"},
      {"format", "attune dates 0"},
      {"source_vocabulary", R"(["a", "b"])"},
      {"source_vocabulary", "letters"},
      {"target_vocabulary", "{}"},
      {"target_vocabulary", R"(["0", "0"])"}};
  for (const auto& [name, value] : changes) {
    CAPTURE_BINDING(name);
    CAPTURE_BINDING(value);
    save_changed(file, name, value);
    CHECK(contains(error_of({"predict", "--model", file, "3 May 1979"}), file));
  }
  for (const std::string name :
       {"format", "hidden", "encoder-cell", "model", "score", "source_vocabulary", "dropout"}) {
    CAPTURE(name);
    save_changed(file, name, std::nullopt);
    CHECK(contains(error_of({"report", "--model", file}), file));
  }
}

TEST_CASE(
    "dates: a checkpoint with a tensor too few, too many or of another shape is refused by both "
    "names") {
  const Directory directory;
  const std::string file = directory / "changed.safetensors";
  const std::vector<std::tuple<std::string, std::string, std::string>> changes = {
      {"encoder-layers", "2", "encoder.layer2.forward."},
      {"window", "local-p", "attention.W_p"},
      {"input-feeding", "yes", "decoder.W_feed"},
      {"attend", "never", "' is no part of the model of its options"},
      {"hidden", "33", " (16, 99) "}};
  for (const auto& [name, value, tensor] : changes) {
    CAPTURE_BINDING(name);
    save_changed(file, name, value);
    const std::string line = error_of({"predict", "--model", file, "3 May 1979"});
    CHECK_MESSAGE(line.starts_with("dates: " + file + ": "), line);
    CHECK_MESSAGE(contains(line, tensor), line);
  }
}

TEST_CASE("dates: nothing that stands in a checkpoint reaches a terminal as a control character") {
  const std::string hostile = "\x1b]0;\a\n\x7f\u009b\u202e";
  const Directory directory;
  const std::string file = directory / "last.safetensors";
  const Safetensors good = load_safetensors(Trained::get().model());
  const auto refused = [&](const Safetensors& contents, const Arguments& arguments) {
    save_safetensors(file, contents);
    CHECK(contains(error_of(arguments), R"(\x1b]0;\x07\n\x7f\u009b\u202e)"));
  };
  const Arguments predict = {"predict", "--model", file, "3 May 1979"},
                  report = {"report", "--model", file},
                  resume = train(directory.path(), {"--resume"});
  for (const auto& entry : std::vector<std::pair<std::string, Arguments>>{{"hidden", predict},
                                                                          {"score", predict},
                                                                          {"steps", report},
                                                                          {"steps", resume},
                                                                          {"locales", report},
                                                                          {"train", report},
                                                                          {"seconds", report}}) {
    CAPTURE(entry.first);
    Safetensors contents = good;
    contents.metadata[entry.first] = hostile;
    refused(contents, entry.second);
  }
  Safetensors contents = good;
  contents.metadata["target_vocabulary"] = Json({hostile, hostile}).dump();
  refused(contents, predict);
  contents = good;
  contents.add(hostile, zeros({1}));
  refused(contents, predict);
}

TEST_CASE("dates: tokens of a vocabulary are printed without their control characters") {
  const Directory directory;
  const std::string file = directory / "model.safetensors", rows = directory / "rows.tsv";
  Safetensors contents = load_safetensors(Trained::get().model());
  std::string& vocabulary = contents.metadata.at("target_vocabulary");
  vocabulary.replace(vocabulary.find("\"-\""), 3, "\"\\u001b[31m\"");
  save_safetensors(file, contents);
  const Arguments predict = {"predict", "--model", file, "--attention", "always", "3 May \u00a1"};
  const ProcessResult result = run(predict);
  CHECK(result.status == 0);
  CHECK(contains(result.out, R"(\x1b[31m)"));
  CHECK(is_plain(result.out));
  CHECK(is_plain(run(predict + Arguments{"--json"}).out));
  write(rows, "3 May 1979\t1979-05-03\n3 May \x1b[31m79\tnever \u009b31m\n");
  const std::string evaluated = output_of({"evaluate", "--model", file, rows});
  CHECK(contains(evaluated, R"(never \u009b31m  3 May \x1b[31m79)"));
  CHECK(is_plain(evaluated));
}

TEST_CASE("dates: a checkpoint whose training options are damaged is refused by name in a report") {
  const Directory directory;
  const std::string file = directory / "changed.safetensors";
  const std::vector<std::pair<std::string, std::optional<std::string>>> changes = {
      {"exact_match", "all"}, {"seconds", "long"},    {"held-out", "-4"},
      {"locales", "xx"},      {"seed", std::nullopt}, {"steps", "forty"}};
  for (const auto& [name, value] : changes) {
    CAPTURE_BINDING(name);
    save_changed(file, name, value);
    CHECK(contains(error_of({"report", "--model", file}), file));
    CHECK_FALSE(std::filesystem::exists(directory / "report.html"));
  }
}

TEST_CASE("dates train: --resume of a checkpoint with any entry changed goes on or refuses it") {
  const Directory directory;
  output_of(train_tiny(directory.path(), {"--steps", "10"}));
  check_resumes_or_refuses("dates", directory.path(), {"train", "valid"}, [&] {
    return run(train(directory.path(), {"--resume", "--steps", "12"}));
  });
}

TEST_CASE("dates: a checkpoint that claims enormous sizes is refused without the memory for them") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return;  // a sanitizer needs more address space than the test leaves
#endif
  const Directory directory;
  const std::string file = directory / "last.safetensors";
  save_changed(file, "hidden", "16384");  // W_h alone would have 3 GiB
  for (const std::string& arguments :
       {"predict 1979 --model " + file, "train --resume --out " + directory.path()}) {
    const std::string command =
        fmt::format("ulimit -v 2000000; exec {} {}", ATTUNE_DATES, arguments);
    const std::string line = error_line(attune::test::run_process({"sh", "-c", command}));
    CHECK(contains(line, file));
    CHECK_FALSE(contains(line, "memory"));
  }
}

}  // namespace
}  // namespace attune::dates::test
