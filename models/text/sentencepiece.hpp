// Subwords by the sentencepiece library, where attune is built with it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <attune/tensor/shape.hpp>

namespace attune::text {

/// Whether this build has the library. Without it, every constructor of SentencePiece throws an
/// Error that says so.
bool has_sentencepiece();

enum class PieceModel {
  bpe,      ///< byte pair encoding (Sennrich et al., 2016)
  unigram,  ///< unigram language model (Kudo, 2018)
};

struct SentencePieceOptions {
  PieceModel model = PieceModel::bpe;
  std::int64_t pieces = 8000;  ///< at most: a small text has fewer
  double coverage = 1;         ///< 0.98 .. 1: of the text's characters, those with a piece
  /// "identity" leaves the text as it is; sentencepiece also knows nmt_nfkc, nfkc, nmt_nfkc_cf and
  /// nfkc_cf.
  std::string normalization = "identity";
};

/// A model that cuts lines into pieces (Kudo and Richardson, 2018); copies share it. The pieces are
/// strings, in which "▁" (U+2581) stands for a blank; a Vocabulary numbers them. A
/// character without a piece stands for itself.
class SentencePiece {
 public:
  /// Learns from lines; the same lines and options give the same model, byte for byte. Throws
  /// without text, and when the text has more characters than `pieces`.
  static SentencePiece train(std::span<const std::string> lines,
                             const SentencePieceOptions& options = {});

  /// From what bytes() returned. Throws on anything else.
  explicit SentencePiece(std::string_view bytes);
  /// From a `.model` file. Throws with the path and the reason.
  static SentencePiece load(const std::filesystem::path& path);

  /// Throws when the line is not UTF-8.
  std::vector<std::string> encode(std::string_view line) const;
  /// The line: with "identity" as it was, but for blanks at its ends, repeated ones, and ▁, which
  /// becomes a blank. `<unk>` becomes ⁇ (U+2047).
  std::string decode(std::span<const std::string> pieces) const;

  std::string bytes() const;

 private:
  struct Model;
  explicit SentencePiece(std::shared_ptr<const Model> model) : model_(std::move(model)) {}
  static std::shared_ptr<const Model> parse(std::string_view bytes, std::string_view where);

  std::shared_ptr<const Model> model_;
};

}  // namespace attune::text
