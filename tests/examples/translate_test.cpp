// The translate program, run as a user runs it.
#include <fmt/format.h>

#include <attune/models/text/sentencepiece.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/precision.hpp>

#include "support/letters.hpp"
#include "terminal.hpp"
#include "translate_program.hpp"

namespace attune::translate::test {

TEST_CASE("translate: it learns a language, and translates line by line") {
  const Trained& trained = Trained::get();
  CHECK(output_of({"translate", "--model", trained.model()},
                  {.input = "one two\n\nthree four five\nseven\n"}) ==
        "ZWEI EINS\n\nFÜNF VIER DREI\nSIEBEN\n");
  const Json json = Json::parse(
      output_of({"evaluate", "--model", trained.model(), "--json", "--bleu", "none",
                 trained / "valid.en", trained / "valid.xx", "--out", trained / "written"}));
  CHECK(json.at("bleu") >= 90);
  CHECK(json.at("chrf") >= 90);
  CHECK(json.at("perplexity") < 2);
  CHECK(json.at("sentences") == 30);
  CHECK(json.contains("seconds"));
  CHECK(std::ranges::count(read(trained / "written"), '\n') == 30);
}

TEST_CASE("translate evaluate: BLEU and chrF of each sentence, with one reference or several") {
  const Trained& trained = Trained::get();
  write(trained / "s.en", "one two three\nfour five\n");
  write(trained / "s.xx", "DREI ZWEI VIER\nFÜNF VIER\n");
  const Arguments evaluate = {"evaluate", "--bleu",        "none",           "--json",
                              "--model",  trained.model(), trained / "s.en", trained / "s.xx"};
  output_of(evaluate + Arguments{"--sentences", trained / "scores"});
  // Of DREI ZWEI EINS. BLEU: 2/3, 1/2 and, smoothed, 1/2 of the n-grams match; the cube root of
  // their product is 0.5503.
  // chrF: 10/12, 8/11, 6/10, 5/9, 4/8 and 3/7 of the n-grams of characters, in the mean 0.6075, on
  // both sides.
  CHECK(read(trained / "scores") == "55.03\t60.75\tDREI ZWEI EINS\n100.00\t100.00\tFÜNF VIER\n");
  write(trained / "s2.xx", "\n\n"), write(trained / "s3.xx", "DREI ZWEI EINS\n\n");
  const Json json = Json::parse(output_of(
      evaluate + Arguments{"--reference", trained / "s2.xx", "--reference", trained / "s3.xx"}));
  CHECK(json.at("chrf").get<double>() == doctest::Approx(100));
  CHECK(json.at("perplexity") == Json::parse(output_of(evaluate)).at("perplexity"));
  write(trained / "s2.xx", "\n");
  CHECK(error_of(evaluate + Arguments{"--reference", trained / "s2.xx"}) ==
        "translate: " + trained / "s2.xx" + ": 1 lines, expected one for each of 2 sentences");
}

TEST_CASE("translate evaluate: a model together with itself measures what it does alone") {
  const Trained& trained = Trained::get();
  const auto measured = [&](const Arguments& more) {
    return Json::parse(output_of(Arguments{"evaluate", "--json", "--model", trained.model(),
                                           trained / "valid.en", trained / "valid.xx"} +
                                 more));
  };
  const Json alone = measured({}), together = measured({"--model", trained.model()});
  CHECK(together.at("bleu") == alone.at("bleu"));
  CHECK(together.at("perplexity").get<double>() ==
        doctest::Approx(alone.at("perplexity").get<double>()).epsilon(1e-5));
}

TEST_CASE("translate: models are held against the first, in a table and as JSON") {
  const Trained& trained = Trained::get();
  const Corpus corpus;
  output_of(corpus.train("short", tiny + Arguments{"--epochs", "1"}));
  const Arguments compare = {"compare",
                             "--bleu",
                             "none",
                             "--lengths",
                             "2,3",
                             trained / "valid.en",
                             trained / "valid.xx",
                             trained.model(),
                             corpus / "short/best.safetensors"};
  const std::vector<std::string> lines = lines_of(output_of(compare));
  REQUIRE(lines.size() == 4);
  for (const std::string& line : lines) CHECK(line.size() == lines[0].size());
  CHECK(lines[0].ends_with("    0-2      3     4-"));
  CHECK(lines[3].starts_with("short "));
  CHECK(contains(lines[3], " -"));        // far worse,
  CHECK(contains(lines[3], "  0.001 "));  // and surely so
  const std::vector<std::string> json = lines_of(output_of(compare + Arguments{"--json"}));
  REQUIRE(json.size() == 2);
  const Json best = Json::parse(json[0]), other = Json::parse(json[1]);
  CHECK(best.at("bleu") >= 90);
  CHECK(best.at("by_length").at("4-") >= 90);
  CHECK(other.at("bleu") < best.at("bleu"));
  CHECK(other.at("model") == "short");
}

TEST_CASE("translate compare: a column has sources of so many words, and - where there is none") {
  const Trained& trained = Trained::get();
  write(trained / "lengths.en", "one two three\nfour\n");
  write(trained / "lengths.xx", "DREI\nVIER DREI ZWEI EINS\n");
  const Arguments compare = {"compare",
                             "--bleu",
                             "none",
                             "--lengths",
                             "1,2",
                             trained / "lengths.en",
                             trained / "lengths.xx",
                             trained.model()};
  const std::vector<std::string> lines = lines_of(output_of(compare));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].ends_with("    0-1      2     3-"));
  CHECK(lines[1].ends_with("      1      0      1"));
  CHECK(contains(lines[2], "      - "));
  const Json by_length = Json::parse(output_of(compare + Arguments{"--json"})).at("by_length");
  CHECK(by_length.at("2").is_null());
  CHECK(by_length.at("0-1").is_number());
  for (const std::string wrong : {"-1", "a", "[2,8]", "8,2", "8,8", "2,,3", "2,", ""}) {
    CHECK(error_of(compare + Arguments{"--lengths", wrong}) ==
          "translate: --lengths: '" + wrong +
              "' is not rising whole numbers with commas between them, as 8,12,16");
  }
  CHECK(
      error_of({"compare", trained / "lengths.tsv", trained.model()}) ==
      "translate: models: one was expected after source and target, which is \"\" when the source "
      "is a TSV of both");
}

TEST_CASE("translate: what is written does not depend on the batch") {
  const Trained& trained = Trained::get();
  const std::string source = sentences(50, 3).source + "\none\n\n";
  const auto with_batch = [&](const char* batch) {
    return output_of({"translate", "--model", trained.model(), "--batch", batch, "--beam", "3"},
                     {.input = source});
  };
  CHECK(with_batch("1") == with_batch("7"));
  CHECK(with_batch("1") == with_batch("64"));
}

TEST_CASE("translate: a line is translated before the next one is written") {
  const Directory directory;
  // The input stays open until the first translation was read.
  for (const char* script :
       {"mkfifo \"$0\"; { echo 'one two'; cat \"$0\"; } | \"$@\" | { read -r line; echo \"$line\"; "
        "echo seven > \"$0\"; cat; }; rm \"$0\"",
        "mkfifo \"$0\" \"$0\"-text; { echo 'one two'; cat \"$0\"; } > \"$0\"-text & \"$@\" "
        "\"$0\"-text | { "
        "read -r line; echo \"$line\"; echo seven > \"$0\"; cat; }"}) {
    const ProcessResult result =
        run_process({"sh", "-c", script, directory / "seen", ATTUNE_TRANSLATE, "translate",
                     "--model", Trained::get().model()},
                    {.limit = std::chrono::seconds(60)});
    CHECK(result.out == "ZWEI EINS\nSIEBEN\n");
    CHECK(result.err.empty());
  }
}

TEST_CASE("translate: in a terminal each line is asked for and answered") {
  Terminal terminal({ATTUNE_TRANSLATE, "translate", "--model", Trained::get().model()}, 80);
  CHECK(terminal.shown_until("> ") == "> ");
  terminal.type("one two\n");
  CHECK(terminal.shown_until("> ") == "one two\nZWEI EINS\n> ");
  terminal.type("se\xFFven\n");  // which does not end it
  CHECK(contains(terminal.shown_until("> "), "standard input:2: byte 3 of the line (0xFF)"));
  terminal.type("seven\n");
  CHECK(terminal.shown_until("> ") == "seven\nSIEBEN\n> ");
  terminal.type("one two\nse\xFFven\nseven\n");  // pasted
  const std::string shown = terminal.shown_until("SIEBEN\n");
  CHECK(contains(shown, "ZWEI EINS\n"));
  CHECK(contains(shown, "standard input:5: byte 3 of the line (0xFF)"));
  CHECK(terminal.shown_until("> ") == "> ");
  terminal.type("\x04");
  CHECK(terminal.shown_to_the_end() == "\n");
}

TEST_CASE("translate: what stands before a line that cannot be read is translated") {
  std::string source, expected;
  for (int i = 0; i < 100; ++i) source += "one two\n", expected += "ZWEI EINS\n";
  const Arguments translate = {"translate", "--model", Trained::get().model()};
  const ProcessResult result = run(translate, {.input = source + "\xFF\nseven\n"});
  CHECK(error_line("translate", result) ==
        "translate: standard input:101: byte 1 of the line (0xFF) is not UTF-8, expected text in "
        "UTF-8");
  CHECK(result.out == expected);
  const Directory directory;
  write(directory / "text", "one\nseven\n\xFF\n");
  const ProcessResult file = run(translate + Arguments{directory / "text"});
  CHECK(error_line("translate", file).starts_with("translate: " + directory / "text:3: byte 1"));
  CHECK(file.out == "EINS\nSIEBEN\n");
}

TEST_CASE(
    "translate: where a translation is cut at --max-length, its line or their number is told") {
  const std::string model = Trained::get().model();
  const Arguments cut = {"--model", model, "--max-length", "2", "--beam", "1"};
  const ProcessResult result =
      run(Arguments{"translate"} + cut, {.input = "one two\none two three\n\n"});
  CHECK(result.out == "ZWEI EINS\nDREI ZWEI\n\n");
  CHECK(result.err == "warning: standard input:2: the translation is cut at --max-length 2\n");
  const Directory directory;
  write(directory / "s", "one two\none two three\n"), write(directory / "t", "A\nB\n");
  const ProcessResult evaluated =
      run(Arguments{"evaluate", directory / "s", directory / "t"} + cut);
  CHECK(evaluated.status == 0);
  CHECK(evaluated.err == "warning: 1 of 2 translations are cut at --max-length 2\n");
}

TEST_CASE("translate: the best few, with scores that fall") {
  const std::string out = output_of(
      {"translate", "--model", Trained::get().model(), "--best", "3", "--beam", "4", "--scores"},
      {.input = "one two three\nfour\n"});
  const std::vector<std::string> lines = lines_of(out);
  REQUIRE(lines.size() == 7);  // three, none, three
  CHECK(lines[3].empty());
  CHECK(contains(lines[0], "\tDREI ZWEI EINS"));
  CHECK(std::stod(lines[0]) >= std::stod(lines[1]));
  CHECK(std::stod(lines[1]) >= std::stod(lines[2]));
  const auto three_of = [](const char* beam) {
    return output_of(
        {"translate", "--model", Trained::get().model(), "--best", "3", "--beam", beam},
        {.input = "one two three\n"});
  };
  CHECK(three_of("1") == three_of("3"));
}

TEST_CASE("translate: an n-best list of Moses has the translations and scores of the plain one") {
  const Arguments translate = {"translate", "--model", Trained::get().model(), "--best", "2"};
  const ProcessOptions source{.input = "one two\n\nseven\n"};
  const std::vector<std::string> plain =
      lines_of(output_of(translate + Arguments{"--scores"}, source));
  std::vector<std::string> expected;
  int line = 0;
  for (const std::string& one : plain) {
    const std::size_t tab = one.find('\t');
    if (tab == one.npos) {
      ++line;
      continue;
    }
    const double score = std::stod(one),
                 tokens = 2 + static_cast<double>(std::ranges::count(one, ' '));
    const double words = tab + 1 == one.size() ? 0 : tokens;  // with </s>
    expected.push_back(fmt::format("{} ||| {} ||| {:.2f} {} ||| {}", line, one.substr(tab + 1),
                                   score * words, words, one.substr(0, tab)));
  }
  std::vector<std::string> found;
  for (const std::string& one :
       lines_of(output_of(translate + Arguments{"--format", "moses"}, source))) {
    const std::size_t features = one.find("LogProbability= "), tokens = one.find(" Tokens= ");
    REQUIRE((features != one.npos && tokens != one.npos));
    found.push_back(one.substr(0, features) +
                    fmt::format("{:.2f} ", std::stod(one.substr(features + 16))) +
                    one.substr(tokens + 9));
  }
  CHECK(found == expected);
  CHECK(found.size() == 5);
  CHECK(error_of(translate + Arguments{"--scores", "--format", "moses"}) ==
        "translate: --scores excludes --format");
}

TEST_CASE("translate: a model together with itself writes what it writes alone") {
  const std::string model = Trained::get().model();
  const std::string source = sentences(20, 4).source;
  CHECK(output_of({"translate", "--model", model, "--model", model}, {.input = source}) ==
        output_of({"translate", "--model", model}, {.input = source}));
  const Corpus corpus;
  write(corpus / "train.en", "nine ten\n"), write(corpus / "train.xx", "ZEHN NEUN\n");
  output_of(corpus.train("other", tiny + Arguments{"--epochs", "1"}));
  CHECK(contains(
      error_of({"translate", "--model", model, "--model", corpus / "other/best.safetensors"},
               {.input = source}),
      "its source_vocabulary is not that of the first model"));
}

TEST_CASE("translate: what is drawn depends on the seed and the line, not on the batch") {
  const auto drawn = [](const char* seed, const char* batch) {
    return output_of({"translate", "--model", Trained::get().model(), "--sample", "--temperature",
                      "2", "--top-k", "8", "--seed", seed, "--batch", batch},
                     {.input = sentences(30, 5).source});
  };
  CHECK(drawn("1", "1") == drawn("1", "64"));
  CHECK(drawn("1", "64") != drawn("2", "64"));
}

TEST_CASE("translate: of several times that an option is given the last one counts") {
  CHECK(output_of({"translate", "--model", Trained::get().model(), "--best", "3", "--best", "1"},
                  {.input = "one two\n"}) == "ZWEI EINS\n");
}

TEST_CASE("translate: options that only drawing or only searching has are refused with the other") {
  const Arguments translate = {"translate", "--model", Trained::get().model()};
  for (const char* option : {"--temperature", "--top-k", "--top-p", "--seed"}) {
    CAPTURE(option);
    CHECK(error_of(translate + Arguments{option, "1"}) ==
          fmt::format("translate: {} requires --sample", option));
  }
  for (const char* option : {"--beam", "--best", "--coverage-penalty"}) {
    CAPTURE(option);
    CHECK(error_of(translate + Arguments{"--sample", option, "2"}) ==
          fmt::format("translate: {} excludes --sample", option));
  }
}

TEST_CASE("translate: the most that an option may be is said with all its digits") {
  CHECK(error_of({"translate", "--sample", "--seed", "18446744073709551616"}) ==
        "translate: --seed: '18446744073709551616' is not a whole number from 0 to "
        "18446744073709551615");
  CHECK(error_of({"translate", "--sample", "--top-p", "0"}) ==
        "translate: --top-p: '0' is not a number from 1e-09 to 1");
  CHECK(error_of({"train", "--seed", "1000000000000000001x"}) ==
        "translate: --seed: '1000000000000000001x' is not a whole number from 0 to "
        "1000000000000000000");
}

TEST_CASE(
    "translate: --top-p of next to nothing draws the likeliest words, which greedy search finds") {
  const Arguments translate = {"translate", "--model", Trained::get().model(), "--scores"};
  const std::string source = sentences(30, 5).source;
  CHECK(output_of(translate + Arguments{"--sample", "--top-p", "0.000001"}, {.input = source}) ==
        output_of(translate + Arguments{"--beam", "1"}, {.input = source}));
}

TEST_CASE("translate: an unknown word is replaced by the one that was looked at") {
  const Corpus corpus;
  Text train = sentences(400, 1);
  // Words seen once are <unk> on both sides, at the same place.
  for (int i = 0; i < 60; ++i) {
    train.source += fmt::format("name{} one\n", i), train.target += fmt::format("EINS name{}\n", i);
  }
  write(corpus / "train.en", train.source), write(corpus / "train.xx", train.target);
  output_of(corpus.train("model", tiny + Arguments{"--rate", "0.01", "--epochs", "30",
                                                   "--min-count", "2", "--validate-every", "200"}));
  const Arguments translate = {"translate", "--model", corpus / "model/best.safetensors"};
  CHECK(output_of(translate, {.input = "maria one\n"}) == "EINS <unk>\n");
  CHECK(output_of(translate + Arguments{"--replace-unknown"}, {.input = "maria one\n\n"}) ==
        "EINS maria\n\n");
}

TEST_CASE("translate score: the scores that a search without length normalisation has") {
  const Trained& trained = Trained::get();
  const Directory directory;
  const std::string source = sentences(200, 5).source;
  const auto found = lines_of(
      output_of({"translate", "--model", trained.model(), "--scores", "--length-penalty", "0"},
                {.input = source}));
  std::string target, expected;
  for (const std::string& line : found) {
    expected += line.substr(0, line.find('\t')) + "\n";
    target += line.substr(line.find('\t') + 1) + "\n";
  }
  write(directory / "s", source + "\none\n"), write(directory / "t", target + "EINS\n\n");
  const auto scores =
      lines_of(output_of({"score", "--model", trained.model(), directory / "s", directory / "t"}));
  REQUIRE(scores.size() == 202);
  const auto searched = lines_of(expected);
  for (std::size_t i = 0; i < 200; ++i) {
    CHECK(std::stod(scores[i]) == doctest::Approx(std::stod(searched[i])).epsilon(1e-3));
  }
  CHECK(scores[200].empty());          // there is no source
  CHECK(std::stod(scores[201]) < -1);  // it should have been translated
  CHECK(contains(error_of({"score", "--model", trained.model(), directory / "s"}),
                 ":1: one column, expected source TAB target"));
}

TEST_CASE("translate align: each word is linked to the one that it translates") {
  const Trained& trained = Trained::get();
  write(trained / "a.en", "one two three\n\nfour\n"),
      write(trained / "a.xx", "DREI ZWEI EINS\n\nVIER\n");
  const Arguments align = {"align", "--model", trained.model(), trained / "a.en"};
  CHECK(output_of(align + Arguments{trained / "a.xx", "--format", "pharaoh"}) ==
        output_of(align + Arguments{"--format", "pharaoh"}));  // it writes the same by itself
  CHECK(lines_of(output_of(align + Arguments{"--format", "pharaoh"})).size() == 3);
  CHECK(contains(output_of(align), "DREI"));
  CHECK(output_of(align + Arguments{"--format", "html", "--out", trained / "a.html"}).empty());
  CHECK(contains(read(trained / "a.html"), "<svg"));
  CHECK(contains(output_of(align + Arguments{"--format", "json"}),
                 R"("source":["one","two","three"])"));
  CHECK(contains(error_of(align + Arguments{"--out", trained / "no/a.html"}),
                 "no/a.html: cannot be written: No such file or directory"));
  write(trained / "b.xx", "DREI\n");
  CHECK(contains(error_of(align + Arguments{trained / "b.xx"}), "1 lines, but"));
  const std::string source = trained / "a.en";
  CHECK(error_of(align + Arguments{"--out", source}) ==
        "translate: " + source + ": it is read, too: another file to write was expected");
  write(trained / "a.tsv", "one two\tZWEI EINS\n");
  CHECK(error_of({"align", "--model", trained.model(), trained / "a.tsv"}) ==
        "translate: " + trained / "a.tsv" + ":1: a TAB, expected a source alone");
}

TEST_CASE("translate align: a long sentence is drawn in panels as wide as the terminal") {
  const Trained& trained = Trained::get();
  std::string source;
  for (int i = 0; i < 20; ++i) source += "one two ";
  write(trained / "long.en", source + "\n");
  const Arguments align = {"align", "--model", trained.model(), trained / "long.en"};
  const auto widest = [](const std::string& drawn) {
    std::size_t most = 0;
    for (const std::string& line : lines_of(drawn))
      if (!contains(line, "→")) most = std::max(most, text::code_points(line).size());
    return most;
  };
  const std::string whole = output_of(align);
  CHECK(widest(whole) > 80);  // two columns for each word
  const auto words = [](const std::string& drawn) { return std::ranges::count(drawn, 'w'); };
  for (const std::string& drawn :
       {output_of(align + Arguments{"--width", "40"}),
        output_of(align, {.environment = {{"COLUMNS", "40"}}}),
        Terminal(Arguments{ATTUNE_TRANSLATE} + align, 40).shown_to_the_end()}) {
    CHECK_FALSE(contains(drawn, "…"));
    CHECK(words(drawn) == words(whole));
  }
  CHECK(widest(output_of(align + Arguments{"--width", "40"})) <= 40);
  CHECK(output_of(align, {.environment = {{"COLUMNS", "40"}}}) ==
        output_of(align + Arguments{"--width", "40"}));
  output_of(align + Arguments{"--format", "terminal", "--out", trained / "drawn"},
            {.environment = {{"COLUMNS", "40"}}});
  CHECK(read(trained / "drawn") == whole);
  CHECK(error_of(align + Arguments{"--width", "9"}) ==
        "translate: --width: '9' is not a whole number from 10 to 100000");
}

TEST_CASE("translate align: weights as JSON, TSV and NPY are those that the links are made of") {
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
  CHECK(lines_of(aligned("tsv"))[0] == "\tone\ttwo\tthree");
  CHECK(lines_of(aligned("tsv")).size() == (1 + 3 + 1) + 2 + (1 + 1 + 1));
  CHECK(aligned("npy").size() == 3 * 128 + 4 * (3 * 3 + 0 + 1 * 1));
}

TEST_CASE("translate report: curves, BLEU by length, pictures and translations in one page") {
  const Trained& trained = Trained::get();
  const std::string page = trained / "page.html";
  CHECK(output_of({"report", "--model", trained.model(), "--examples", "3", "--bleu", "none",
                   "--out", page}) == page + "\n");
  const std::string html = read(page);
  CHECK(contains(html, "<h1 dir=\"auto\">model: en to xx</h1>"));
  CHECK(contains(html,
                 "conditional, trained on train.en and train.xx. Measured on valid.en and "
                 "valid.xx, with a beam of 5."));
  output_of({"report", "--model", trained.model(), "--beam", "2", "--out", trained / "two.html"});
  CHECK(contains(read(trained / "two.html"), "with a beam of 2."));
  const Json json =
      Json::parse(output_of({"evaluate", "--json", "--bleu", "none", "--model", trained.model(),
                             trained / "valid.en", trained / "valid.xx"}));
  for (const auto& measure :
       {std::pair{"BLEU", "bleu"}, {"chrF", "chrf"}, {"Perplexity", "perplexity"}}) {
    CAPTURE(measure.first);
    CHECK(contains(html, fmt::format("<dt dir=\"auto\">{}</dt><dd dir=\"auto\">{:.2f}</dd>",
                                     measure.first, json.at(measure.second).get<double>())));
  }
  const std::string inspected = output_of({"inspect", trained.model()});
  const std::size_t end = inspected.rfind(" numbers");
  CHECK(contains(html, fmt::format("<dd dir=\"auto\">{},{}</dd>", inspected.substr(end - 5, 2),
                                   inspected.substr(end - 3, 3))));
  for (const char* part : {"Learning curves", "BLEU by length", "Where the model looks",
                           "reference", "encoder-layers", "</html>"}) {
    CHECK_MESSAGE(contains(html, part), part);
  }
  const auto figures = [&](std::string_view what) {
    std::size_t count = 0;
    for (std::size_t at = 0; (at = html.find(what, at)) != html.npos; ++at) ++count;
    return count;
  };
  CHECK(figures("<svg") == 2 + 3);
}

TEST_CASE("translate report: of a model without attention, no pictures and no heading of them") {
  const Corpus corpus;
  output_of(corpus.train("out", tiny + Arguments{"--attend", "never", "--epochs", "1"}));
  output_of({"report", "--model", corpus / "out"});
  const std::string html = read(corpus / "out/report.html");
  CHECK_FALSE(contains(html, "Where the model looks"));
  CHECK(contains(html, "Translations, the best first"));
}

TEST_CASE("translate curves: runs and other programs' points in one chart") {
  const Trained& trained = Trained::get();
  const Directory directory;
  const std::string log = trained / "model/log.jsonl", peer = directory / "another program.jsonl",
                    out = directory / "curves.svg";
  write(peer, "{\"seconds\": 90, \"bleu\": 31.5}\n{\"seconds\": 240, \"bleu\": 35}\n");
  CHECK(output_of({"curves", trained / "model", peer, "--out", out}) == out + "\n");
  const std::string svg = read(out);
  CHECK(svg.starts_with("<svg"));
  for (const char* part : {">model<", ">another program<", ">minutes<", ">bleu<",
                           ">another program: (1.5, 31.5)<", ">another program: (4, 35)<"}) {
    CHECK_MESSAGE(contains(svg, part), part);
  }
  output_of({"curves", log, "--field", "loss", "--against", "step", "--out", out});
  CHECK(contains(read(out), ">step<"));
  write(directory / "log.jsonl", "{\"seconds\": 1, \"bleu\": null}\n");
  CHECK(error_of({"curves", directory / "log.jsonl"}) ==
        "translate: " + directory / "log.jsonl" + ": no line has numbers \"bleu\" and \"seconds\"");
  output_of({"curves", log, log, "--out", out});
  CHECK(contains(read(out), ">" + log + "<"));
  CHECK(error_of({"curves", peer, "--field", "loss"}) ==
        "translate: " + peer + ": no line has numbers \"loss\" and \"seconds\"");
}

TEST_CASE("translate average: the mean of a checkpoint with itself is the checkpoint") {
  const Trained& trained = Trained::get();
  output_of({"average", trained.model(), trained.model(), "--out", trained / "mean.safetensors"});
  check_same_tensors(trained.model(), trained / "mean.safetensors");
  const Safetensors best = load_safetensors(trained.model()),
                    last = load_safetensors(trained / "model/last.safetensors");
  output_of({"average", trained.model(), trained / "model/last.safetensors", "--out",
             trained / "mean.safetensors"});
  const Safetensors mean = load_safetensors(trained / "mean.safetensors");
  const auto first = [](const Safetensors& file) {
    return double{file.find("output.W")->to_vector<float>()[0]};
  };
  CHECK(first(mean) == doctest::Approx((first(best) + first(last)) / 2).epsilon(1e-6));
  const Corpus corpus;
  output_of(corpus.train("other", tiny + Arguments{"--hidden", "24", "--epochs", "1"}));
  const std::string before = read(trained.model());
  CHECK(error_of({"average", trained.model(), trained / "model/last.safetensors", "--out",
                  trained.model()}) ==
        "translate: " + trained.model() + ": it is read, too: another file to write was expected");
  CHECK(read(trained.model()) == before);
  CHECK(contains(error_of({"average", trained.model(), corpus / "other"}),
                 "its hidden is not that of the first checkpoint"));
}

TEST_CASE("translate average: what a training can go on from, or another file, is not replaced") {
  const Trained& trained = Trained::get();
  const std::string last = trained / "model/last.safetensors", before = read(last);
  CHECK(error_of({"average", trained.model(), trained.model(), "--out", last}) ==
        "translate: " + last +
            ": a training can go on from it: another file to write was expected");
  CHECK(read(last) == before);
  CHECK(contains(
      error_of({"average", trained.model(), trained.model(), "--out", trained / "model/log.jsonl"}),
      "log.jsonl: there is a file that is no model: another file to write was expected"));
}

TEST_CASE("translate export: what was learnt is read again, and numbered as it was") {
  const Corpus corpus;
  const bool pieces = text::has_sentencepiece();
  const Arguments tokens = {"--tokens", pieces ? "bpe" : "characters"},
                  learnt = pieces ? Arguments{"--pieces", "40"} : Arguments{};
  output_of(corpus.train("first", tokens + learnt + Arguments{"--epochs", "1"}));
  const std::string out = corpus / "its", source = out + ".source", target = out + ".target";
  const std::string printed = output_of({"export", "--model", corpus / "first", "--out", out});
  CHECK(contains(printed, source + ".vocabulary\n"));
  Arguments again = tokens + Arguments{"--epochs",
                                       "1",
                                       "--source-vocabulary",
                                       source + ".vocabulary",
                                       "--target-vocabulary",
                                       target + ".vocabulary"};
  if (pieces) {
    again = again +
            Arguments{"--source-pieces", source + ".model", "--target-pieces", target + ".model"};
  }
  output_of(corpus.train("again", again));
  check_same_tensors(corpus / "first/best.safetensors", corpus / "again/best.safetensors");
  CHECK(contains(error_of({"export", "--model", corpus / "first", "--out", corpus / "no/its"}),
                 "cannot be written: No such file or directory"));
}

TEST_CASE("translate inspect: options, vocabularies and parameters") {
  const std::string out = output_of({"inspect", Trained::get().model()});
  CHECK(contains(out, "hidden              32\n"));
  CHECK(contains(out, "source vocabulary   12\n"));
  CHECK(contains(out, "output.b"));
}

TEST_CASE("translate inspect: the checksum, or that an older file has none") {
  const std::string& model = Trained::get().model();
  CHECK(contains(output_of({"inspect", model}),
                 "\nchecksum            " + load_safetensors(model).checksum + ", verified\n"));
  const std::string bytes = read(model);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  Json header = Json::parse(bytes.substr(8, length));
  header.at("__metadata__").erase("attune.checksum");
  header.at("__metadata__").erase("attune.checksum_function");
  const std::string text = header.dump(), older = Trained::get() / "older.safetensors";
  const std::uint64_t new_length = text.size();
  write(older, std::string(reinterpret_cast<const char*>(&new_length), 8) + text +
                   bytes.substr(8 + length));
  CHECK(contains(output_of({"inspect", older}), "\nchecksum            none: an older file\n"));
  check_same_tensors(model, older);

  std::string damaged = bytes;
  damaged[bytes.size() - 1] ^= 1;
  write(older, damaged);
  CHECK(contains(error_of({"inspect", older}), "its contents do not match its checksum"));
}

TEST_CASE("translate train: killed and resumed, the weights are those of an uninterrupted run") {
  const Corpus corpus;
  output_of(corpus.train("whole", with_state));
  const std::string last = corpus / "killed/last.safetensors";
  const auto saved = [&] { return std::filesystem::exists(last); };
  const ProcessResult killed =
      run(corpus.train("killed", with_state), {.signal_when = saved, .signal = SIGKILL});
  REQUIRE(killed.signal == SIGKILL);
  REQUIRE(step_of(last) < 200);
  output_of(
      {"train", "--out", corpus / "killed", "--resume"});  // all options are in the checkpoint
  check_same_tensors(corpus / "whole/last.safetensors", last);
  check_same_tensors(corpus / "whole/best.safetensors", corpus / "killed/best.safetensors");
}

TEST_CASE("translate train: a signal saves without a validation of its own, and can be resumed") {
  const Corpus corpus;
  output_of(corpus.train("whole", with_state));
  const std::string last = corpus / "stopped/last.safetensors";
  const auto saved = [&] { return std::filesystem::exists(last); };
  CHECK(
      run(corpus.train("stopped", with_state), {.signal_when = saved, .signal = SIGTERM}).status ==
      143);
  REQUIRE(step_of(last) < 200);
  output_of({"train", "--out", corpus / "stopped", "--resume"});
  check_same_tensors(corpus / "whole/last.safetensors", last);
  CHECK(learnt_in(corpus / "whole") == learnt_in(corpus / "stopped"));
}

TEST_CASE("translate train: a signal ends a validation, which then was none") {
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

TEST_CASE(
    "translate train: a run interrupted before its first step is resumed without a validation") {
  const Corpus corpus;
  const std::string last = corpus / "out/last.safetensors";
  output_of(corpus.train("out", tiny + Arguments{"--epochs", "1"}));
  Safetensors file = load_safetensors(last);
  for (const char* name : {"step", "epoch", "position", "best_step", "validated"}) {
    file.metadata[name] = "0";
  }
  save_safetensors(last, file);
  CHECK(contains(output_of({"train", "--out", corpus / "out", "--resume"}), "resuming at step 0,"));
  CHECK(log_of(corpus / "out").front().at("step") > 0);
}

TEST_CASE("translate train: a log that cannot be written ends it after the step's checkpoint") {
  const Corpus corpus;
  const std::string whole = corpus / "whole", full = corpus / "full", log = full + "/log.jsonl";
  output_of(corpus.train("full", with_state + Arguments{"--epochs", "1"}));
  // As long as a file may be, and longer than a checkpoint.
  write(log, read(log) + fmt::format("{{\"step\": 0, \"note\": \"{}\"}}\n",
                                     std::string(std::size_t{1} << 22, '-')));
  std::filesystem::copy(full, whole);
  const Arguments resume = {"train", "--resume", "--epochs", "2", "--out"};
  output_of(resume + Arguments{whole});
  const ProcessResult result = run_process(
      Arguments{"prlimit", fmt::format("--fsize={}", read(log).size()), ATTUNE_TRANSLATE} + resume +
      Arguments{full});
  CHECK(error_line("translate", result) ==
        "translate: " + log + ": cannot write the log: File too large");
  CHECK(step_of(full + "/last.safetensors") == 40);
  output_of(resume + Arguments{full});
  check_same_tensors(whole + "/last.safetensors", full + "/last.safetensors");
  check_same_tensors(whole + "/best.safetensors", full + "/best.safetensors");
  CHECK(learnt_in(full) == learnt_in(whole));
}

TEST_CASE("translate train: one thread and two give bit-identical weights") {
  const Corpus corpus;
  const Arguments wide = tiny + Arguments{"--hidden", "64", "--batch", "64", "--epochs", "3"};
  output_of(corpus.train("one", wide + Arguments{"--threads", "1"}));
  output_of(corpus.train("two", wide + Arguments{"--threads", "2"}));
  check_same_tensors(corpus / "one/last.safetensors", corpus / "two/last.safetensors");
}

TEST_CASE("translate train: subwords of both sides, kept in the checkpoint") {
  if (!text::has_sentencepiece()) return;
  const Corpus corpus;
  for (const char* tokens : {"bpe", "unigram"}) {
    const std::string out = output_of(corpus.train(
        tokens, tiny + Arguments{"--tokens", tokens, "--pieces", "60", "--joint", "yes", "--epochs",
                                 "2", "--tied", "all", "--model", "conditional"}));
    CHECK(contains(out, "learning 60 subwords of both sides from 800 lines: "));
    const std::string model = corpus / (std::string(tokens) + "/best.safetensors");
    CHECK(lines_of(output_of({"translate", "--model", model}, {.input = "one two\n"})).size() == 1);
  }
}

TEST_CASE(
    "translate train --truecase: the case of what is read does not matter, lines begin as they "
    "did") {
  const Corpus corpus;
  for (const std::string name : {"train", "valid"}) {
    std::string source, target;
    for (std::string line : lines_of(read(corpus / (name + ".en"))))
      line[0] = static_cast<char>(line[0] - 'a' + 'A'), source += line + "\n";
    for (std::string line : lines_of(read(corpus / (name + ".xx"))))
      target += line[0] + text::lower_case(line.substr(1)) + "\n";
    write(corpus / (name + ".en"), source), write(corpus / (name + ".xx"), target);
  }
  output_of(corpus.train("model", tiny + Arguments{"--truecase", "yes", "--rate", "0.01",
                                                   "--epochs", "20", "--validate-every", "100"}));
  const std::string model = corpus / "model";
  CHECK(output_of({"translate", "--model", model},
                  {.input = "One two\none two\nONE TWO\nOne Two\n"}) ==
        "Zwei eins\nZwei eins\nZwei eins\nZwei eins\n");
  CHECK(Json::parse(output_of({"evaluate", "--json", "--bleu", "none", "--model", model,
                               corpus / "valid.en", corpus / "valid.xx"}))
            .at("bleu") >= 90);
  write(corpus / "capitals", "ONE TWO\n");
  const Json pair =
      Json::parse(output_of({"align", "--model", model, "--format", "json", corpus / "capitals"}));
  CHECK(pair.at("source") == Json({"ONE", "TWO"}));
  CHECK(pair.at("target") == Json({"Zwei", "eins"}));
  CHECK(contains(output_of({"inspect", model}), "truecase            yes\n"));
}

TEST_CASE("translate train: a text in one TSV is the text in two files") {
  const Corpus corpus;
  const auto join = [&](const std::string& name) {
    const auto source = lines_of(read(corpus / (name + ".en"))),
               target = lines_of(read(corpus / (name + ".xx")));
    std::string tsv;
    for (std::size_t i = 0; i < source.size(); ++i) tsv += source[i] + "\t" + target[i] + "\n";
    write(corpus / (name + ".tsv"), tsv);
    return corpus / (name + ".tsv");
  };
  const std::string train = join("train"), valid = join("valid");
  const Arguments one_epoch = tiny + Arguments{"--epochs", "1"};
  output_of(corpus.train("two", one_epoch));
  output_of(
      Arguments{"train", "--out", corpus / "one", "--source", train, "--valid-source", valid} +
      one_epoch);
  check_same_tensors(corpus / "one/last.safetensors", corpus / "two/last.safetensors");
  const std::string model = corpus / "one/best.safetensors";
  const auto bleu = [&](const Arguments& files) {
    return Json::parse(output_of(Arguments{"evaluate", "--json", "--model", model} + files))
        .at("bleu");
  };
  CHECK(bleu({valid}) == bleu({corpus / "valid.en", corpus / "valid.xx"}));
  output_of({"report", "--model", model, "--examples", "1"});
  CHECK(error_of(Arguments{"train", "--out", corpus / "o", "--source", corpus / "train.en",
                           "--valid-source", valid}) ==
        "translate: " + corpus / "train.en:1: one column, expected source TAB target");
}

TEST_CASE("translate --swap: the other column of a TSV is the target") {
  const Corpus corpus;
  for (const std::string name : {"train", "valid"}) {
    const auto source = lines_of(read(corpus / (name + ".en"))),
               target = lines_of(read(corpus / (name + ".xx")));
    std::string tsv;
    for (std::size_t i = 0; i < source.size(); ++i) tsv += target[i] + "\t" + source[i] + "\n";
    write(corpus / (name + ".tsv"), tsv);
  }
  const std::string valid = corpus / "valid.tsv";
  const Arguments one_epoch = tiny + Arguments{"--epochs", "1"};
  const Arguments from_tsv = Arguments{"--source", corpus / "train.tsv", "--valid-source", valid};
  output_of(corpus.train("two", one_epoch));
  output_of(Arguments{"train", "--swap", "--out", corpus / "one"} + from_tsv + one_epoch);
  check_same_tensors(corpus / "one/last.safetensors", corpus / "two/last.safetensors");
  write(corpus / "swap.conf", "swap = yes\n");
  output_of(Arguments{"train", "--config", corpus / "swap.conf", "--out", corpus / "file"} +
            from_tsv + one_epoch);
  check_same_tensors(corpus / "file/last.safetensors", corpus / "two/last.safetensors");

  const auto scores = [&](const std::string& model, const Arguments& more) {
    return output_of(Arguments{"score", "--model", corpus / model} + more);
  };
  const std::string expected = scores("two", {corpus / "valid.en", corpus / "valid.xx"});
  CHECK(scores("one", {corpus / "valid.en", corpus / "valid.xx"}) == expected);
  CHECK(scores("one", {valid}) == expected);  // as it was trained
  CHECK(scores("two", {"--swap", valid}) == expected);
  CHECK(scores("two", {valid}) != expected);
  CHECK(output_of({"evaluate", "--json", "--model", corpus / "two", "--swap", valid})
            .starts_with(R"({"bleu":)"));
  output_of({"report", "--model", corpus / "one", "--examples", "1"});
  for (const Arguments& from : {Arguments{"score", valid, corpus / "valid.xx", "--model"},
                                {"compare", valid, corpus / "valid.xx"}}) {
    CHECK(error_of(from + Arguments{corpus / "two", "--swap"}) ==
          "translate: target excludes --swap");
  }
  CHECK(error_of(corpus.train("o", {"--swap"})) == "translate: --target excludes --swap");
}

TEST_CASE("translate train: vocabularies from files, and words beside them unknown") {
  const Corpus corpus;
  write(corpus / "words.en", "one\ntwo\nEINS\n");
  write(corpus / "words.xx", "EINS\nZWEI\n");
  const Arguments one_epoch = tiny + Arguments{"--epochs", "1"};
  CHECK(contains(output_of(corpus.train(
                     "o", one_epoch + Arguments{"--source-vocabulary", corpus / "words.en",
                                                "--target-vocabulary", corpus / "words.xx"})),
                 "vocabularies of 7 and 6,"));
  CHECK(contains(output_of(corpus.train(
                     "u", one_epoch + Arguments{"--source-vocabulary", corpus / "words.en"})),
                 " % of the source's tokens are unknown\n"));
  CHECK(contains(
      output_of(corpus.train("j", one_epoch + Arguments{"--source-vocabulary", corpus / "words.en",
                                                        "--joint", "yes"})),
      "vocabularies of 7 and 7,"));
  CHECK(error_of(corpus.train("e", one_epoch + Arguments{"--target-vocabulary", corpus / "words.xx",
                                                         "--joint", "yes"})) ==
        "translate: --joint yes: both sides have what is given for the source, expected nothing "
        "for the target alone");
  write(corpus / "words.xx", "EINS\nEINS\n");
  CHECK(error_of(
            corpus.train("e", one_epoch + Arguments{"--target-vocabulary", corpus / "words.xx"})) ==
        "translate: " + corpus /
                            "words.xx:2: 'EINS' stands in line 1 already, expected each token "
                            "once");
  CHECK_FALSE(std::filesystem::exists(corpus / "e"));
}

TEST_CASE("translate train: models of sentencepiece that are given") {
  if (!text::has_sentencepiece()) return;
  const Corpus corpus;
  const auto save = [&](const std::string& side, Index pieces) {
    const auto model =
        text::SentencePiece::train(lines_of(read(corpus / ("train." + side))), {.pieces = pieces});
    write(corpus / (side + ".model"), model.bytes());
    return corpus / (side + ".model");
  };
  const Arguments one_epoch = {"--epochs", "1", "--embedding", "8", "--hidden", "8"};
  const Arguments given = {"--source-pieces", save("en", 40), "--target-pieces", save("xx", 50)};
  output_of(corpus.train("given", one_epoch + given));
  output_of(corpus.train("whole", one_epoch + given + Arguments{"--epochs", "2"}));
  write(corpus / "en.model", "not a model any more: the checkpoint has it");
  output_of({"train", "--resume", "--out", corpus / "given", "--epochs", "2"});
  check_same_tensors(corpus / "given/last.safetensors", corpus / "whole/last.safetensors");
  CHECK(lines_of(output_of({"translate", "--model", corpus / "given/best.safetensors"},
                           {.input = "one two\n"}))
            .size() == 1);
  CHECK(error_of(corpus.train("e", one_epoch + given)) ==
        "translate: " + corpus / "en.model: a model of sentencepiece was expected");
  CHECK_FALSE(std::filesystem::exists(corpus / "e"));
}

TEST_CASE(
    "translate train: fewer subwords than characters are refused, with how many there may be") {
  if (!text::has_sentencepiece()) return;
  const Corpus corpus;
  const std::string start =
      "translate: --pieces 10: each character of the source is one of them, "
      "so that at least ";
  const std::string error = error_of(corpus.train("o", {"--pieces", "10"}));
  REQUIRE(error.starts_with(start));
  CHECK(error.ends_with(" were expected"));
  const std::string enough = std::to_string(std::stol(error.substr(start.size())));
  CHECK_FALSE(contains(error_of(corpus.train("o", {"--pieces", enough})), "the source"));
}

TEST_CASE("translate train: subwords are learnt from so many lines, drawn by the seed") {
  if (!text::has_sentencepiece()) return;
  const Corpus corpus;
  const Arguments few = {"--epochs", "1",  "--embedding",  "8", "--hidden", "8",
                         "--pieces", "60", "--learn-from", "3"};
  output_of(corpus.train("a", few)), output_of(corpus.train("b", few));
  output_of(corpus.train("c", few + Arguments{"--seed", "2"}));
  const auto tokenizer = [&](const std::string& out) {
    return load_safetensors(corpus / (out + "/last.safetensors")).metadata.at("source_tokenizer");
  };
  CHECK(tokenizer("a") == tokenizer("b"));
  CHECK(tokenizer("a") != tokenizer("c"));
}

TEST_CASE("translate train: options from a file, and flags before them") {
  const Corpus corpus;
  write(corpus / "recipe.ini", "epochs = 1\nhidden = 24\nrate = 0.002\n");
  output_of(
      corpus.train("out", Arguments{"--config", corpus / "none", "--config", corpus / "recipe.ini",
                                    "--rate", "0.004", "--tokens", "words"}));
  const auto metadata = load_safetensors(corpus / "out/last.safetensors").metadata;
  CHECK(metadata.at("hidden") == "24");
  CHECK(metadata.at("rate") == "0.004");
  CHECK(metadata.at("epochs") == "1");
}

TEST_CASE("translate train: each validation shows two sentences, always the same") {
  const Corpus corpus;
  const std::string out =
      output_of(corpus.train("out", tiny + Arguments{"--epochs", "2", "--validate-every", "25"}));
  const auto source = lines_of(read(corpus / "valid.en")),
             target = lines_of(read(corpus / "valid.xx"));
  for (const std::size_t i : {7u, 22u}) {  // of 30
    const std::string sample = fmt::format(
        "\n  source       {}\n  reference    {}\n  translation  ", source[i], target[i]);
    const std::size_t first = out.find(sample);
    REQUIRE(first != out.npos);
    CHECK(out.find(sample, first + 1) != out.npos);  // of the second validation
  }
}

TEST_CASE("translate train: progress is that of the limit that ends the run") {
  const Corpus corpus;
  const std::vector<std::string> lines = lines_of(output_of(
      corpus.train("out", tiny + Arguments{"--minutes", "0.005", "--epochs", "1000000"})));
  const auto progress = [](const std::string& line) { return contains(line, " %  step "); };
  const auto last = std::ranges::find_if(lines.rbegin(), lines.rend(), progress);
  REQUIRE(last != lines.rend());
  CHECK(last->starts_with("100 %  step "));
  CHECK(contains(*last, "/25000000  epoch "));
  CHECK(last->ends_with("  0 s left"));
}

TEST_CASE("translate train: in a narrow terminal progress has whole fields, and the time left") {
  const Corpus corpus;
  const auto shown_in = [&](int columns) {
    return Terminal(
               Arguments{ATTUNE_TRANSLATE} + corpus.train("out", tiny + Arguments{"--epochs", "1"}),
               columns)
        .shown_to_the_end();
  };
  const std::string start = "\x1b[K";
  CHECK(contains(shown_in(22), start + "  4 %  0 s left"));
  const std::string shown = shown_in(64);
  int rewritten = 0;
  for (std::size_t at = shown.find(start); at != shown.npos;) {
    const std::size_t begin = at + start.size();
    at = shown.find(start, begin);
    const std::string line = shown.substr(begin, at - begin);
    if (contains(line, "\n")) continue;  // a line that stays
    ++rewritten;
    CAPTURE(line);
    CHECK(contains(line, " %  step "));
    CHECK(contains(line, " words/s  0 s left"));
  }
  CHECK(rewritten > 0);
}

TEST_CASE("translate: a terminal that knows no escape sequences gets none") {
  const Corpus corpus;
  write(corpus / "one.en", "one two\n");
  for (const Arguments& arguments :
       {corpus.train("out", tiny + Arguments{"--epochs", "1"}),
        Arguments{"align", "--model", Trained::get().model(), corpus / "one.en"}}) {
    Terminal terminal(Arguments{"/usr/bin/env", "TERM=dumb", ATTUNE_TRANSLATE} + arguments, 80);
    CHECK(is_plain(terminal.shown_to_the_end()));
  }
}

TEST_CASE("translate train: bf16 products train as well, or a line says that there are none") {
  const Corpus corpus;
  const ProcessResult result =
      run(corpus.train("out", tiny + Arguments{"--rate", "0.01", "--epochs", "15", "--precision",
                                               "bf16", "--validate-every", "100"}));
  REQUIRE(result.status == 0);
  CHECK(result.err.empty() == bf16_available());
  CHECK(std::stod(load_safetensors(corpus / "out/best.safetensors").metadata.at("valid_bleu")) >
        60);
}

TEST_CASE("translate: the help of every command ends with an example") {
  check_examples(ATTUNE_TRANSLATE, {"train", "translate", "evaluate", "compare", "score", "align",
                                    "report", "curves", "average", "inspect"});
}

TEST_CASE("translate: what is wrong with options is said in one line") {
  const Corpus corpus;
  CHECK(error_of({"train"}) == "translate: --source: a file is expected");
  CHECK(contains(error_of(corpus.train("o", {"--source", corpus / "none"})), corpus / "none"));
  CHECK(contains(error_of(corpus.train("o", {"--rate", "-1"})), "--rate"));
  CHECK_FALSE(std::filesystem::exists(corpus / "o"));
  output_of(corpus.train("out", tiny + Arguments{"--epochs", "1"}));
  CHECK(contains(error_of({"train", "--out", corpus / "out", "--resume", "--hidden", "64"}),
                 "was trained with hidden = '32', not '64'"));
}

TEST_CASE("translate: emoji and unknown words are translated somehow") {
  const std::string out = output_of({"translate", "--model", Trained::get().model()},
                                    {.input = "😀 👩‍👩‍👧\none nine\n"});
  CHECK(lines_of(out).size() == 2);
}

TEST_CASE("translate: checkpoints of an earlier version give the words that they gave") {
  const ProcessOptions source{.input = "s4 s11 s1\ns1\ns9 s6 s3 s7 s3 s7\ns10 s11 s6 s8 s7\n"};
  const auto translated = [&](const std::string& model) {
    const std::string path = ATTUNE_GOLDEN "/checkpoints/" + model + ".safetensors";
    return output_of({"translate", "--model", path}, source);
  };
  CHECK(translated("conditional") == "t1 t11 t4\nt1\nt7 t3 t7 t3 t6 t9\nt7 t8 t6 t11 t10\n");
  // It was trained too little to be right always.
  CHECK(translated("luong") == "t1 t11 t4\nt1\nt7 t3 t2 t3 t6 t9\nt7 t8 t11 t11 t10\n");
}

}  // namespace attune::translate::test
