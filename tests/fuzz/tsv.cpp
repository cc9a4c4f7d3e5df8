// TSV files of pairs: survey, normalisation, tokens and held-out pairs.

#include "attune/data.hpp"
#include "attune/output.hpp"
#include "fuzz.hpp"

namespace {

using namespace attune;
using fuzz::expect;

void check_survey(const pairs::PairFiles& files, const pairs::TestPairs& read) {
  const auto survey = fuzz::accepted([&] { return pairs::survey_of(files, 3); });
  if (!survey) return;
  std::int64_t held = 0, whole = 0;
  for (const std::string& line : read.lines) {
    whole += !line.empty();
    held += !line.empty() && survey->holds_out(line);
  }
  expect(survey->pairs == whole, "survey: wrong number of pairs");
  const bool few = held <= 3 && 10 * held <= whole, one_source = 2 * held <= whole;
  expect(held >= 1 && (few || (survey->held_out.size() == 1 && one_source)),
         "survey: too many pairs are held out, or none");
  expect(survey->sample.size() == static_cast<std::size_t>(whole), "survey: sample is incomplete");
}

}  // namespace

void fuzz_one(std::string_view input) {
  set_silent(true);
  const fuzz::MemoryFile file(input);
  const pairs::PairFiles files{file.path(), {}};
  pairs::TrainOptions options = pairs::train_options(false);
  options.train = file.path(), options.tokens = pairs::Tokens::characters;
  const auto codecs =
      fuzz::accepted([&] { return pairs::make_codecs(options, pairs::survey_of(files, 0)); });
  if (!codecs) return;
  options.valid = file.path(), options.longest = 1 << 20;
  const auto read = fuzz::accepted([&] { return pairs::validation_pairs(options, {}, *codecs); });
  if (!read) return;
  std::string text = "\xEF\xBB\xBF";
  for (std::size_t i = 0; i < read->size(); ++i) {
    const std::string &source = read->lines[i], &target = read->references[i].front();
    const auto same = [](const std::string& s) { return pairs::normalized(s, false) == s; };
    expect(same(source) && same(target), "blanks are not normalised");
    expect(!target.empty(), "a target is empty");
    expect(codecs->source.decode(read->sources[i]) == source, "decode(encode(source)) differs");
    text += " " + source + "\t" + target + " \tmore\t\r\n\n";
  }
  const fuzz::MemoryFile again(text);
  options.valid = again.path();
  const auto second = pairs::validation_pairs(options, {}, *codecs);
  expect(second.lines == read->lines && second.references == read->references,
         "pairs differ after writing and reading");
  check_survey(files, *read);
}
