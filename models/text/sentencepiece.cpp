#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <attune/models/text/charsmap.hpp>
#include <attune/models/text/sentencepiece.hpp>
#include <attune/models/text/utf8.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/file.hpp>

namespace attune::text {
namespace {

/// Throws what is wrong, without the place in sentencepiece's sources that stands before it.
void check(const sentencepiece::util::Status& status) {
  if (status.ok()) return;
  std::string_view message = status.message();
  if (const std::size_t place = message.rfind("] "); place != message.npos)
    message.remove_prefix(place + 2);
  fail("sentencepiece", message.empty() ? status.message() : message);
}

void check_utf8(std::string_view line) {
  if (const auto bad = find_bad_byte(line))
    fail("sentencepiece", fmt::format("byte {} is not UTF-8", *bad + 1));
}

/// Lines as sentencepiece's trainer reads them.
class Lines : public sentencepiece::SentenceIterator {
 public:
  explicit Lines(std::span<const std::string> lines) : lines_(lines) {}
  bool done() const override { return lines_.empty(); }
  void Next() override { lines_ = lines_.subspan(1); }
  const std::string& value() const override { return lines_.front(); }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::span<const std::string> lines_;
};

}  // namespace

struct SentencePiece::Model {
  sentencepiece::SentencePieceProcessor processor;
};

bool has_sentencepiece() { return true; }

SentencePiece SentencePiece::train(std::span<const std::string> lines,
                                   const SentencePieceOptions& options) {
  for (const std::string& line : lines) check_utf8(line);
  if (std::ranges::all_of(lines, [](const auto& line) { return words(line).empty(); }))
    fail("sentencepiece", "there is no text to train on");
  constexpr int most = 1 << 30;  // of pieces, and of bytes in a line
  if (options.pieces < 1 || options.pieces > most)
    fail("sentencepiece", fmt::format("{} is not a number of pieces", options.pieces));
  if (!(options.coverage >= 0.98 && options.coverage <= 1)) {
    fail("sentencepiece",
         fmt::format("a coverage of {}, expected one from 0.98 to 1", options.coverage));
  }
  const std::unordered_map<std::string, std::string> arguments = {
      {"model_type", options.model == PieceModel::bpe ? "bpe" : "unigram"},
      {"vocab_size", std::to_string(options.pieces)},
      {"hard_vocab_limit", "false"},
      {"character_coverage", fmt::format("{}", options.coverage)},
      {"normalization_rule_name", options.normalization},
      {"max_sentence_length", std::to_string(most)},  // longer lines would be left out silently
      {"num_threads", "1"},                           // sums depend on their number
      {"minloglevel", "3"}};
  Lines iterator(lines);
  std::string bytes;
  check(sentencepiece::SentencePieceTrainer::Train(arguments, &iterator, &bytes));
  return SentencePiece(bytes);
}

std::shared_ptr<const SentencePiece::Model> SentencePiece::parse(std::string_view bytes,
                                                                 std::string_view where) {
  auto model = std::make_shared<Model>();
  const auto load = [&] {
    try {
      return model->processor.LoadFromSerializedProto(bytes).ok();
    } catch (const std::exception&) {  // of its trie of pieces
      return false;
    }
  };
  if (!detail::has_sound_charsmaps(bytes) || !load())
    fail(where, "a model of sentencepiece was expected");
  return model;
}

SentencePiece::SentencePiece(std::string_view bytes) : model_(parse(bytes, "sentencepiece")) {}

SentencePiece SentencePiece::load(const std::filesystem::path& path) {
  return SentencePiece(parse(read_file(path), path.string()));
}

std::vector<std::string> SentencePiece::encode(std::string_view line) const {
  check_utf8(line);
  std::vector<std::string> pieces;
  check(model_->processor.Encode(line, &pieces));
  return pieces;
}

std::string SentencePiece::decode(std::span<const std::string> pieces) const {
  std::string line;
  check(model_->processor.Decode(std::vector<std::string>(pieces.begin(), pieces.end()), &line));
  return line;
}

std::string SentencePiece::bytes() const { return model_->processor.serialized_model_proto(); }

}  // namespace attune::text
