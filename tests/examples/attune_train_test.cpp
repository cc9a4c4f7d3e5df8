// `attune train`, run as a user runs it, on sentences.
#include <regex>
#include <set>

#include <fmt/format.h>

#include <attune/models/text/tokenizer.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/precision.hpp>

#include "attune/letters.hpp"
#include "attune_program.hpp"
#include "terminal.hpp"

namespace attune::pairs::test {
namespace {

/// A corpus with the links between words and their translations: from right to left.
struct AlignedCorpus : Corpus {
  AlignedCorpus() {
    write(alignments(), links_of(read(*this / "train.en")));
    write(*this / "valid.links", links_of(read(*this / "valid.en")));
  }
  std::string alignments() const { return *this / "train.links"; }
  Arguments train_guided(const std::string& out, const Arguments& more) const {
    return train(out, more + Arguments{"--alignments", alignments()});
  }

 private:
  static std::string links_of(const std::string& text) {
    std::string all;
    for (const std::string& line : lines_of(text)) {
      const auto words = std::ranges::count(line, ' ') + 1;
      for (auto i = 0 * words; i < words; ++i) all += fmt::format("{}-{} ", i, words - 1 - i);
      all += "\n";
    }
    return all;
  }
};

std::set<std::string> links_in(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

/// The share of the validation text's links that a model finds.
double found_links(const AlignedCorpus& corpus, const std::string& out) {
  const auto written =
      lines_of(output_of({"align", "--model", corpus / (out + "/last.safetensors"), "--format",
                          "pharaoh", corpus / "valid.en", corpus / "valid.xx"}));
  const auto gold = lines_of(read(corpus / "valid.links"));
  REQUIRE(written.size() == gold.size());
  double right = 0, all = 0;
  for (std::size_t i = 0; i < gold.size(); ++i) {
    const std::set<std::string> expected = links_in(gold[i]), links = links_in(written[i]);
    all += static_cast<double>(expected.size());
    right += static_cast<double>(
        std::ranges::count_if(expected, [&](const auto& link) { return links.contains(link); }));
  }
  return right / all;
}

/// The word of each character, from 0; -1 for a blank.
std::vector<int> words_of(const Json& characters) {
  std::vector<int> words;
  int word = 0;
  for (const std::string character : characters)
    words.push_back(character == " " ? -1 : word), word += character == " ";
  return words;
}

/// A line of JSON for each pair: a word's weight is the sum over its characters in the source, and
/// the mean over those in the target.
void check_words_of_characters(const std::vector<std::string>& by_word,
                               const std::vector<std::string>& by_character) {
  REQUIRE(by_word.size() == by_character.size());
  for (std::size_t i = 0; i < by_word.size(); ++i) {
    const Json words = Json::parse(by_word[i]), characters = Json::parse(by_character[i]);
    const std::vector<int> row_of = words_of(characters["target"]),
                           column_of = words_of(characters["source"]);
    for (int t = 0; t < std::ssize(words["target"]); ++t) {
      for (int s = 0; s < std::ssize(words["source"]); ++s) {
        double sum = 0, rows = 0;
        for (std::size_t r = 0; r < row_of.size(); ++r) {
          if (row_of[r] != t) continue;
          ++rows;
          for (std::size_t c = 0; c < column_of.size(); ++c)
            if (column_of[c] == s) sum += characters["weights"][r][c].get<double>();
        }
        CHECK(words["weights"][t][s].get<double>() == doctest::Approx(sum / rows).epsilon(1e-5));
      }
    }
  }
}

const Arguments two_epochs =
    small + Arguments{"--model", "luong", "--rate", "0.01", "--epochs", "1"};

}  // namespace

TEST_CASE("attune train: with alignments attention finds the links sooner") {
  const AlignedCorpus corpus;
  output_of(corpus.train("alone", two_epochs));
  output_of(corpus.train_guided("guided", two_epochs));
  const double guided = found_links(corpus, "guided");
  CHECK(guided > 0.7);
  CHECK(guided > found_links(corpus, "alone") + 0.2);
}

TEST_CASE("attune train: alignments have a weight, and one of 0 is none") {
  const AlignedCorpus corpus;
  output_of(corpus.train("alone", one_epoch));
  output_of(corpus.train_guided("nothing", one_epoch + Arguments{"--guided-alignment", "0"}));
  check_same_tensors(corpus / "alone/last.safetensors", corpus / "nothing/last.safetensors");
}

TEST_CASE("attune train: links stay with their pairs when others are left out") {
  const AlignedCorpus corpus;
  output_of(corpus.train_guided("all", one_epoch));
  std::string source = "\n", target = "\n", links = "\n";  // an empty pair and a long one
  for (int i = 0; i < 160; ++i) {
    const auto& [from, to] = lexicon[static_cast<std::size_t>(i) % lexicon.size()];
    source += from + " ", target += to + " ", links += fmt::format("{}-{} ", i, i);
  }
  write(corpus / "train.en", source + "\n" + read(corpus / "train.en"));
  write(corpus / "train.xx", target + "\n" + read(corpus / "train.xx"));
  write(corpus.alignments(), links + "\n" + read(corpus.alignments()));
  CHECK(contains(output_of(corpus.train_guided("some", one_epoch)),
                 "402 pairs, 2 left out: 1 with an empty side, 1 longer than 100 tokens"));
  check_same_tensors(corpus / "all/last.safetensors", corpus / "some/last.safetensors");
}

TEST_CASE("attune train: links between words guide subwords and characters, and are resumed") {
  const AlignedCorpus corpus;
  const Arguments more = tiny + Arguments{"--epochs", "2", "--validate-every", "25"};
  for (const Arguments& tokens :
       {Arguments{"--tokens", "bpe", "--pieces", "60"}, Arguments{"--tokens", "characters"}}) {
    if (tokens[1] == "bpe" && !text::has_sentencepiece()) continue;
    output_of(corpus.train_guided("whole", more + tokens));
    output_of(corpus.train_guided("half", more + tokens + Arguments{"--epochs", "1"}));
    output_of({"train", "--resume", "--out", corpus / "half", "--epochs", "2"});
    check_same_tensors(corpus / "whole/last.safetensors", corpus / "half/last.safetensors");
  }
  const Arguments align = {"align", "--model",           corpus / "half",    "--format",
                           "json",  corpus / "valid.en", corpus / "valid.xx"};
  check_words_of_characters(lines_of(output_of(align)),
                            lines_of(output_of(align + Arguments{"--units", "tokens"})));
  write(corpus.alignments(),
        "\n" + read(corpus.alignments()).substr(read(corpus.alignments()).find('\n') + 1));
  CHECK(contains(error_of({"train", "--resume", "--out", corpus / "half", "--epochs", "3"}),
                 "training_data differs: it was trained on other data than that of " +
                     corpus / "train.en and " + corpus / "train.xx, " + corpus.alignments()));
}

TEST_CASE("attune train: what is wrong with alignments is said with file and line") {
  const AlignedCorpus corpus;
  const std::string all = read(corpus.alignments()), rest = all.substr(all.find('\n')),
                    file = corpus / "bad.links", no_link = "' is not a link SOURCE-TARGET";
  for (const auto& [text, error] : std::vector<std::pair<std::string, std::string>>{
           {all + "0-0\n", ":401: a line too many, there are 400 sentences"},
           {rest.substr(1), ":..."},
           {"", ":1: the file ends, but there are 400 sentences"},
           {"0-7" + rest, ":1: link '0-7': target position 7 is beyond the ..."},
           {"0-0 9-0" + rest, ":1: link '9-0': source position 9 is beyond the ..."},
           {"0:0" + rest, ":1: '0:0" + no_link},
           {"0-" + rest, ":1: '0-" + no_link},
           {"-1-0" + rest, ":1: '-1-0" + no_link},
           {"0-0-0" + rest, ":1: '0-0-0" + no_link},
           {"0-99999999999" + rest, ":1: '0-99999999999" + no_link}}) {
    write(file, text);
    check_refused({{corpus.train("o", tiny + Arguments{"--alignments", file}), file + error}});
  }
  check_refused(
      {{corpus.train("o", tiny + Arguments{"--alignments", corpus / "none"}),
        corpus / "none" + ": cannot be read..."},
       {corpus.train_guided("o", Arguments{"--tokens", "words", "--model", "encoder-decoder"}),
        "--alignments: the model has no attention"}});
  CHECK_FALSE(std::filesystem::exists(corpus / "o"));
}

TEST_CASE("attune train: killed or stopped and resumed, it ends as an uninterrupted run") {
  const Corpus corpus;
  output_of(corpus.train("whole", with_state));
  for (const int signal : {SIGKILL, SIGTERM}) {
    const std::string name = std::to_string(signal), out = corpus / name,
                      last = out + "/last.safetensors";
    const ProcessResult ended =
        run(corpus.train(name, with_state),
            {.signal_when = [&] { return std::filesystem::exists(last); }, .signal = signal});
    CHECK(ended.signal == (signal == SIGKILL ? SIGKILL : 0));
    CHECK(ended.status == (signal == SIGKILL ? -1 : 128 + SIGTERM));
    CHECK(contains(ended.out, " parameters, 1 thread\n"));
    REQUIRE(step_of(last) < 200);
    output_of({"train", "--out", out, "--resume"});  // all options are in the checkpoint
    check_same_tensors(corpus / "whole/last.safetensors", last);
    check_same_tensors(corpus / "whole/best.safetensors", out + "/best.safetensors");
    CHECK(learnt_in(corpus / "whole") == learnt_in(out));
  }
}

TEST_CASE("attune train: a signal ends a validation, which then was none") {
  const Corpus corpus;
  const Text many = sentences(40'000, 6);  // seconds
  write(corpus / "valid.en", many.source), write(corpus / "valid.xx", many.target);
  int polls = 0;  // the one step before it takes milliseconds
  const auto begun = [&] {
    return std::filesystem::exists(corpus / "out/log.jsonl") && ++polls > 300;
  };
  const ProcessResult result =
      run(corpus.train("out", tiny + Arguments{"--validate-every", "1", "--beam", "4"}),
          {.signal_when = begun, .signal = SIGHUP});
  CHECK(result.status == 129);
  CHECK(contains(result.out, "before a validation\n"));
  CHECK(read(corpus / "out/log.jsonl").empty());
  CHECK_FALSE(std::filesystem::exists(corpus / "out/best.safetensors"));
  CHECK(load_safetensors(corpus / "out/last.safetensors").metadata.at("validated") == "0");
}

TEST_CASE("attune train: a run interrupted before its first step is resumed without a validation") {
  const Corpus corpus;
  const std::string last = corpus / "out/last.safetensors";
  output_of(corpus.train("out", one_epoch));
  Safetensors file = load_safetensors(last);
  for (const char* name : {"step", "epoch", "position", "validated"}) {
    file.metadata[name] = "0";
  }
  file.metadata["log_line"] = "";
  save_safetensors(last, file);
  CHECK(contains(output_of({"train", "--out", corpus / "out", "--resume"}),
                 "resuming at step 0 of 25"));
  CHECK(log_of(corpus / "out").front().at("step") > 0);
}

TEST_CASE("attune train: a log that cannot be written ends it after the step's checkpoint") {
  const Corpus corpus;
  const std::string whole = corpus / "whole", full = corpus / "full", log = full + "/log.jsonl";
  output_of(corpus.train("full", with_state + Arguments{"--epochs", "1"}));
  // As long as a file may be, and longer than a checkpoint.
  write(log, read(log) + fmt::format("{{\"step\": 0, \"note\": \"{}\"}}\n",
                                     std::string(std::size_t{1} << 22, '-')));
  std::filesystem::copy(full, whole);
  const Arguments resume = {"train", "--resume", "--epochs", "2", "--out"};
  output_of(resume + Arguments{whole});
  const ProcessResult result =
      run_process(Arguments{"prlimit", fmt::format("--fsize={}", read(log).size()), PROGRAM} +
                  resume + Arguments{full});
  CHECK(error_line("attune", result) ==
        "attune: " + log + ": cannot write the log: File too large");
  CHECK(step_of(full + "/last.safetensors") == 40);
  output_of(resume + Arguments{full});
  check_same_tensors(whole + "/last.safetensors", full + "/last.safetensors");
  check_same_tensors(whole + "/best.safetensors", full + "/best.safetensors");
  CHECK(learnt_in(full) == learnt_in(whole));
}

TEST_CASE("attune train: one thread and two give bit-identical weights") {
  const Corpus corpus;
  const Arguments wide = tiny + Arguments{"--hidden", "64", "--batch", "64", "--epochs", "3"};
  output_of(corpus.train("one", wide + Arguments{"--threads", "1"}));
  output_of(corpus.train("two", wide + Arguments{"--threads", "2"}));
  check_same_tensors(corpus / "one/last.safetensors", corpus / "two/last.safetensors");
}

TEST_CASE("attune train: subwords of both sides, kept in the checkpoint") {
  if (!text::has_sentencepiece()) return;
  const Corpus corpus;
  for (const char* tokens : {"bpe", "unigram"}) {
    const std::string out = output_of(
        corpus.train(tokens, tiny + Arguments{"--tokens", tokens, "--pieces", "60", "--joint",
                                              "yes", "--epochs", "2", "--tied", "all"}));
    CHECK(contains(out, "learning 60 subwords of both sides from 800 lines: "));
    const std::string model = corpus / (std::string(tokens) + "/best.safetensors");
    CHECK(lines_of(
              output_of({"predict", "--format", "text", "--model", model}, {.input = "one two\n"}))
              .size() == 1);
    // Where it writes nothing but <unk>, which is ⁇ in its text.
    Safetensors unsure = load_safetensors(model);
    unsure.tensors.at("output.b").mutable_data<float>()[text::Vocabulary::unknown] = 100;
    save_safetensors(corpus / "unsure", unsure);
    write(corpus / "one.en", "one two\n");
    CHECK(json_of({"align", "--model", corpus / "unsure", "--format", "json", corpus / "one.en"})
              .at("target")[0] == "⁇");
  }
}

TEST_CASE(
    "attune train --truecase: the case of what is read does not matter, lines begin as they "
    "did") {
  const Corpus corpus;
  for (const std::string name : {"train", "valid"}) {
    std::string source, target;
    for (std::string line : lines_of(read(corpus / (name + ".en"))))
      line[0] = static_cast<char>(line[0] - 'a' + 'A'), source += line + "\n";
    for (std::string line : lines_of(read(corpus / (name + ".xx"))))
      target += line[0] + text::folded_case(line.substr(1)) + "\n";
    write(corpus / (name + ".en"), source), write(corpus / (name + ".xx"), target);
  }
  output_of(corpus.train("model", tiny + Arguments{"--truecase", "yes", "--rate", "0.01",
                                                   "--epochs", "20", "--validate-every", "100"}));
  const std::string model = corpus / "model";
  CHECK(output_of({"predict", "--format", "text", "--model", model},
                  {.input = "One two\none two\nONE TWO\nOne Two\n"}) ==
        "Zwei eins\nZwei eins\nZwei eins\nZwei eins\n");
  CHECK(json_of({"evaluate", "--json", "--bleu", "none", "--model", model, corpus / "valid.en",
                 corpus / "valid.xx"})
            .at("bleu") >= 90);
  write(corpus / "capitals", "ONE TWO\n");
  const Json pair = json_of({"align", "--model", model, "--format", "json", corpus / "capitals"});
  CHECK(pair.at("source") == Json({"ONE", "TWO"}));
  CHECK(pair.at("target") == Json({"Zwei", "eins"}));
  CHECK(contains(output_of({"inspect", model}), "truecase            yes\n"));
}

TEST_CASE("attune train: a text in one TSV is the text in two files") {
  const Corpus corpus;
  const std::string train = corpus / "train.tsv", valid = corpus / "valid.tsv";
  write(train, corpus.columns("train", ".en", ".xx"));
  write(valid, corpus.columns("valid", ".en", ".xx"));
  output_of(corpus.train("two", one_epoch));
  output_of(Arguments{"train", "--out", corpus / "one", "--train", train, "--valid", valid} +
            one_epoch);
  check_same_tensors(corpus / "one/last.safetensors", corpus / "two/last.safetensors");
  const std::string model = corpus / "one/best.safetensors";
  const auto bleu = [&](const Arguments& files) {
    return json_of(Arguments{"evaluate", "--json", "--model", model} + files).at("bleu");
  };
  CHECK(bleu({valid}) == bleu({corpus / "valid.en", corpus / "valid.xx"}));
  output_of({"report", "--model", model, "--examples", "1"});
  CHECK(error_of(Arguments{"train", "--out", corpus / "o", "--train", corpus / "train.en",
                           "--valid", valid}) ==
        "attune: " + corpus / "train.en:1: one column, expected source TAB target");
}

TEST_CASE("attune train: vocabularies from files, and words beside them unknown") {
  const Corpus corpus;
  write(corpus / "words.en", "one\ntwo\nEINS\n");
  write(corpus / "words.xx", "EINS\nZWEI\n");
  const Arguments source = one_epoch + Arguments{"--source-vocabulary", corpus / "words.en"},
                  target = {"--target-vocabulary", corpus / "words.xx"}, joint = {"--joint", "yes"};
  const std::string both = output_of(corpus.train("o", source + target));
  CHECK(contains(both, "blanks, 7 kinds; target: words between blanks, 6 kinds"));
  CHECK(contains(both, " % of the source's tokens are unknown\n"));
  CHECK(contains(output_of(corpus.train("j", source + joint)),
                 "blanks, 7 kinds; target: words between blanks, 7 kinds"));
  for (const Arguments& own : {target, Arguments{"--target-tokens", "words"}})
    check_refused({{corpus.train("e", one_epoch + own + joint),
                    "--joint yes: both sides share the source's options, expected none for the "
                    "target alone"}});
  write(corpus / "words.xx", "EINS\nEINS\n");
  check_refused(
      {{corpus.train("e", one_epoch + target),
        corpus / "words.xx:2: 'EINS' stands in line 1 already, expected each token once"}});
  CHECK_FALSE(std::filesystem::exists(corpus / "e"));
}

TEST_CASE("attune train: models of sentencepiece that are given") {
  if (!text::has_sentencepiece()) return;
  const Corpus corpus;
  const auto save = [&](const std::string& side, Index pieces) {
    const auto model =
        text::SentencePiece::train(lines_of(read(corpus / ("train." + side))), {.pieces = pieces});
    write(corpus / (side + ".model"), model.bytes());
    return corpus / (side + ".model");
  };
  const Arguments one_epoch = {"--schedule", "constant",    "--metric", "bleu",     "--epochs",
                               "1",          "--embedding", "8",        "--hidden", "8"};
  const Arguments given = {"--source-pieces", save("en", 40), "--target-pieces", save("xx", 50)};
  output_of(corpus.train("given", one_epoch + given));
  output_of(corpus.train("whole", one_epoch + given + Arguments{"--epochs", "2"}));
  write(corpus / "en.model", "not a model any more: the checkpoint has it");
  output_of({"train", "--resume", "--out", corpus / "given", "--epochs", "2"});
  check_same_tensors(corpus / "given/last.safetensors", corpus / "whole/last.safetensors");
  CHECK(lines_of(
            output_of({"predict", "--format", "text", "--model", corpus / "given/best.safetensors"},
                      {.input = "one two\n"}))
            .size() == 1);
  CHECK(error_of(corpus.train("e", one_epoch + given)) ==
        "attune: " + corpus / "en.model: a model of sentencepiece was expected");
  CHECK_FALSE(std::filesystem::exists(corpus / "e"));
}

TEST_CASE("attune train: fewer subwords than characters are refused, with how many there may be") {
  if (!text::has_sentencepiece()) return;
  const Corpus corpus;
  const std::string start =
      "attune: --pieces 10: each character of the source is one of them, "
      "so that at least ";
  const std::string error = error_of(corpus.train("o", {"--tokens", "bpe", "--pieces", "10"}));
  REQUIRE(error.starts_with(start));
  CHECK(error.ends_with(" were expected"));
  const std::string enough = std::to_string(std::stol(error.substr(start.size())));
  CHECK_FALSE(
      contains(error_of(corpus.train("o", {"--tokens", "bpe", "--pieces", enough})), "the source"));
}

TEST_CASE("attune train: subwords are learnt from so many lines, drawn by the seed") {
  if (!text::has_sentencepiece()) return;
  const Corpus corpus;
  const Arguments few = {"--tokens", "bpe", "--epochs", "1",  "--embedding",  "8",
                         "--hidden", "8",   "--pieces", "60", "--learn-from", "3"};
  output_of(corpus.train("a", few)), output_of(corpus.train("b", few));
  output_of(corpus.train("c", few + Arguments{"--seed", "2"}));
  const auto tokenizer = [&](const std::string& out) {
    return load_safetensors(corpus / (out + "/last.safetensors")).metadata.at("source_tokenizer");
  };
  CHECK(tokenizer("a") == tokenizer("b"));
  CHECK(tokenizer("a") != tokenizer("c"));
}

TEST_CASE("attune train: options from a file, and flags before them") {
  const Corpus corpus;
  write(corpus / "recipe.ini", "epochs = 1\nhidden = 24\nrate = 0.002\nmodel = transformer\n");
  output_of(corpus.train("out", Arguments{"--inner", "16", "--config", corpus / "recipe.ini",
                                          "--rate", "0.004", "--tokens", "words"}));
  const auto metadata = load_safetensors(corpus / "out/last.safetensors").metadata;
  CHECK(metadata.at("hidden") == "24");
  CHECK(metadata.at("inner") == "16");
  CHECK(metadata.at("rate") == "0.004");
  CHECK(metadata.at("epochs") == "1");
  CHECK(contains(output_of({"train", "--resume", "--out", corpus / "out", "--inner", "16"}),
                 "Try it"));
  // A model that is typed has the recipe's options, too.
  write(corpus / "recipe.ini", "inner = 16\nmodel = luong\nepochs = 1\n");
  const Arguments config = {"--config", corpus / "recipe.ini"}, model = {"--model", "transformer"};
  for (const Arguments& typed : {config + model, model + config}) {
    output_of(corpus.train("typed", typed + Arguments{"--tokens", "words", "--hidden", "24"}));
    CHECK(load_safetensors(corpus / "typed/last.safetensors").metadata.at("inner") == "16");
  }
}

TEST_CASE("attune train: short pairs have exact matches, also where the loss chooses the weights") {
  const Corpus corpus;
  for (const auto* metric : {"exact", "loss", "bleu"}) {
    output_of(corpus.train(
        "out", one_epoch + Arguments{"--rate", "0.01", "--metric", metric, "--beam", "5"}));
    const Arguments evaluate = {"evaluate", corpus / "valid.en", corpus / "valid.xx",
                                "--model",  corpus / "out",      "--beam",
                                "5"};
    CHECK(contains(output_of(evaluate),
                   metric == std::string("bleu") ? "\nBLEU " : "\nexact match "));
    // The search of a validation is that of evaluate.
    CHECK(log_of(corpus / "out").back().at("chrf") ==
          json_of(evaluate + Arguments{"--json"}).at("chrf"));
  }
}

TEST_CASE("attune train: each validation shows two sentences, always the same") {
  const Corpus corpus;
  const std::string out =
      output_of(corpus.train("out", tiny + Arguments{"--epochs", "2", "--validate-every", "25"}));
  const auto source = lines_of(read(corpus / "valid.en")),
             target = lines_of(read(corpus / "valid.xx"));
  for (const std::size_t i : {7u, 22u}) {  // of 30
    const std::string sample =
        fmt::format("\n  source      {}\n  target      {}\n  prediction  ", source[i], target[i]);
    const std::size_t first = out.find(sample);
    REQUIRE(first != out.npos);
    CHECK(out.find(sample, first + 1) != out.npos);  // of the second validation
  }
}

TEST_CASE("attune train: progress is that of the limit that ends the run") {
  const Corpus corpus;
  const std::vector<std::string> lines = lines_of(output_of(
      corpus.train("out", tiny + Arguments{"--minutes", "0.005", "--epochs", "1000000"})));
  const auto progress = [](const std::string& line) { return contains(line, " %  step "); };
  const auto last = std::ranges::find_if(lines.rbegin(), lines.rend(), progress);
  REQUIRE(last != lines.rend());
  CHECK(last->starts_with("100 %  step "));
  CHECK(contains(*last, "/25000000  "));
  CHECK(last->ends_with("  0 s left"));
}

TEST_CASE("attune train: in a narrow terminal progress is cut behind the time left") {
  const Corpus corpus;
  const auto shown_in = [&](int columns) {
    return Terminal(Arguments{PROGRAM} + corpus.train("out", one_epoch), columns)
        .shown_to_the_end();
  };
  const std::string start = "\x1b[K";
  CHECK(std::regex_search(shown_in(22), std::regex("\x1b\\[K  4 %  \\d+ s left")));
  const std::string shown = shown_in(64);
  int rewritten = 0;
  for (std::size_t at = shown.find(start); at != shown.npos;) {
    const std::size_t begin = at + start.size();
    at = shown.find(start, begin);
    const std::string line = shown.substr(begin, at - begin);
    if (contains(line, "\n")) continue;  // a line that stays
    ++rewritten;
    CAPTURE(line);
    CHECK(std::regex_search(line, std::regex(" %  \\d+ s left  step ")));
    CHECK(text::code_points(line).size() <= 63);
  }
  CHECK(rewritten > 0);
}

TEST_CASE("attune train: bf16 products train as well, or a line says that there are none") {
  const Corpus corpus;
  const ProcessResult result =
      run(corpus.train("out", tiny + Arguments{"--rate", "0.01", "--epochs", "15", "--precision",
                                               "bf16", "--validate-every", "100"}));
  REQUIRE(result.status == 0);
  CHECK(result.err.empty() == bf16_available());
  CHECK(log_of(corpus / "out").back().at("bleu").get<double>() > 60);
}

}  // namespace attune::pairs::test
