// A small program around a model: writes the dates of its arguments as ISO dates, with a checkpoint
// of examples/dates. Characters are taken as bytes, so that it needs nothing of ICU.
//
//     small best.safetensors "3 May 1979" "Tuesday, 1 June 1993"
#include <exception>
#include <iostream>
#include <span>
#include <string>
#include <vector>

#include <attune/models/search.hpp>
#include <attune/models/seq2seq.hpp>
#include <attune/nn/checkpoint.hpp>

namespace {

using namespace attune;

void write_dates(const char* path, std::span<char* const> dates) {
  const Safetensors file = load_safetensors(path);
  const auto vocabulary = [&](const char* name) {
    return text::vocabulary_from_json(nn::load_text(file.metadata, name));
  };
  const text::Vocabulary source = vocabulary("source_vocabulary");
  const text::Vocabulary target = vocabulary("target_vocabulary");
  models::Seq2SeqOptions options = models::seq2seq_options_from(file.metadata);
  options.source_vocabulary = source.size();
  options.target_vocabulary = target.size();
  nn::Parameters params(file);
  const models::Seq2Seq model(params, options);
  for (const std::string date : dates) {
    std::vector<std::string> characters;
    for (const char c : date) characters.emplace_back(1, c);
    const text::Sentence sentence = source.encode(characters);
    const auto batch = text::make_source_batch(std::span(&sentence, 1));
    const models::Hypothesis best = models::search(model, batch, {.max_length = 40})[0][0];
    for (const auto word : best.words) std::cout << target.token(word);
    std::cout << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw Error("small: the path of a checkpoint was expected");
    write_dates(argv[1], std::span(argv + 2, argv + argc));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
