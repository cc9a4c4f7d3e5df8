#include "attune/letters.hpp"

#include <doctest/doctest.h>

#include <attune/tensor/errors.hpp>

namespace {

using namespace attune;
using namespace attune::text;
using Tokens = std::vector<std::string>;

Truecaser learnt(const std::vector<std::string>& lines) {
  CaseCounts counts;
  for (const std::string& line : lines) counts.add(line);
  return counts.truecaser();
}

const std::vector<std::string> german = {
    "Der Mann sieht den Hund.", "Das ist der Mann, den der Hund sieht!", "Er sagt: der Hund. Hund?",
    "ALLES IN GROSSBUCHSTABEN IST ANDERS", "Die Stadt im Norden der USA (im Winter) ist kalt."};

TEST_CASE("escaped: escapes invisible characters, and a leading combining mark") {
  CHECK(escaped("a b\u200B\u00A0\uFEFF\t") == "a b\\u200b\\u00a0\\ufeff\\u0009");
  CHECK(escaped("\u0301e\u0301 हिन्दी 日本") == "\\u0301e\u0301 हिन्दी 日本");
}

TEST_CASE("Truecaser: the first word of a sentence gets its case within sentences") {
  const Truecaser truecaser = learnt(german);
  CHECK(truecaser.encode("Der Hund.") == "der Hund.");
  CHECK(truecaser.encode("hund der Stadt") == "Hund der Stadt");
  CHECK(truecaser.encode("Anna sieht  den\tHund. Im Winter?") ==
        "Anna sieht  den\tHund. im Winter?");
  CHECK(truecaser.encode("»Der Hund?« Der Mann! - Der Hund . Im Norden") ==
        "»der Hund?« der Mann! - der Hund . im Norden");
  CHECK(truecaser.encode("").empty());
  CHECK(truecaser.encode(" . ?") == " . ?");
}

TEST_CASE("Truecaser: a line in capitals, and words in an unseen case") {
  const Truecaser truecaser = learnt(german);
  CHECK(truecaser.encode("DER HUND, IM WINTER DER USA: ÄRGER?") ==
        "der Hund, im Winter der USA: ärger?");
  CHECK(truecaser.encode("DER ΟΔΟΣ-WEG") == "der οδος-weg");
  CHECK(truecaser.encode("Anna und DER hund") == "Anna und der Hund");
  CHECK(truecaser.encode("Anna und Berta") == "Anna und Berta");
}

TEST_CASE("Truecaser: most frequent case; lower case if equal; keeps other known cases") {
  const Truecaser truecaser =
      learnt({"x Reich reich reich May may", "x MAY", "und reich ist May may MAY"});
  CHECK(truecaser.encode("Reich Reich may") == "reich Reich may");
  CHECK(truecaser.encode("May May MAY maY") == "may May MAY may");
  const std::vector<std::string> words(truecaser.words().begin(), truecaser.words().end());
  CHECK(words == std::vector<std::string>{"ist", "may", "May", "MAY", "reich", "Reich"});
}

TEST_CASE("Truecaser: sentences begin with a capital if most lines did") {
  CHECK(learnt(german).decode("der Hund . er sagt: »ja!« (ǆ 3. mai") ==
        "Der Hund . Er sagt: »ja!« (ǅ 3. Mai");
  CHECK(learnt({"der Hund.", "ein Hund", "Der Mann", "DER MANN", "DER MANN", "DER MANN"})
            .decode("der Hund") == "der Hund");
}

TEST_CASE("Truecaser: keeps lower-case text; learns no words from text without case") {
  const Truecaser lower = learnt({"the dog sees the man .", "a dog !"});
  CHECK(lower.encode("The Dog sees THE MAN .") == "the dog sees the man .");
  CHECK(lower.encode("A DOG SINGS") == "a dog sings");
  CHECK(lower.decode("the dog .") == "the dog .");
  CHECK(learnt({"私 は 3 猫", "猫 は 私"}).words().empty());
}

TEST_CASE("folded_case: texts that differ only in case are equal") {
  CHECK(folded_case("ÄÖß Привет ΟΔΟΣ 日本") == "äöss привет οδοσ 日本");
  CHECK(folded_case("οδος") == folded_case("ΟΔΟΣ"));
}

TEST_CASE("Tokenizer: decodes decomposed characters to composed ones") {
  const Tokenizer tokenizer = decomposed_characters();
  CHECK(tokenizer.encode("é 한") == Tokens{"e", "\u0301", " ", "\u1112", "\u1161", "\u11AB"});
  CHECK(tokenizer.encode("e\u0301") == tokenizer.encode("é"));
  CHECK(tokenizer.decode(tokenizer.encode("é 한 ab")) == "é 한 ab");
  CHECK(tokenizer_from_json(to_json(tokenizer), read_rewriter).encode("é") ==
        Tokens{"e", "\u0301"});
  CHECK_THROWS_AS(tokenizer.encode("a\xFF"), Error);
}

TEST_CASE("Tokenizer: applies a truecaser in encode and decode, and stores it in JSON") {
  const Tokenizer tokenizer =
      Tokenizer().with(std::make_shared<Truecaser>(Tokens{"der", "Hund"}, true));
  for (const Tokenizer& one : {tokenizer, tokenizer_from_json(to_json(tokenizer), read_rewriter)}) {
    CHECK(one.encode("DER HUND") == Tokens{"der", "Hund"});
    CHECK(one.decode(Tokens{"der", "Hund"}) == "Der Hund");
  }
  CHECK_THROWS_WITH_AS(
      tokenizer_from_json(R"({"kind":"words","rewriter":"{\"words\":[\"a\"]}"})", read_rewriter),
      "tokenizer: words, characters or sentencepiece was expected, as to_json writes it",
      attune::Error);
}

}  // namespace
