#include <deque>
#include <iostream>
#include <optional>

#include <fmt/format.h>

#include <attune/models/ensemble.hpp>
#include <attune/models/replace_unknown.hpp>
#include <attune/models/text/corpus.hpp>
#include <attune/models/translate.hpp>

#include "commands.hpp"
#include "line_lengths.hpp"
#include "model.hpp"
#include "support/output.hpp"
#include "support/terminal.hpp"

namespace attune::translate {
namespace {

/// Reads lines and writes their translations.
class Stream {
 public:
  Stream(const TranslateArguments& options, const Codecs& codecs)
      : options_(options),
        codecs_(codecs),
        reader_(options.file.empty() ? text::LineReader(std::cin, "standard input")
                                     : text::LineReader(std::filesystem::path(options.file))) {}

  template <models::WordModel M>
  void run(const M& model) {
    models::TranslateOptions how{.sentences = options_.batch, .look_ahead = 20 * options_.batch};
    if (options_.sample) {
      how.how = options_.sampling;
    } else {
      how.how = options_.search;
    }
    models::translate_stream(
        model, [this] { return read(); },
        [this](const models::Translation& translation) { write(translation); }, how);
    if (options_.file.empty()) check_input();
  }

 private:
  std::optional<text::Sentence> read() {
    const auto line = reader_.next();
    if (!line) return std::nullopt;
    const std::vector<std::string> tokens = codecs_.source.tokenizer.encode(*line);
    if (options_.replace_unknown) waiting_.push_back(tokens);
    text::Sentence sentence = codecs_.source.encode(tokens);
    check_length(sentence, reader_.name(), reader_.number(), longest_source);
    return sentence;
  }

  void write(const models::Translation& translation) {
    if (options_.search.best > 1 && !std::exchange(first_, false)) fmt::print("\n");
    for (const models::Hypothesis& hypothesis : translation) {
      if (options_.scores) fmt::print("{:.4f}\t", hypothesis.score);
      fmt::print("{}\n", for_output(line_of(hypothesis)));
    }
    if (options_.replace_unknown) waiting_.pop_front();
    flush_output();
  }

  std::string line_of(const models::Hypothesis& hypothesis) const {
    if (!options_.replace_unknown) return codecs_.target.decode(hypothesis.words);
    return codecs_.target.tokenizer.decode(
        models::replace_unknown(hypothesis, waiting_.front(), codecs_.target.vocabulary));
  }

  const TranslateArguments& options_;
  const Codecs& codecs_;
  text::LineReader reader_;
  std::deque<std::vector<std::string>> waiting_;  // tokens of the lines not yet written
  bool first_ = true;
};

}  // namespace

int translate(const TranslateArguments& o) {
  std::vector<Model> models;
  for (const auto& path : o.models) {
    models.push_back(Model::load(path));
    check_alike(codec_entries, models.front().metadata(), path, models.back().metadata(),
                "the first model");
  }
  const Codecs codecs = codecs_from(models.front().metadata());
  Stream stream(o, codecs);
  if (models.size() == 1) {
    stream.run(models.front().network());
  } else {
    std::vector<const models::Seq2Seq*> networks;
    for (const Model& model : models) networks.push_back(&model.network());
    stream.run(models::Ensemble<models::Seq2Seq>(networks));
  }
  return 0;
}

}  // namespace attune::translate
