// Training the translate program's models with word alignments.
#include <set>

#include <attune/models/text/sentencepiece.hpp>

#include "translate_program.hpp"

namespace attune::translate::test {
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
    tiny + Arguments{"--model", "luong", "--rate", "0.01", "--epochs", "2"};

}  // namespace

TEST_CASE("translate train: with alignments attention finds the links sooner") {
  const AlignedCorpus corpus;
  output_of(corpus.train("alone", two_epochs));
  output_of(corpus.train_guided("guided", two_epochs));
  const double guided = found_links(corpus, "guided");
  CHECK(guided > 0.8);
  CHECK(guided > found_links(corpus, "alone") + 0.2);
}

TEST_CASE("translate train: alignments have a weight, and one of 0 is none") {
  const AlignedCorpus corpus;
  const Arguments one_epoch = tiny + Arguments{"--epochs", "1"};
  output_of(corpus.train("alone", one_epoch));
  output_of(corpus.train_guided("nothing", one_epoch + Arguments{"--guided-alignment", "0"}));
  check_same_tensors(corpus / "alone/last.safetensors", corpus / "nothing/last.safetensors");
}

TEST_CASE("translate train: links stay with their pairs when others are left out") {
  const AlignedCorpus corpus;
  const Arguments one_epoch = tiny + Arguments{"--epochs", "1"};
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

TEST_CASE("translate train: links between words guide subwords and characters, and are resumed") {
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
                 "it was trained on another text, or other alignments"));
}

TEST_CASE("translate train: what is wrong with alignments is said with file and line") {
  const AlignedCorpus corpus;
  const std::string all = read(corpus.alignments()), file = corpus / "bad.links";
  const auto error_with = [&](const std::string& text) {
    write(file, text);
    return error_of(corpus.train("o", tiny + Arguments{"--alignments", file}));
  };
  const auto from_second = all.find('\n');
  const std::string where = "translate: " + file;
  CHECK(error_with(all + "0-0\n") == where + ":401: a line too many, there are 400 sentences");
  CHECK(error_with(all.substr(from_second + 1)).starts_with(where + ":"));
  CHECK(error_with("") == where + ":1: the file ends, but there are 400 sentences");
  CHECK(error_with("0-7" + all.substr(from_second))
            .starts_with(where + ":1: link \"0-7\": target position 7 is beyond the "));
  CHECK(error_with("0-0 9-0" + all.substr(from_second))
            .starts_with(where + ":1: link \"9-0\": source position 9 is beyond the "));
  for (const char* word : {"0:0", "0-", "-1-0", "0-0-0", "0-99999999999"}) {
    CHECK(error_with(word + all.substr(from_second)) ==
          fmt::format("{}:1: \"{}\" is not a link SOURCE-TARGET", where, word));
  }
  CHECK(contains(error_of(corpus.train("o", tiny + Arguments{"--alignments", corpus / "none"})),
                 "none: cannot be read"));
  CHECK(error_of(corpus.train_guided("o", tiny + Arguments{"--model", "sutskever"})) ==
        "translate: --alignments: the model has no attention");
  CHECK_FALSE(std::filesystem::exists(corpus / "o"));
}

}  // namespace attune::translate::test
