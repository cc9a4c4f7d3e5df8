#include "list.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <attune/models/text/corpus.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/printable.hpp>

#include "audio.hpp"
#include "digits.hpp"
#include "support/checkpoint.hpp"
#include "support/output.hpp"

namespace attune::speech {

std::vector<Listed> read_list(const std::filesystem::path& tsv) {
  text::LineReader lines(tsv);
  std::vector<Listed> all;
  while (const auto line = lines.next()) {
    const std::size_t tab = line->find('\t');
    if (tab == line->npos || line->find('\t', tab + 1) != line->npos || tab == 0 ||
        tab + 1 == line->size()) {
      lines.fail("a file and its words were expected, with a TAB between them");
    }
    all.push_back({tsv.parent_path() / line->substr(0, tab), line->substr(tab + 1),
                   fmt::format("{}:{}", lines.name(), lines.number())});
  }
  if (all.empty()) lines.fail("there is no line");
  return all;
}

text::Sentence tokens_of(const text::Codec& codec, const std::string& transcript) {
  static const text::Codec digits = Digits::codec();
  const auto is_known = [&](const std::string& token) {
    return codec.vocabulary.id(token) != text::Vocabulary::unknown;
  };
  std::vector<std::string> tokens;
  for (std::string& token : codec.tokenizer.encode(transcript)) {
    std::vector<std::string> names;
    for (const char c : token) {
      if (c >= '0' && c <= '9')
        names.push_back(digits.vocabulary.tokens()[static_cast<std::size_t>(c - '0')]);
    }
    if (!is_known(token) && names.size() == token.size() && std::ranges::all_of(names, is_known)) {
      std::ranges::move(names, std::back_inserter(tokens));
    } else {
      tokens.push_back(std::move(token));
    }
  }
  return codec.encode(tokens);
}

text::Sentence tokens_of(const text::Codec& codec, const Listed& listed) {
  text::Sentence tokens = tokens_of(codec, listed.transcript);
  if (tokens.empty()) fail(listed.where, "there are no words in the transcript");
  return tokens;
}

std::vector<float> samples_of(const Listed& listed, Index rate) {
  return reading(listed.where, [&] { return at_rate(read_audio(listed.file), rate); });
}

std::vector<Utterance> read_utterances(const std::filesystem::path& tsv, const text::Codec& codec,
                                       Index rate) {
  std::vector<Utterance> all;
  std::size_t converted = 0, unknown = 0;
  for (const Listed& listed : read_list(tsv)) {
    const Recording recording = reading(listed.where, [&] { return read_audio(listed.file); });
    converted += recording.rate != rate;
    Utterance utterance{.samples = reading(listed.where, [&] { return at_rate(recording, rate); }),
                        .tokens = tokens_of(codec, listed),
                        .ends = {}};
    unknown +=
        static_cast<std::size_t>(std::ranges::count(utterance.tokens, text::Vocabulary::unknown));
    all.push_back(std::move(utterance));
  }
  if (converted > 0) {
    complain("{}: {} of {} recordings were converted to {} samples per second\n",
             printable(tsv.string()), converted, all.size(), rate);
  }
  if (unknown > 0) {
    complain("{}: {} tokens are not in the model's vocabulary: each counts as an error\n",
             printable(tsv.string()), unknown);
  }
  return all;
}

}  // namespace attune::speech
