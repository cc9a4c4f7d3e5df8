// End-to-end tests of the commands of attune on sentences.
#include <fmt/format.h>

#include <attune/models/by_name.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/models/text/utf8.hpp>

#include "attune_program.hpp"
#include "terminal.hpp"

namespace attune::pairs::test {

TEST_CASE("attune: trains on a language, and translates line by line") {
  const Trained& trained = Trained::get();
  CHECK(translated("one two\n\nthree four five\nseven\n") ==
        "ZWEI EINS\n\nFÜNF VIER DREI\nSIEBEN\n");
  const Json json = trained.measured({"--out", trained / "written"});
  CHECK(json.at("bleu") >= 90);
  CHECK(json.at("chrf") >= 90);
  CHECK(json.at("perplexity") < 2);
  CHECK(json.at("pairs") == 30);
  CHECK(json.contains("seconds"));
  CHECK(std::ranges::count(read(trained / "written"), '\n') == 30);
}

TEST_CASE("attune evaluate: BLEU and chrF with one reference or several") {
  const Trained& trained = Trained::get();
  write(trained / "s.en", "one two three\nfour five\n");
  write(trained / "s.xx", "DREI ZWEI VIER\nFÜNF VIER\n");
  const Arguments evaluate =
      trained.with("evaluate", {"--bleu", "none", "--json", trained / "s.en", trained / "s.xx"});
  write(trained / "s2.xx", "\n\n"), write(trained / "s3.xx", "DREI ZWEI EINS\n\n");
  const Json json = json_of(
      evaluate + Arguments{"--reference", trained / "s2.xx", "--reference", trained / "s3.xx"});
  CHECK(json.at("chrf").get<double>() == doctest::Approx(100));
  CHECK(json.at("perplexity") == json_of(evaluate).at("perplexity"));
  write(trained / "s2.xx", "\n");
  CHECK(error_of(evaluate + Arguments{"--reference", trained / "s2.xx"}) ==
        "attune: " + trained / "s2.xx" + ": 1 lines, expected one for each of 2 pairs");
  write(trained / "s2.xx", "DREI\tZWEI\n\n");
  CHECK(error_of(evaluate + Arguments{"--reference", trained / "s2.xx"}) ==
        "attune: " + trained / "s2.xx" + ":1: contains a TAB, expected one text per line");
  write(trained / "references.ini", "reference = " + trained / "s2.xx" + "\n");  // replaced below
  output_of(evaluate +
            Arguments{"--config", trained / "references.ini", "--reference", trained / "s3.xx"});
}

TEST_CASE("attune predict --shortlist: with the table of a model that was trained with one") {
  const Corpus corpus;
  output_of(corpus.train("listed", tiny + Arguments{"--epochs", "3", "--shortlist", "yes"}));
  const std::string model = corpus / "listed/best.safetensors";
  output_of({"average", model, "--out", corpus / "mean.safetensors"});
  for (const std::string& file : {model, corpus / "mean.safetensors"}) {
    const Arguments predict = {"predict", "--model", file, "two one", "five", "--format", "text"};
    CHECK(output_of(predict + Arguments{"--shortlist"}) == output_of(predict));  // few tokens
    output_of({"inspect", file});
  }
  const Arguments evaluate = {"evaluate",          "--model",           model,
                              corpus / "valid.en", corpus / "valid.xx", "--json"};
  CHECK(json_of(evaluate + Arguments{"--shortlist"}).at("bleu") == json_of(evaluate).at("bleu"));
  CHECK(error_of(Trained::get().with("predict", {"one", "--shortlist"})) ==
        "attune: --shortlist: the model has no table, expected one trained with --shortlist yes");
}

TEST_CASE("attune compare: compares models with the first, in a table and as JSON") {
  const Trained& trained = Trained::get();
  const Arguments compare =
      trained.with("compare", {trained / "valid.en", trained / "valid.xx", "--lengths", "2,3",
                               "--model", Short::get() / "short"});
  const std::vector<std::string> lines = lines_of(output_of(compare));
  REQUIRE(lines.size() == 5);
  for (std::size_t i = 1; i < 4; ++i) CHECK(lines[i].size() == lines[0].size());
  CHECK(contains(lines[0], " 0-2 "));
  CHECK(lines[0].ends_with("  4-"));
  CHECK(lines[3].starts_with("short "));
  CHECK(contains(lines[3], " -"));        // much worse
  CHECK(contains(lines[3], "  0.001 "));  // and significant
  CHECK(contains(lines[4], "BLEU by source length"));
  const std::vector<std::string> json = lines_of(output_of(compare + Arguments{"--json"}));
  REQUIRE(json.size() == 2);
  const Json best = Json::parse(json[0]), other = Json::parse(json[1]);
  CHECK(best.at("bleu") >= 90);
  CHECK(best.at("exact_match") > other.at("exact_match"));
  CHECK(best.at("by_length").at("4-") >= 90);
  CHECK(other.at("bleu") < best.at("bleu"));
  CHECK(other.at("model") == "short");
  CHECK(other.at("change") < -30);
  CHECK(other.at("p") < 0.01);
  CHECK((best.at("change").is_null() && best.at("p").is_null()));
  CHECK(best.at("pairs_by_length").at("4-") > 0);
  Safetensors file = load_safetensors(trained.model());
  file.metadata["bleu"] = "13a";
  save_safetensors(trained / "13a.safetensors", file);
  const Arguments both = trained.with("compare", {"--model", trained / "13a.safetensors"});
  CHECK(contains(error_of(both), "13a were trained with different ones, expected 13a or none"));
  CHECK(contains(output_of(both + Arguments{"--bleu", "none"}), " +0.00 "));
}

TEST_CASE("attune compare: tests exact matches of words; evaluate warns of other tokens") {
  const TrainedWords& trained = TrainedWords::get();
  output_of(trained.train("poor", twenty_steps));
  const Arguments compare = trained.with("compare", {"--model", trained / "poor"});
  CHECK(contains(output_of(compare), "change and p: of exact match, %"));
  const auto lines = lines_of(output_of(compare + Arguments{"--json"}));
  const Json good = Json::parse(lines[0]), poor = Json::parse(lines[1]);
  CHECK(poor.at("metric") == "exact match, %");
  CHECK(poor.at("change").get<double>() ==
        doctest::Approx(
            100 * (poor.at("exact_match").get<double>() - good.at("exact_match").get<double>())));
  CHECK(poor.at("p") < 0.01);
  const Json json = json_of({"evaluate", "--model", trained / "poor", "--json"});
  CHECK(json.at("mistakes").size() == json.at("all").at("pairs").get<std::size_t>() -
                                          json.at("all").at("right").get<std::size_t>());
  write(trained / "tokens.tsv", "tamiba\tt\nbimita\tb\n");
  const ProcessResult result =
      run(trained.with("evaluate", {trained / "tokens.tsv", "--bleu", "none"}));
  CHECK(contains(result.err, "the token error exceeds 100 %"));
  CHECK(contains(result.out, "\nBLEU "));
  const Json inspected = json_of({"inspect", trained / "model", "--json"});
  CHECK(inspected.at("checksum") == load_safetensors(trained / "model/best.safetensors").checksum);
  CHECK(inspected.at("target_tokens") == "words between blanks");
}

TEST_CASE("attune: translates a line before the next one is available") {
  const Directory directory;
  // The input stays open until the first translation is read.
  for (const char* script :
       {"mkfifo \"$0\"; { echo 'one two'; cat \"$0\"; } | \"$@\" | { read -r line; echo \"$line\"; "
        "echo seven > \"$0\"; cat; }; rm \"$0\"",
        "mkfifo \"$0\" \"$0\"-text; { echo 'one two'; cat \"$0\"; } > \"$0\"-text & \"$@\" --file "
        "\"$0\"-text | { "
        "read -r line; echo \"$line\"; echo seven > \"$0\"; cat; }"}) {
    const ProcessResult result =
        run_process({"sh", "-c", script, directory / "seen", PROGRAM, "predict", "--format", "text",
                     "--model", Trained::get().model()},
                    {.limit = std::chrono::seconds(60)});
    CHECK(result.out == "ZWEI EINS\nSIEBEN\n");
    CHECK(result.err.empty());
  }
}

TEST_CASE("attune: prompts for each line in a terminal, and answers it") {
  Terminal terminal({PROGRAM, "predict", "--format", "text", "--model", Trained::get().model()},
                    80);
  CHECK(terminal.shown_until("> ") == "> ");
  terminal.type("one two\n");
  CHECK(terminal.shown_until("> ") == "one two\nZWEI EINS\n> ");
  terminal.type("se\xFFven\n");  // does not end the program
  CHECK(contains(terminal.shown_until("> "), "standard input:2: byte 3 of the line (0xFF)"));
  terminal.type("seven\n");
  CHECK(terminal.shown_until("> ") == "seven\nSIEBEN\n> ");
  terminal.type("one two\nse\xFFven\nseven\n");  // pasted at once
  const std::string shown = terminal.shown_until("SIEBEN\n");
  CHECK(contains(shown, "ZWEI EINS\n"));
  CHECK(contains(shown, "standard input:5: byte 3 of the line (0xFF)"));
  CHECK(terminal.shown_until("> ") == "> ");
  terminal.type("\x04");
  CHECK(terminal.shown_to_the_end() == "\n");
}

TEST_CASE("attune: translates the lines before an invalid line") {
  std::string source, expected;
  for (int i = 0; i < 100; ++i) source += "one two\n", expected += "ZWEI EINS\n";
  const Arguments translate = {"predict", "--format", "text", "--model", Trained::get().model()};
  const ProcessResult result = run(translate, {.input = source + "\xFF\nseven\n"});
  CHECK(error_line("attune", result) ==
        "attune: standard input:101: byte 1 of the line (0xFF) is not UTF-8, expected text in "
        "UTF-8");
  CHECK(result.out == expected);
  const Directory directory;
  write(directory / "text", "one\nseven\n\xFF\n");
  const ProcessResult file = run(translate + Arguments{"--file", directory / "text"});
  CHECK(error_line("attune", file).starts_with("attune: " + directory / "text:3: byte 1"));
  CHECK(file.out == "EINS\nSIEBEN\n");
}

TEST_CASE("attune predict: --best, with descending probabilities") {
  const auto best = [](const char* beam, const Arguments& more) {
    return output_of(
        Arguments{"predict", "--model", Trained::get().model(), "--best", "3", "--beam", beam} +
            more,
        {.input = "one two three\nfour\n"});
  };
  const std::vector<std::string> lines = lines_of(best("4", {}));
  REQUIRE(lines.size() == 6);
  CHECK(lines[0].starts_with("one two three\tDREI ZWEI EINS\t0."));
  const auto probability = [&](std::size_t i) {
    return std::stod(lines[i].substr(lines[i].rfind('\t') + 1));
  };
  CHECK(probability(0) >= probability(1));
  CHECK(lines_of(best("4", {"--format", "text"})).size() ==
        7);  // three lines, an empty line, three lines
  CHECK(best("1", {}) == best("3", {}));
}

TEST_CASE("attune: an ensemble of equal models predicts the same as one") {
  const std::string source = sentences(20, 4).source;
  CHECK(translated(source, {"--model", Trained::get().model()}) == translated(source));
  const std::string other = TrainedWords::get() / "model";
  CHECK(contains(error_of(Trained::get().with("predict", {"--model", other}), {.input = source}),
                 "its source_tokenizer differs from that of the first model"));
}

TEST_CASE("attune: samples depend on the seed and the line, not on the batch size") {
  const auto drawn = [](const char* seed, const char* batch) {
    return translated(sentences(30, 5).source, {"--sample", "--temperature", "2", "--top-k", "8",
                                                "--seed", seed, "--batch", batch});
  };
  CHECK(drawn("1", "1") == drawn("1", "64"));
  CHECK(drawn("1", "64") != drawn("2", "64"));
}

TEST_CASE("attune: --top-p near 0 samples the most likely words, as greedy search does") {
  const std::string source = sentences(30, 5).source;
  CHECK(translated(source, {"--sample", "--top-p", "0.000001"}) ==
        translated(source, {"--beam", "1"}));
}

TEST_CASE("attune: --replace-unknown takes the source word with the largest attention weight") {
  const Corpus corpus;
  Text train = sentences(400, 1);
  // Words seen once are <unk> on both sides, at aligned positions.
  for (int i = 0; i < 60; ++i) {
    train.source += fmt::format("name{} one\n", i), train.target += fmt::format("EINS name{}\n", i);
  }
  write(corpus / "train.en", train.source), write(corpus / "train.xx", train.target);
  output_of(corpus.train("model", tiny + Arguments{"--rate", "0.01", "--epochs", "30",
                                                   "--min-count", "2", "--validate-every", "200"}));
  const Arguments translate = {"predict", "--format", "text", "--model",
                               corpus / "model/best.safetensors"};
  CHECK(output_of(translate + Arguments{"--unk"}, {.input = "maria one\n"}) == "EINS <unk>\n");
  CHECK(output_of(translate, {.input = "maria one\n"}).find("<unk>") == std::string::npos);
  CHECK(output_of(translate + Arguments{"--replace-unknown"}, {.input = "maria one\n\n"}) ==
        "EINS maria\n\n");
  CHECK(run(translate, {.input = "maria one\nmax one\nmax\n"}).err ==
        "warning: standard input: 3 of 5 source tokens are not in the vocabulary and are read as "
        "<unk>: 'maria', 'max'\n");
  CHECK(run(translate + Arguments{"max one"}).err ==
        "warning: 'max' was never seen in training and is read as <unk>\n");
}

TEST_CASE("attune score: equals the log-probabilities of the search") {
  const Trained& trained = Trained::get();
  const Directory directory;
  std::string pairs;
  std::vector<double> searched;
  for (const std::string& line : lines_of(
           output_of({"predict", "--model", trained.model(), "--length-penalty", "0", "--json"},
                     {.input = sentences(200, 5).source}))) {
    const Json json = Json::parse(line), best = json.at("best").at(0);
    pairs +=
        json.at("source").get<std::string>() + "\t" + best.at("target").get<std::string>() + "\n";
    searched.push_back(best.at("log_probability"));
  }
  write(directory / "pairs.tsv", pairs + "\tEINS\n");
  const Arguments score = trained.with("score", {directory / "pairs.tsv"});
  const auto lines = lines_of(output_of(score)),
             json = lines_of(output_of(score + Arguments{"--json"}));
  REQUIRE(lines.size() == 201);
  for (std::size_t i = 0; i < 200; ++i) {
    double sum = 0;
    const Json scored = Json::parse(json[i]);
    for (const double token : scored.at("tokens")) sum += token;
    for (const double found : {sum, std::stod(lines[i].substr(lines[i].rfind('\t') + 1))})
      CHECK(found == doctest::Approx(searched[i]).epsilon(1e-3));
  }
  CHECK(lines[200].empty());  // the source is empty
}

TEST_CASE("attune align: links each word to its translation") {
  const Trained& trained = Trained::get();
  write(trained / "a.en", "one two three\n\nfour\n"),
      write(trained / "a.xx", "DREI ZWEI EINS\n\nVIER\n");
  const Arguments align = trained.with("align", {trained / "a.en"});
  CHECK(output_of(align + Arguments{trained / "a.xx", "--format", "pharaoh"}) ==
        output_of(align + Arguments{"--format", "pharaoh"}));  // its own predictions are the same
  CHECK(lines_of(output_of(align + Arguments{"--format", "pharaoh"})).size() == 3);
  CHECK(contains(output_of(align), "DREI"));
  CHECK(output_of(align + Arguments{"--format", "html", "--out", trained / "a.html"}).empty());
  CHECK(contains(read(trained / "a.html"), "<svg"));
  CHECK(contains(output_of(align + Arguments{"--format", "json"}),
                 R"("source":["one","two","three"])"));
  CHECK(contains(error_of(align + Arguments{"--out", trained / "no/a.html"}),
                 "no/a.html: cannot be written: No such file or directory"));
  write(trained / "b.xx", "DREI\n");
  CHECK(contains(error_of(align + Arguments{trained / "b.xx"}), "3 lines, but"));
  const std::string source = trained / "a.en";
  CHECK(error_of(align + Arguments{"--out", source}) ==
        "attune: " + source + ": is also read or written by this program, expected another file");
  CHECK(output_of(align + Arguments{"--out", trained / "a.svg"}).empty());
  CHECK(contains(read(trained / "a.svg"), ">one two three → DREI ZWEI EINS, log-probability "));
  write(trained / "a.tsv", "one\none two\tZWEI EINS\n");
  CHECK(error_of({"align", "--model", trained.model(), trained / "a.tsv"}) ==
        "attune: " + trained / "a.tsv" + ":2: contains a TAB, expected a source without a target");
}

TEST_CASE("attune align: reads a sentence, a pair of sentences, and standard input like a file") {
  const Trained& trained = Trained::get();
  write(trained / "s.en", "one two three\n"), write(trained / "s.tsv", "one two\tEINS ZWEI\n");
  const std::string of_file = output_of(trained.with("align", {trained / "s.en"})),
                    of_pair = output_of(trained.with("align", {trained / "s.tsv"}));
  CHECK(output_of(trained.with("align", {"one two three"})) == of_file);
  CHECK(output_of(trained.with("align"), {.input = "one two three\n"}) == of_file);
  CHECK(output_of(trained.with("align", {"-"}), {.input = "one two three\n"}) == of_file);
  CHECK(output_of(trained.with("align", {"one two", "EINS ZWEI"})) == of_pair);
  CHECK(output_of(trained.with("align"), {.input = "one two\tEINS ZWEI\n"}) == of_pair);
  CHECK(error_of(trained.with("align", {"missing.tsv"})) ==
        "attune: missing.tsv: cannot be read: No such file or directory");
}

TEST_CASE("attune align --gold: the error rate of the model's links, on pairs") {
  const Trained& trained = Trained::get();
  const std::string sources = trained / "g.en", targets = trained / "g.xx",
                    links = trained / "g.links";
  write(sources, "one two three\n\nfour\n"), write(targets, "DREI ZWEI EINS\n\nVIER\n");
  const Arguments align = trained.with("align", {sources, "--gold", links});
  write(links, "1-3 2-2 3-1\n\n1-1\n");
  CHECK(output_of(align + Arguments{targets}) ==
        "alignment error rate 0.0000, precision 1.0000, recall 1.0000  (3 pairs)\n");
  write(links, "1-3 2-2 3-1 3-3\n\n1p1\n");
  CHECK(output_of(align + Arguments{targets}) ==
        "alignment error rate 0.1250, precision 1.0000, recall 0.7500  (3 pairs)\n");
  write(links, "1-1\n\n1-1\n");
  write(trained / "g.tsv", "one\tEINS\n\nfour\tVIER\n");  // one line of links per line
  CHECK(contains(output_of(trained.with("align", {trained / "g.tsv", "--gold", links})),
                 "error rate 0.0000, precision 1.0000, recall 1.0000  (3 pairs)"));
  CHECK(error_of(align) == "attune: " + sources + ": has no targets, expected pairs for --gold");
  CHECK(error_of(align + Arguments{targets, "--format", "json"}) ==
        "attune: --format: has no effect without alignments, which --gold replaces");
}

TEST_CASE("attune align: the weights in JSON match the links") {
  const Trained& trained = Trained::get();
  write(trained / "w.en", "one two three\n\nfour\n");
  const auto aligned = [&](const char* format) {
    return output_of({"align", "--model", trained.model(), trained / "w.en", "--format", format});
  };
  const std::vector<std::string> json = lines_of(aligned("json")),
                                 links = lines_of(aligned("pharaoh"));
  REQUIRE(json.size() == 3);
  CHECK(json[1] == R"({"source":[],"target":[],"weights":[]})");
  for (std::size_t i : {0u, 2u}) {
    const Json pair = Json::parse(json[i]);
    std::vector<std::string> expected;
    for (std::size_t t = 0; t < pair["target"].size(); ++t) {
      const std::vector<double> row = pair["weights"][t];
      REQUIRE(row.size() == pair["source"].size());
      expected.push_back(fmt::format("{}-{}", std::ranges::max_element(row) - row.begin(), t));
    }
    std::ranges::sort(expected);
    CHECK(links[i] == fmt::format("{}", fmt::join(expected, " ")));
  }
}

TEST_CASE("attune report: curves, BLEU by length, heat maps and predictions in one page") {
  const Trained& trained = Trained::get();
  const std::string page = trained / "page.html";
  const Arguments report = trained.with("report", {"--bleu", "none", "--beam", "2", "--out", page});
  CHECK(output_of(report) == page + "\n");
  CHECK(contains(output_of(report + Arguments{"--best", "4"}), "(replaces the previous report)"));
  const std::string html = read(page);
  const Json json = trained.measured({"--beam", "2"});
  for (const auto& [name, field] :
       {std::pair{"BLEU", "bleu"}, {"chrF", "chrf"}, {"Perplexity", "perplexity"}}) {
    CAPTURE_BINDING(name);
    CHECK(contains(html, fmt::format("<dt>{}</dt><dd dir=\"auto\">{:.2f}</dd>", name,
                                     json.at(field).get<double>())));
  }
  for (const char* part :
       {"<h1 dir=\"auto\">model: train.en and train.xx</h1>", "with beam size 2.",
        "Model: nematus;", "Learning curves", "BLEU by length", "Attention", ">reference<",
        "encoder-layers", "<pre class=\"log\" data-metric=\"bleu\"", "</html>"})
    CHECK_MESSAGE(contains(html, part), part);
  int drawings = 0;
  for (std::size_t at = 0; (at = html.find("<svg", at)) != html.npos; ++at) ++drawings;
  CHECK(drawings == 12);  // the script draws the curves
}

TEST_CASE("attune average: the mean of a checkpoint with itself is the checkpoint") {
  const Trained& trained = Trained::get();
  output_of({"average", trained.model(), trained.model(), "--out", trained / "mean.safetensors"});
  check_same_tensors(trained.model(), trained / "mean.safetensors");
  const Safetensors best = load_safetensors(trained.model()),
                    last = load_safetensors(trained / "model/last.safetensors");
  for (int repeated = 0; repeated < 2; ++repeated)
    output_of({"average", trained / "model/last.safetensors", trained.model(), "--out",
               trained / "mean.safetensors"});
  const Safetensors mean = load_safetensors(trained / "mean.safetensors");
  const auto first = [](const Safetensors& file) {
    return double{file.find("output.W")->to_vector<float>()[0]};
  };
  CHECK(first(mean) == doctest::Approx((first(best) + first(last)) / 2).epsilon(1e-6));
  const std::string before = read(trained.model());
  CHECK(error_of({"average", trained.model(), trained / "model/last.safetensors", "--out",
                  trained.model()}) ==
        "attune: " + trained.model() +
            ": is also read or written by this program, expected another file");
  CHECK(read(trained.model()) == before);
  CHECK(contains(error_of({"average", trained.model(), Short::get() / "short"}),
                 "its hidden differs from that of the first checkpoint"));
}

TEST_CASE("attune average: does not replace a resumable checkpoint or another file") {
  const Trained& trained = Trained::get();
  const std::string last = trained / "model/last.safetensors", before = read(last);
  CHECK(error_of({"average", trained.model(), trained.model(), "--out", last}) ==
        "attune: " + last +
            ": contains the state to resume a training, expected another output file");
  CHECK(read(last) == before);
  CHECK(contains(
      error_of({"average", trained.model(), trained.model(), "--out", trained / "model/log.jsonl"}),
      "log.jsonl: exists and is not a model, expected another output file"));
}

TEST_CASE("attune inspect --export: exported subwords and vocabularies give the same model") {
  const Corpus corpus;
  const bool pieces = text::has_sentencepiece();
  const Arguments untokenised = without(one_epoch, "--tokens"),
                  learnt = pieces ? Arguments{"--tokens", "bpe", "--pieces", "40"}
                                  : Arguments{"--tokens", "characters"};
  output_of(corpus.train("first", untokenised + learnt));
  const std::string out = corpus / "its", source = out + ".source", target = out + ".target";
  const std::string printed = output_of({"inspect", corpus / "first", "--export", out});
  CHECK(contains(printed, source + ".vocabulary\n"));
  Arguments again = untokenised + Arguments{"--source-vocabulary", source + ".vocabulary",
                                            "--target-vocabulary", target + ".vocabulary"};
  if (pieces) {
    again = again +
            Arguments{"--source-pieces", source + ".model", "--target-pieces", target + ".model"};
  } else {
    again = again + learnt;
  }
  output_of(corpus.train("again", again));
  check_same_tensors(corpus / "first/best.safetensors", corpus / "again/best.safetensors");
  CHECK(contains(error_of({"inspect", corpus / "first", "--export", corpus / "no/its"}),
                 "cannot be written: No such file or directory"));
  std::filesystem::create_directory(corpus / "new.target.vocabulary");
  CHECK(contains(error_of({"inspect", corpus / "first", "--export", corpus / "new"}),
                 "cannot be written: Is a directory"));
  CHECK_FALSE(std::filesystem::exists(corpus / "new.source.vocabulary"));
}

TEST_CASE("attune inspect: options, vocabularies and parameters") {
  const std::string out = output_of({"inspect", Trained::get().model()});
  CHECK(contains(out, "hidden              32\n"));
  CHECK(contains(out, "source              words between blanks, 12 kinds\n"));
  CHECK(contains(out, "output.b"));
  const Json json = json_of({"inspect", Trained::get().model(), "--json"});
  CHECK(json.at("metadata").at("hidden") == "32");
  CHECK(json.at("source_vocabulary") == 12);
  CHECK(json.at("parameters").at("output.b") == Json({12}));
}

TEST_CASE("attune --swap: the first column of a TSV is the target") {
  const Corpus corpus;
  for (const std::string name : {"train", "valid"})
    write(corpus / (name + ".tsv"), corpus.columns(name, ".xx", ".en"));
  const std::string valid = corpus / "valid.tsv";
  const Arguments from_tsv = Arguments{"--train", corpus / "train.tsv", "--valid", valid};
  output_of(corpus.train("two", one_epoch));
  output_of(Arguments{"train", "--swap", "--out", corpus / "one"} + from_tsv + one_epoch);
  check_same_tensors(corpus / "one/last.safetensors", corpus / "two/last.safetensors");
  const auto scores = [&](const std::string& model, const Arguments& more) {
    return output_of(Arguments{"score", "--model", corpus / model} + more);
  };
  const std::string expected = scores("two", {corpus / "valid.en", corpus / "valid.xx"});
  CHECK(scores("one", {corpus / "valid.en", corpus / "valid.xx"}) == expected);
  CHECK(scores("one", {valid}) == expected);  // swapped as in training
  CHECK(scores("two", {"--swap", valid}) == expected);
  CHECK(scores("two", {valid}) != expected);
  CHECK(error_of({"score", valid, corpus / "valid.xx", "--model", corpus / "two", "--swap"}) ==
        "attune: --swap: has no effect without PAIRS in a TSV");
  CHECK(error_of({"evaluate", "--target", valid, "--model", corpus / "two"}) ==
        "attune: --target: has no effect without PAIRS");
}

TEST_CASE("attune: no escape sequences with TERM=dumb") {
  const Corpus corpus;
  write(corpus / "one.en", "one two\n");
  for (const Arguments& arguments :
       {corpus.train("out", one_epoch),
        Arguments{"align", "--model", Trained::get().model(), corpus / "one.en"}}) {
    Terminal terminal(Arguments{"/usr/bin/env", "TERM=dumb", PROGRAM} + arguments, 80);
    CHECK(is_plain(terminal.shown_to_the_end()));
  }
}

TEST_CASE(
    "attune: the help of every command ends with an example; that of train has at most 75 lines"
    "") {
  check_examples(PROGRAM, {"train", "predict", "evaluate", "compare", "score", "align", "report",
                           "average", "inspect"});
  const std::string help = output_of({"train", "--help"});
  CHECK(help == output_of({"train", "-h"}));
  const auto lines = lines_of(help);
  CHECK(lines.size() <= 75);
  for (const std::string& line : lines) CHECK(text::code_points(line).size() <= 100);
  CHECK(contains(help, "--help-all"));
  for (const models::ModelKind& kind : models::model_kinds()) {
    models::ModelOptions own = models::model_options(kind.name);
    const std::string all = output_of({"train", "--model", kind.name, "--help-all"});
    for (const models::Option& one : models::options_of(own))
      CHECK_MESSAGE(contains(all, "--" + one.name + " "), one.name);
    if (std::string(kind.name) == "transformer") CHECK(contains(all, "layers of the encoder [3]"));
  }
}

}  // namespace attune::pairs::test
