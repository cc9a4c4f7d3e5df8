#include <fmt/format.h>

#include <attune/tensor/file.hpp>

#include "commands.hpp"
#include "model.hpp"
#include "support/output.hpp"

namespace attune::translate {
namespace {

void export_side(const text::Codec& codec, const std::string& prefix,
                 const std::filesystem::path& model) {
  const std::string pieces = prefix + ".model", vocabulary = prefix + ".vocabulary";
  require_writable(vocabulary, {model});
  if (const text::SentencePiece* learnt = codec.tokenizer.pieces()) {
    require_writable(pieces, {model});
    write_file(pieces, learnt->bytes());
    say("{}\n", pieces);
  }
  text::write_vocabulary(vocabulary, codec.vocabulary);
  say("{}\n", vocabulary);
}

}  // namespace

int export_text(const ExportArguments& o) {
  const Model model = Model::load(o.model);
  export_side(model.source(), o.out + ".source", o.model);
  export_side(model.target(), o.out + ".target", o.model);
  if (model.metadata().at("truecase") != "no")
    say("The case of words is not in these files: --truecase learns it from the training text.\n");
  return 0;
}

}  // namespace attune::translate
