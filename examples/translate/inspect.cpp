#include <algorithm>

#include <fmt/format.h>

#include <attune/models/seq2seq_options.hpp>
#include <attune/tensor/printable.hpp>

#include "commands.hpp"
#include "model.hpp"
#include "train.hpp"

namespace attune::translate {
namespace {

void print_fields(const Metadata& metadata, const auto& fields) {
  for (const auto& field : fields) {
    const auto at = metadata.find(field.name);
    if (at != metadata.end() && !at->second.empty()) {
      fmt::print("{:<20}{}\n", at->first, printable(at->second));
    }
  }
}

}  // namespace

int inspect(const std::filesystem::path& path) {
  const Model model = Model::load(path);
  const Metadata& metadata = model.metadata();
  for (const char* name :
       {"attune_version", "products", "preset", "step", "seconds", "valid_loss", "valid_bleu"}) {
    if (const auto at = metadata.find(name); at != metadata.end()) {
      fmt::print("{:<20}{}\n", name, printable(at->second));
    }
  }
  fmt::print("{:<20}{}\n\n", "checksum",
             model.checksum().empty() ? "none: an older file" : model.checksum() + ", verified");
  print_fields(metadata, train_fields());
  fmt::print("\n");
  print_fields(metadata, models::seq2seq_fields());
  fmt::print("\n{:<20}{}\n{:<20}{}\n\n", "source vocabulary", model.source().vocabulary.size(),
             "target vocabulary", model.target().vocabulary.size());
  std::size_t width = 0;
  for (const auto& [name, w] : model.parameters()) width = std::max(width, name.size());
  for (const auto& [name, w] : model.parameters()) {
    fmt::print("{:<{}}  {}\n", name, width, to_string(w.shape()));
  }
  fmt::print("{:<{}}  {} numbers\n", "all", width, model.parameters().count());
  return 0;
}

}  // namespace attune::translate
