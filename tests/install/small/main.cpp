// A program with an embedded model, which reads no files: converts its arguments to ISO dates.
//
//     dates "3 May 1979" "Tuesday, 1 June 1993"
#include <cstddef>
#include <exception>
#include <iostream>
#include <span>
#include <string_view>

#include <attune/models/papers.hpp>
#include <attune/models/search.hpp>
#include <attune/models/text/tokenizer.hpp>
#include <attune/nn/parameters.hpp>

// MODEL is the path of a checkpoint of examples/dates. The assembler inserts its bytes here.
asm(".pushsection .rodata\n"
    ".globl model_begin, model_end\n"
    "model_begin:\n"
    ".incbin \"" MODEL
    "\"\n"
    "model_end:\n"
    ".popsection\n");
extern "C" const std::byte model_begin[], model_end[];

namespace {

using namespace attune;

/// The options of the checkpoint; its vocabularies determine the vocabulary sizes.
models::BahdanauOptions options_of(const Safetensors& file, const text::Vocabulary& source,
                                   const text::Vocabulary& target) {
  models::BahdanauOptions options;
  models::set_from(options, file.metadata);
  options.source_vocabulary = source.size();
  options.target_vocabulary = target.size();
  return options;
}

void write_dates(std::span<char* const> dates) {
  const Safetensors file = load_safetensors(std::span(model_begin, model_end));
  const auto vocabulary = [&](const char* name) {
    return text::vocabulary_from_json(nn::load_text(file.metadata, name));
  };
  const text::Codec source{text::Characters{}, vocabulary("source_vocabulary")};
  const text::Vocabulary target = vocabulary("target_vocabulary");
  nn::Parameters params(file);
  const models::Bahdanau model(params, options_of(file, source.vocabulary, target));
  for (const char* date : dates) {
    const text::Sentence sentence = source.encode(std::string_view(date));
    const auto batch = text::make_source_batch(std::span(&sentence, 1));
    const models::Hypothesis best = models::search(model, batch, {.max_length = 40})[0][0];
    for (const auto word : best.words) std::cout << target.token(word);
    std::cout << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    write_dates(std::span(argv + 1, argv + argc));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
