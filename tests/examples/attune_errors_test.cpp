// Errors of attune: invalid files, full disks, invalid lines.
#include <csignal>

#include <fmt/ranges.h>

#include "attune_program.hpp"
#include "support/capture.hpp"

namespace attune::pairs::test {
namespace {

/// Runs the program in a shell, after the commands `first`.
ProcessResult run_in_shell(const std::string& first, const Arguments& arguments) {
  return run_program("sh", Arguments{"-c", first + "\n\"$@\"", "sh", PROGRAM} + arguments);
}

Arguments with_model(const std::string& command, const Arguments& more) {
  return Trained::get().with(command, more);
}

}  // namespace

TEST_CASE("attune: refuses to train or evaluate on empty files, predicts nothing for them") {
  const Corpus corpus;
  const std::string none = corpus / "none", blank = corpus / "blank";
  write(none, ""), write(blank, "\n\n");
  const auto error = [](const std::string& file) {
    return file + " and " + file + ": contain no pairs, expected text on both sides";
  };
  const Arguments both = {"--train", blank, "--train-target", blank};
  check_refused({{corpus.train("o", one_epoch + both), error(blank)},
                 {corpus.train("o", both), error(blank)},  // subwords
                 {corpus.train("o", {"--train", none, "--train-target", none}), error(none)},
                 {with_model("evaluate", {none, none}), error(none)},
                 {with_model("report", {none, none, "--out", corpus / "page"}), error(none)}});
  CHECK(output_of(with_model("predict", {"--format", "text", "--file", none})).empty());
  CHECK(output_of(with_model("predict", {"--format", "text", "--file", blank})) == "\n\n");
  CHECK(output_of(with_model("align", {none, none})).empty());
  CHECK_FALSE(std::filesystem::exists(corpus / "o"));
}

TEST_CASE("attune: refuses empty targets before training") {
  const Corpus corpus;
  const std::string source = corpus / "s", target = corpus / "t", tsv = corpus / "tsv";
  write(source, "one\n\ntwo\n"), write(target, "EINS\n\nZWEI\n");
  write(tsv, "one\tEINS\n\ntwo\t \n");
  const std::string error = target + ":2: the target is empty";
  check_refused({{with_model("evaluate", {source, target}), error},
                 {with_model("report", {source, target}), error},
                 {with_model("compare", {source, target}), error},
                 {with_model("evaluate", {tsv}), tsv + ":3: the target is empty"}});
  write(target, "EINS\nNULL\nZWEI\n");  // an empty source with a target
  CHECK(json_of(with_model("evaluate", {source, target, "--json"})).at("pairs") == 3);
}

TEST_CASE("attune: refuses a file given both as an argument and by an option") {
  const std::string error = " is also given as the argument 'a'";
  check_refused({{{"train", "a", "--train", "b"}, "--train:" + error},
                 {{"train", "b", "a", "--train-target", "c"}, "--train-target:" + error},
                 {{"score", "b", "a", "--target", "c"}, "--target:" + error}});
}

TEST_CASE("attune: refuses options that would have no effect") {
  const Corpus corpus;
  const std::string vocabulary = corpus / "valid.en";
  check_refused(
      {{corpus.train("o", one_epoch + Arguments{"--source-vocabulary", vocabulary, "--min-count",
                                                "2", "--target-vocabulary", vocabulary}),
        "--min-count: has no effect without a vocabulary to count"},
       {corpus.train("o", {"--tokens", "decomposed", "--truecase", "yes"}),
        "--truecase: does not support decomposed characters, expected other --tokens"},
       {with_model("evaluate", {"--swap"}), "--swap: has no effect without PAIRS in a TSV"},
       {with_model("compare", {"--lengths", "5,3"}), "--lengths: expected ascending lengths"},
       {with_model("predict", {"--json", "--format", "text"}),
        "--format: has no effect without text output, which --json replaces"}});
  const std::string no = ": has no effect without ", config = corpus / "recipe.ini";
  const Arguments steps = {"--steps", "3"},
                  sides = {"--source-tokens", "words", "--target-tokens", "words"};
  const Arguments pairs = {corpus / "valid.en", corpus / "valid.xx"};
  write(config, "epochs = 1\njobs = 2\n");
  check_refused({{corpus.train("o", one_epoch + steps),
                  "--epochs" + no + "a limit in epochs, which --steps..."},
                 {corpus.train("o", steps + one_epoch),
                  "--epochs" + no + "a limit in epochs, which --steps..."},
                 {corpus.train("o", steps + Arguments{"--config", config}),
                  config + ":2: jobs" + no + "--seeds"},
                 {corpus.train("o", one_epoch + sides),
                  "--tokens" + no + "a side without tokens or pieces ..."},
                 {corpus.train("o", one_epoch + Arguments{"--batch-tokens", "99"}),
                  "--batch" + no + "batches of ..."},
                 {corpus.train("o", one_epoch + Arguments{"--score", "dot"}),
                  "--attention" + no + "score additive..."},
                 {corpus.train("o", one_epoch + Arguments{"--halve", "12"}),
                  "--halve" + no + "a larger --patience"},
                 {corpus.train("o", one_epoch + Arguments{"--vocabulary", "1"}),
                  "--vocabulary: 1 leaves only..."},
                 {with_model("align", pairs + Arguments{"--beam", "7"}),
                  "--beam" + no + "targets to predict, ..."},
                 {with_model("align", pairs + Arguments{"--max-length", "7"}),
                  "--max-length" + no + "targets to..."},
                 {with_model("predict", {"one", "--batch", "7"}),
                  "--batch" + no + "lines to read, which SOURCE ..."}});
  write(corpus / "words.tsv", words(60, 1));  // auto: no subwords
  check_refused({{{"train", corpus / "words.tsv", "--pieces", "77", "--out", corpus / "o"},
                  "--pieces" + no + "--tokens bpe or unigram"}});
  // --steps of the command line replaces --epochs of a config file, and the other way round.
  write(config, "epochs = 9999\n");
  CHECK(contains(output_of(corpus.train("o", small + steps + Arguments{"--config", config})),
                 "finished after 3 steps"));
  write(config, "steps = 9999\n");
  CHECK(contains(output_of(corpus.train("p", one_epoch + Arguments{"--config", config})),
                 "finished after 25 steps"));
}

TEST_CASE("attune: a model with non-finite weights is an error of every command") {
  const Corpus corpus;
  const std::string valid = corpus / "valid.en", targets = corpus / "valid.xx";
  for (const double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    Safetensors file = load_safetensors(Trained::get().model());
    for (auto& [name, tensor] : file.tensors) fill(tensor, bad);
    save_safetensors(corpus / "bad.safetensors", file);
    for (const Arguments& command : {Arguments{"predict", "one"},
                                     {"score", valid, targets},
                                     {"score", "--json", valid, targets},
                                     {"align", valid, targets},
                                     {"align", valid},
                                     {"evaluate", valid, targets}})
      CHECK(contains(error_of(command + Arguments{"--model", corpus / "bad.safetensors"}),
                     "NaN or inf"));
  }
}

TEST_CASE("attune train: the printed command works for any directory") {
  const Corpus corpus;
  for (const std::string name : {"\xff\xfe $'", "a\nb", "ü b"}) {
    const std::string out = output_of(corpus.train(name, one_epoch)), begin = "Try it: ";
    const std::size_t at = out.find(begin) + begin.size();
    const ProcessResult typed =
        run_program("sh", {"-c", out.substr(at, out.find("  ", at) - at)}, {.input = "one\n"});
    CHECK_MESSAGE(typed.status == 0, typed.err);
  }
}

TEST_CASE("attune train: reports missing files before it reads the text") {
  const Corpus corpus;
  const auto [source, none] = std::pair(corpus / "train.en", corpus / "none");
  write(source, "\xFF\n");  // would be reported if it was read
  const std::string unread = none + ": cannot be read: No such file or directory";
  check_refused(
      {{corpus.train("o", one_epoch + Arguments{"--train-target", none}), unread},
       {corpus.train("o", one_epoch + Arguments{"--valid", none}), unread},
       {corpus.train("o", one_epoch + Arguments{"--valid-target", none}), unread},
       {corpus.train("o", one_epoch + Arguments{"--alignments", none}), unread},
       {corpus.train("o", one_epoch + Arguments{"--target-vocabulary", none}), unread},
       {corpus.train("o", {"--target-pieces", none}), none + ": ..."},
       {{"train", "--out", corpus / "o", "--resume"},
        "train: no pairs, and there is no " + corpus / "o/last.safetensors" + " to resume"}});
}

TEST_CASE("attune train: refuses a vocabulary that contains no token of the text") {
  const Corpus corpus;
  write(corpus / "train.xx", "A\nA B C D E\n"), write(corpus / "train.en", "a\nb\n");
  const std::string pieces = corpus / "pieces.vocab", other = corpus / "other",
                    files = fmt::format("{} and {}", corpus / "train.en", corpus / "train.xx");
  write(pieces, "a\t-1.5\n"), write(other, "x\ny\n");
  check_refused({{corpus.train("o", one_epoch + Arguments{"--source-vocabulary", pieces}),
                  pieces + ":1: a TAB, expected a token alone"},
                 {corpus.train("o", one_epoch + Arguments{"--source-vocabulary", other}),
                  files + ": none of its source tokens is in the vocabulary, " + other},
                 {corpus.train("o", one_epoch + Arguments{"--min-count", "9"}),
                  files + ": none of its source tokens is in the vocabulary"}});
  CHECK_FALSE(std::filesystem::exists(corpus / "o"));
}

TEST_CASE("attune: names both files and their lengths if these differ") {
  const Corpus corpus;
  const std::string two = corpus / "two", train = corpus / "train.xx", valid = corpus / "valid.xx";
  write(two, "one\ntwo\n");
  const auto uneven = [](const std::string& a, int n, const std::string& b, int m) {
    return fmt::format("{}: {} lines, but {} has {}: expected as many of each", a, n, b, m);
  };
  check_refused(
      {{corpus.train("o", {"--train", two}), uneven(two, 2, train, 400)},
       {corpus.train("o", {"--train-target", two}), uneven(corpus / "train.en", 400, two, 2)},
       {corpus.train("o", one_epoch + Arguments{"--valid", two}), uneven(two, 2, valid, 30)},
       {with_model("evaluate", {two, valid}), uneven(two, 2, valid, 30)},
       {with_model("report", {two, valid}), uneven(two, 2, valid, 30)},
       {with_model("align", {two, valid}), uneven(two, 2, valid, 30)}});
}

TEST_CASE("attune: refuses a TSV as the text file of one side") {
  const Corpus corpus;
  const std::string tsv = corpus / "tsv", xx = corpus / "train.xx";
  write(tsv, corpus.columns("train", ".en", ".xx"));
  const std::string error =
      tsv + ":1: contains a TAB, expected text without TABs, as there are two files";
  check_refused({{corpus.train("o", one_epoch + Arguments{"--train", tsv}), error},
                 {corpus.train("o", one_epoch + Arguments{"--train-target", tsv}), error},
                 {with_model("evaluate", {tsv, xx}), error},
                 {Arguments{"train", tsv, "--valid-target", xx, "--out", corpus / "o"} + one_epoch,
                  "--valid-target: has no effect without --valid"}});
}

TEST_CASE("attune train: names the option if all pairs are too long") {
  const Corpus corpus;
  const Arguments one = one_epoch + Arguments{"--max-tokens", "1"};
  const std::string two = corpus / "two", single = corpus / "single",
                    error =
                        " on have a side with more than 1 tokens, expected a larger --max-tokens";
  write(two, "one two\ntwo one\n"), write(single, "one\n");
  const Arguments train = {"--train", two, "--train-target", two, "--valid", single};
  check_refused({{corpus.train("o", one + Arguments{"--valid", two, "--valid-target", two}),
                  two + " and " + two + ": all pairs to validate" + error},
                 {corpus.train("o", one + train + Arguments{"--valid-target", single}),
                  two + " and " + two + ": all pairs to train" + error}});
}

TEST_CASE("attune: reports invalid bytes with file, line and byte") {
  const Corpus corpus;
  const std::string bad = corpus / "bad", good = corpus / "good";
  write(good, "one\ntwo\n");
  for (const auto& [bytes, what] :
       {std::pair(std::string("one\nta\xE9\n"),
                  ":2: byte 3 of the line (0xE9) is not UTF-8, expected text in UTF-8"),
        std::pair(std::string("one\nan\0b\n", 9), ":2: byte 3 of the line is NUL, expected text"),
        std::pair(std::string("\xFF\xFEo\0\n\0", 6),
                  ":1: byte 1 of the line (0xFF) is not UTF-8, expected text in UTF-8")}) {
    write(bad, bytes);
    const Arguments valid = {"--valid", good, "--valid-target", bad};
    check_refused({{with_model("predict", {"--format", "text", "--file", bad}), bad + what},
                   {with_model("align", {bad}), bad + what},
                   {with_model("align", {good, bad}), bad + what},
                   {with_model("evaluate", {good, bad}), bad + what},
                   {corpus.train("o", {"--train", bad, "--train-target", good}), bad + what},
                   {corpus.train("o", one_epoch + valid), bad + what},
                   {corpus.train("o", {"--config", bad}), bad + ":..."}});
  }
}

TEST_CASE("attune: ignores byte-order marks and Windows line ends") {
  const Trained& trained = Trained::get();
  CHECK(output_of(with_model("predict", {"--format", "text"}),
                  {.input = "\xEF\xBB\xBFone two\r\nthree\r\n"}) == "ZWEI EINS\nDREI\n");
  const auto windows = [](const std::string& from, const std::string& to) {
    std::string text;  // as in concatenated files
    for (const std::string& line : lines_of(read(from))) text += "\xEF\xBB\xBF" + line + "\r\n";
    write(to, text);
  };
  const Corpus corpus;
  output_of(corpus.train("unix", one_epoch));
  for (const char* name : {"train.en", "train.xx", "valid.en", "valid.xx"}) {
    windows(trained / name, corpus / name);
  }
  output_of(corpus.train("windows", one_epoch));
  check_same_tensors(corpus / "unix/last.safetensors", corpus / "windows/last.safetensors");
}

TEST_CASE("attune: translates a line of 100000 words, refuses a longer one") {
  const std::string words = repeated("one ", 100'000);
  CHECK(lines_of(output_of(with_model("predict", {"--format", "text", "--max-length", "10"}),
                           {.input = words + "\nseven\n"}))
            .back() == "SIEBEN");
  CHECK(
      error_of(with_model("predict", {"--format", "text"}), {.input = "one\n" + words + "one\n"}) ==
      "attune: standard input:2: 100001 tokens, expected at most 100000");
}

TEST_CASE("attune: reports the line of a source that is too long for the score location") {
  const Corpus corpus;
  const std::string source = corpus / "s", target = corpus / "t";
  const std::string error =
      source + ":2: 5 tokens, expected at most 4, the --longest of the score location";
  write(source, "one\none two three four five\n"), write(target, "EINS\nEINS\n");
  const Arguments pairs = {"--train", source, "--train-target", target},
                  location = without(one_epoch, "--attention") +
                             Arguments{"--score", "location", "--longest", "4"};
  output_of(corpus.train("model", location + pairs));
  for (const char* command : {"align", "evaluate", "score", "report"})
    check_refused({{{command, "--model", corpus / "model", source, target}, error}});
}

TEST_CASE("attune evaluate: the loss of a long sentence does not depend on its batch") {
  const Trained& trained = Trained::get();
  const auto loss = [&](const std::string& source, const std::string& target) {
    write(trained / "some.en", source), write(trained / "some.xx", target);
    return std::log(
        json_of(with_model("evaluate", {trained / "some.en", trained / "some.xx", "--json"}))
            .at("perplexity")
            .get<double>());
  };
  constexpr int many = 63, words = 1000;
  const std::string long_source = repeated("one ", words) + "\n",
                    long_target = repeated("EINS ", words) + "\n",
                    source = repeated("two three\n", many), target = repeated("DREI ZWEI\n", many);
  const double alone = loss(long_source, long_target) * (words + 1),
               others = loss(source, target) * 3 * many;
  CHECK(loss(long_source + source, long_target + target) * (words + 1 + 3 * many) ==
        doctest::Approx(alone + others).epsilon(1e-5));
}

TEST_CASE("attune train: resumes only from a complete checkpoint, on the same text") {
  const Corpus corpus;
  output_of(corpus.train("out", one_epoch));
  const std::string last = corpus / "out/last.safetensors";
  const Arguments resume = {"train", "--resume", "--out", corpus / "out", "--epochs", "2"};
  for (const auto& [name, data, from] :
       {std::tuple{"train.en", "training_data", corpus / "train.en and " + corpus / "train.xx"},
        {"valid.xx", "validation_data", corpus / "valid.en and " + corpus / "valid.xx"}}) {
    const std::string before = read(corpus / name),
                      first = before.substr(0, before.find_first_of(" \n"));
    write(corpus / name, (first == "one" ? "two" : "one") + before.substr(first.size()));
    CHECK(error_of(resume) == fmt::format("attune: {}: checkpoint: {} differs: the checkpoint was "
                                          "trained on other data than {}",
                                          last, data, from));
    write(corpus / name, before);
  }
  std::filesystem::copy_file(corpus / "out/best.safetensors", last,
                             std::filesystem::copy_options::overwrite_existing);
  CHECK(contains(error_of(resume), last + ": checkpoint: 'adam.steps' is missing"));
}

TEST_CASE("attune train: reports errors in a config file with the line") {
  const Corpus corpus;
  const std::string file = corpus / "recipe.ini";
  // Even if the command line overrides the value.
  for (const auto& [text, error] :
       {std::pair{"epochs = 2\n\n# more\nhiden = 24\n",
                  ":4: 'hiden' is not an option; did you mean hidden?"},
        {"epochs 2\n", ":1: expected NAME = VALUE"},
        {"= 2\n", ":1: '' is not an option; --help-all lists them"},
        {"epochs = 2\nhidden = many\n", ":2: hidden: 'many' is not a whole number from 1 to 65536"},
        {"rate = 0.1 # high\n", ":1: rate: '0.1 # high' is not..."},
        {"score = best\n", ":1: score: 'best' is not one of..."},
        {"model = best\n", ":1: model: 'best' is not one of..."}}) {
    write(file, text);
    check_refused({{corpus.train("o", one_epoch + Arguments{"--config", file}), file + error}});
  }
  check_refused({{corpus.train("o", {"--config", corpus / "none"}),
                  corpus / "none" + ": cannot be read..."}});
}

TEST_CASE("attune: messages quote only the beginning of long values") {
  const Corpus corpus;
  const std::string value = repeated("größer", 800), recipe = corpus / "recipe.ini";
  write(recipe, value + " = 1\n");
  for (const Arguments& arguments : {Arguments{value},
                                     {"train", value, value, value},
                                     {"train", "--" + value},
                                     {"train", "--tokens", value},
                                     {"train", "--hidden", value},
                                     {"train", "--config", recipe},
                                     {"predict", "--format", value},
                                     {"predict", "--json=" + value},
                                     {"predict", "--top-p", value}}) {
    const std::string error = error_of(arguments);
    CHECK(error.size() < 400);
    CHECK(contains(error, "…'"));
  }
}

TEST_CASE("attune: refuses incompatible options and models") {
  const Corpus corpus;
  const Arguments valid = {"--valid", corpus / "train.en", "--valid-target", corpus / "train.xx"};
  const std::string other = corpus / "other";
  output_of(
      corpus.train("other", valid + Arguments{"--tokens", "words", "--epochs", "1", "--hidden",
                                              "16", "--model", "encoder-decoder"}));
  check_refused({{corpus.train("o", one_epoch + Arguments{"--tied", "all"}),
                  "--tied: all requires the same vocabulary for both sides (--joint yes)"},
                 {with_model("compare", {"--model", other}),
                  other + "/best.safetensors: its pairs differ from those of ..."},
                 {{"predict", "--model", other, "--replace-unknown", "one"},
                  "--replace-unknown: the model has no attention"},
                 {with_model("predict", {"--sample", "--best", "3", "one"}),
                  "--best: has no effect without beam search, which --sample replaces"}});
}

TEST_CASE("attune: a failed write to standard output is an error of every command") {
  const Trained& trained = Trained::get();
  const std::string model = trained.model(), en = trained / "valid.en", xx = trained / "valid.xx";
  const std::string full = "exec >/dev/full";
  for (const Arguments& arguments :
       {with_model("predict", {"--format", "text", "--file", en}), with_model("align", {en}),
        with_model("evaluate", {en, xx}), with_model("score", {en, xx}),
        with_model("report", {en, xx, "--out", trained / "page"}), Arguments{"inspect", model},
        Arguments{"average", model, "--out", trained / "mean.safetensors"},
        Arguments{"--version"}}) {
    CHECK(error_line("attune", run_in_shell(full, arguments)) ==
          "attune: standard output: cannot be written");
  }
  CHECK(error_of(with_model("align", {en, "--out", "/dev/full"})) ==
        "attune: /dev/full: cannot be written: No space left on device");
}

TEST_CASE("attune train: closed or full standard output corrupts no file") {
  const Corpus corpus;
  output_of(corpus.train("whole", one_epoch));
  for (const std::string first : {"exec >&-", "exec >/dev/full"}) {
    CAPTURE(first);
    std::filesystem::remove_all(corpus / "out");
    CHECK(error_line("attune", run_in_shell(first, corpus.train("out", one_epoch))) ==
          "attune: standard output: cannot be written");
    check_same_tensors(corpus / "whole/last.safetensors", corpus / "out/last.safetensors");
    CHECK(log_of(corpus / "out").size() == log_of(corpus / "whole").size());
  }
}

TEST_CASE("attune: reports invalid environment variables before it computes") {
  for (const char* name : {"ATTUNE_TARGET", "ATTUNE_PRODUCTS", "ATTUNE_THREADS"}) {
    const std::string error = error_of({"predict", "--format", "text", "--model", "none"},
                                       {.environment = {{name, "foo"}}});
    CHECK(error.starts_with(fmt::format("attune: {}: 'foo' is ", name)));
  }
}

TEST_CASE("attune: standard input can be empty, but not closed or a directory") {
  for (const auto& [first, reason] :
       {std::pair("exec <&-", "Bad file descriptor"), std::pair("exec </", "Is a directory")}) {
    CAPTURE_BINDING(first);
    CHECK(error_line("attune", run_in_shell(first, with_model("predict", {"--format", "text",
                                                                          "--format", "text"}))) ==
          fmt::format("attune: standard input: cannot be read: {}", reason));
  }
  CHECK(run_in_shell("exec </dev/null", with_model("predict", {"--format", "text"})).status == 0);
}

TEST_CASE("attune: refuses pipes for input that is read more than once") {
  const Corpus corpus;
  const std::string pipe = "/dev/stdin", words = "printf 'one\\ntwo\\nthree\\n' |";
  const Arguments vocabulary = one_epoch + Arguments{"--source-vocabulary", pipe};
  for (const Arguments& arguments :
       {corpus.train("o", {"--train", pipe}), corpus.train("o", {"--config", pipe}),
        corpus.train("o", vocabulary + Arguments{"--seeds", "2"}),
        with_model("compare", {pipe, "--model", corpus / "train.en"})})
    CHECK(error_line("attune", run_in_shell(words, arguments)) ==
          "attune: /dev/stdin: is read more than once, expected a regular file");
  CHECK(run_in_shell(words, corpus.train("o", vocabulary)).status == 0);
  CHECK(contains(output_of({"inspect", corpus / "o"}),
                 "source              words between blanks, 7"));
}

TEST_CASE("attune: ends with SIGPIPE when the reader of its output exits") {
  const ProcessResult result =
      run_program("sh",
                  {"-c", "(\"$@\"; echo $? >&2) | head -n 1", "sh", PROGRAM, "predict", "--format",
                   "text", "--model", Trained::get().model(), "--batch", "1"},
                  {.input = repeated("one two\n", 20'000)});
  CHECK(result.out == "ZWEI EINS\n");
  CHECK(result.err == fmt::format("{}\n", 128 + SIGPIPE));  // like any filter
}

}  // namespace attune::pairs::test
