// End-to-end tests of `attune train` on sentences.
#include <set>

#include <fmt/format.h>

#include <attune/models/text/tokenizer.hpp>
#include <attune/tensor/precision.hpp>

#include "attune/letters.hpp"
#include "attune_program.hpp"
#include "terminal.hpp"

namespace attune::pairs::test {
namespace {

/// A corpus with word alignments: the target has the reverse word order.
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

/// Fraction of the links of the validation text that a model finds.
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

const Arguments two_epochs = without(small, "--attention") +
                             Arguments{"--model", "luong", "--rate", "0.01", "--epochs", "1"};

}  // namespace

TEST_CASE("attune train: attention learns the links faster with --alignments") {
  const AlignedCorpus corpus;
  output_of(corpus.train("alone", two_epochs));
  output_of(corpus.train_guided("guided", two_epochs));
  const double guided = found_links(corpus, "guided");
  CHECK(guided > 0.7);
  CHECK(guided > found_links(corpus, "alone") + 0.2);
}

TEST_CASE("attune train: --guided-alignment 0 equals a training without alignments") {
  const AlignedCorpus corpus;
  output_of(corpus.train("alone", one_epoch));
  output_of(corpus.train_guided("nothing", one_epoch + Arguments{"--guided-alignment", "0"}));
  check_same_tensors(corpus / "alone/last.safetensors", corpus / "nothing/last.safetensors");
}

TEST_CASE("attune train: links stay with their pairs if other pairs are excluded") {
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

TEST_CASE("attune train: word alignments guide subwords and characters, also when resumed") {
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
  write(corpus.alignments(),
        "\n" + read(corpus.alignments()).substr(read(corpus.alignments()).find('\n') + 1));
  CHECK(contains(error_of({"train", "--resume", "--out", corpus / "half", "--epochs", "3"}),
                 "training_data differs: the checkpoint was trained on other data than " +
                     corpus / "train.en and " + corpus / "train.xx, " + corpus.alignments()));
}

TEST_CASE("attune train: reports errors in alignments with file and line") {
  const AlignedCorpus corpus;
  const std::string all = read(corpus.alignments()), rest = all.substr(all.find('\n')),
                    file = corpus / "bad.links", no_link = "' is not a link SOURCE-TARGET";
  for (const auto& [text, error] : std::vector<std::pair<std::string, std::string>>{
           {all + "0-0\n", ":401: more lines than the 400 sentences"},
           {rest.substr(1), ":..."},
           {"", ":1: end of file, expected links of the pair at " + corpus / "train.en" + ":1"},
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

TEST_CASE("attune train: one thread and two give bit-identical weights") {
  const Corpus corpus;
  const Arguments wide = tiny + Arguments{"--hidden", "64", "--batch", "64", "--epochs", "3"};
  output_of(corpus.train("one", wide + Arguments{"--threads", "1"}));
  output_of(corpus.train("two", wide + Arguments{"--threads", "2"}));
  check_same_tensors(corpus / "one/last.safetensors", corpus / "two/last.safetensors");
}

TEST_CASE("attune train: subwords of both sides are stored in the checkpoint") {
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
    // A model that predicts only <unk>, which is decoded to ⁇.
    Safetensors unsure = load_safetensors(model);
    unsure.tensors.at("output.b").mutable_data<float>()[text::Vocabulary::unknown] = 100;
    save_safetensors(corpus / "unsure", unsure);
    write(corpus / "one.en", "one two\n");
    CHECK(json_of({"align", "--unk", "--model", corpus / "unsure", "--format", "json",
                   corpus / "one.en"})
              .at("target")[0] == "⁇");
  }
}

TEST_CASE("attune train --truecase: ignores the case of sources, restores initial capitals") {
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

TEST_CASE("attune train: vocabularies from files; other words are unknown") {
  const Corpus corpus;
  write(corpus / "words.en", "one\ntwo\nEINS\n");
  write(corpus / "words.xx", "EINS\nZWEI\n");
  const Arguments source = one_epoch + Arguments{"--source-vocabulary", corpus / "words.en"},
                  target = {"--target-vocabulary", corpus / "words.xx"}, joint = {"--joint", "yes"};
  const ProcessResult both = run(corpus.train("o", source + target));
  CHECK(contains(both.out, "blanks, 7 kinds; target: words between blanks, 6 kinds"));
  CHECK(contains(both.err, " source tokens are not in the vocabulary and are read as <unk>"));
  CHECK(contains(output_of(corpus.train("j", source + joint)),
                 "blanks, 7 kinds; target: words between blanks, 7 kinds"));
  for (const Arguments& own : {target, Arguments{"--target-tokens", "words"}})
    check_refused(
        {{corpus.train("e", one_epoch + own + joint),
          "--joint yes: both sides share the options of the source, expected no option of "
          "the target"}});
  write(corpus / "words.xx", "EINS\nEINS\n");
  check_refused({{corpus.train("e", one_epoch + target),
                  corpus / "words.xx:2: 'EINS' is already in line 1, expected each token once"}});
  CHECK_FALSE(std::filesystem::exists(corpus / "e"));
}

TEST_CASE("attune train --from: weights, vocabularies and options of a model, other pairs") {
  const Trained& trained = Trained::get();
  const Corpus corpus;
  write(corpus / "train.en", repeated("nine two\none nine\n", 20));
  write(corpus / "train.xx", repeated("ZWEI NEUN\nNEUN EINS\n", 20));
  const Arguments start = {"--from", trained.model()}, one_step = {"--steps", "1"};
  const auto result = run(corpus.train("o", start + one_step + Arguments{"--rate", "1e-9"}));
  CHECK(contains(result.err,
                 "train.en and " + corpus / "train.xx: 40 of 80 source tokens are not "
                                            "in the vocabulary and are read as <unk>: 'nine'\n"));
  const auto scores = [&](const std::string& model) {
    return json_of(
               {"evaluate", "--json", "--model", model, corpus / "valid.en", corpus / "valid.xx"})
        .at("perplexity")
        .get<double>();
  };
  CHECK(scores(corpus / "o") == doctest::Approx(scores(trained.model())).epsilon(1e-4));
  const auto entry = [&](const char* name) {
    return json_of({"inspect", "--json", corpus / "p"}).at("metadata").at(name);
  };
  output_of(corpus.train("p", start + one_step));
  CHECK(entry("rate") == "0.0025");  // a quarter
  CHECK(entry("hidden") == "32");
  CHECK(entry("from") == trained.model());
  // --resume continues the new training.
  const Arguments resume = corpus.train("p", start + Arguments{"--resume", "--steps", "2"});
  CHECK(contains(output_of(resume), "resuming at step 1 of 2"));
  const std::string was = "--from: " + trained.model() + " was trained with ";
  check_refused(
      {{corpus.train("e", start + Arguments{"--hidden", "64"}), was + "hidden = '32', not '64'"},
       {corpus.train("e", start + Arguments{"--tokens", "characters"}),
        was + "tokens = 'words', not 'characters'"},
       {corpus.train("e", start + Arguments{"--model", "luong"}),
        was + "model = 'nematus', not..."},
       {trained.train("model", start),
        "--out: " + trained / "model contains the model of --from, expected another directory"},
       {corpus.train("p", {"--resume", "--from", corpus / "o"}),
        "--resume: " + corpus / "p/last.safetensors was trained with from = ..."}});
}

TEST_CASE("attune train --from: subwords of a model") {
  if (!text::has_sentencepiece()) return;
  const Corpus corpus;
  output_of(corpus.train(
      "first", without(one_epoch, "--tokens") + Arguments{"--tokens", "bpe", "--pieces", "40"}));
  write(corpus / "train.en", "five eight one\neight\nfive\n");
  write(corpus / "train.xx", "EINS ACHT FÜNF\nACHT\nFÜNF\n");
  output_of(corpus.train("second", {"--from", corpus / "first", "--steps", "1"}));
  for (const char* entry : {"source_tokenizer", "target_vocabulary"})
    CHECK(load_safetensors(corpus / "first/best.safetensors").metadata.at(entry) ==
          load_safetensors(corpus / "second/best.safetensors").metadata.at(entry));
}

TEST_CASE("attune train: given SentencePiece models") {
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

TEST_CASE("attune train: options from a config file; the command line takes precedence") {
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
  // --model on the command line keeps the options of the config file.
  write(corpus / "recipe.ini", "inner = 16\nmodel = luong\nepochs = 1\n");
  const Arguments config = {"--config", corpus / "recipe.ini"}, model = {"--model", "transformer"};
  for (const Arguments& typed : {config + model, model + config}) {
    output_of(corpus.train("typed", typed + Arguments{"--tokens", "words", "--hidden", "24"}));
    CHECK(load_safetensors(corpus / "typed/last.safetensors").metadata.at("inner") == "16");
  }
}

TEST_CASE("attune train: measures exact matches of short pairs, also with --metric loss") {
  const Corpus corpus;
  for (const auto* metric : {"exact", "loss", "bleu"}) {
    output_of(corpus.train(
        "out", one_epoch + Arguments{"--rate", "0.01", "--metric", metric, "--beam", "5"}));
    const Arguments evaluate = {"evaluate", corpus / "valid.en", corpus / "valid.xx",
                                "--model",  corpus / "out",      "--beam",
                                "5"};
    CHECK(contains(output_of(evaluate),
                   metric == std::string("bleu") ? "\nBLEU " : "\nexact match "));
    // Validation and evaluate use the same search.
    CHECK(log_of(corpus / "out").back().at("chrf") ==
          json_of(evaluate + Arguments{"--json"}).at("chrf"));
  }
}

TEST_CASE("attune train: trains with bf16 products, or prints that it falls back") {
  const Corpus corpus;
  const ProcessResult result =
      run(corpus.train("out", tiny + Arguments{"--rate", "0.01", "--epochs", "15", "--precision",
                                               "bf16", "--validate-every", "100"}));
  REQUIRE(result.status == 0);
  CHECK(result.err.empty() == (fastest_precision(Precision::bf16) == Precision::bf16));
  CHECK(log_of(corpus / "out").back().at("bleu").get<double>() > 60);
}

}  // namespace attune::pairs::test
