// `attune average` and `attune inspect`.
#include <algorithm>
#include <sstream>

#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/file.hpp>

#include "commands.hpp"
#include "model.hpp"
#include "output.hpp"

namespace attune::pairs {
namespace {

/// Throws if the existing file is not a model, or if it has the state to resume a training.
void check_replaceable(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path) || std::filesystem::file_size(path) == 0) return;
  std::string what = "contains the state to resume a training";
  try {
    if (!Model::load(path).metadata.contains("adam.steps")) return;
  } catch (const Error&) {
    what = "exists and is not a model";
  }
  fail(path.string(), what + ", expected another output file");
}

/// Writes the subword model and the vocabulary of one side.
void export_side(const text::Codec& codec, const std::string& prefix) {
  const std::string pieces = prefix + ".model", vocabulary = prefix + ".vocabulary";
  if (const text::SentencePiece* learnt = codec.tokenizer.pieces()) {
    write_file(pieces, learnt->bytes());
    say("{}\n", pieces);
  }
  text::write_vocabulary(vocabulary, codec.vocabulary);
  say("{}\n", vocabulary);
}

void print_json(const Model& model) {
  report::Json metadata, parameters;
  for (const auto& [name, value] : model.metadata)
    if (std::ranges::find(codec_entries, name) == std::end(codec_entries)) metadata[name] = value;
  for (const auto& [name, w] : *model.parameters)
    parameters[name] = std::vector(w.shape().begin(), w.shape().end());
  say("{}\n", report::json_line({{"checksum", model.checksum},
                                 {"metadata", metadata},
                                 {"source_tokens", kind_of(model.source().tokenizer)},
                                 {"target_tokens", kind_of(model.target().tokenizer)},
                                 {"source_vocabulary", model.source().vocabulary.size()},
                                 {"target_vocabulary", model.target().vocabulary.size()},
                                 {"parameters", parameters}}));
}

void print(const Model& model) {
  const auto line = [](const std::string& name, const std::string& value) {
    if (!value.empty()) say("{:<20}{}\n", name, printable(value));
  };
  for (const char* name : {"attune_version", "products", "step", "seconds"})
    line(name, model.entry(name));
  line("checksum", model.checksum.empty() ? "none" : model.checksum + ", verified");
  say("\n");
  TrainOptions names;
  const models::ModelOptions& own = model.model.options();
  const models::OptionTable<models::ModelOptions>& of_model = models::options_of(own);
  for (const models::Option& one : options_of(names))
    if (one.group != "Run" && one.group != "Model") line(one.name, model.entry(one.name));
  say("\n");
  line("model", own.name);
  for (const models::Option& one : of_model) line(one.name, of_model.get(own, one));
  say("\n");
  line("source", kinds_of(model.source())), line("target", kinds_of(model.target()));
  say("\n");
  std::ostringstream parameters;
  parameters << *model.parameters;
  say("{}", parameters.str());
}

}  // namespace

int average(const UseOptions& o) {
  if (o.sources.empty()) fail("MODEL", "missing, expected checkpoints of one training");
  const std::vector<std::filesystem::path> paths(o.sources.begin(), o.sources.end());
  const std::filesystem::path out = o.out.empty() ? "average.safetensors" : o.out;
  const auto files = model_files(paths);
  require_writable(out, files);
  check_replaceable(out);
  Model mean = Model::load(files.front());
  // Entries that must be equal, so that averaging the weights is meaningful.
  std::vector<std::string> names(std::begin(codec_entries), std::end(codec_entries));
  names.insert(names.end(), {"model", "seed"});
  for (const models::Option& one : models::options_of(mean.model.options()))
    names.push_back(one.name);
  const double share = 1.0 / files.size();
  std::vector<Tensor> sums;
  for (const auto& [name, w] : *mean.parameters) sums.push_back(zeros(w.shape(), DType::f64));
  for (const std::filesystem::path& path : files) {
    const Model model = Model::load(path);
    check_alike(names, mean, path, model, "the first checkpoint");
    auto sum = sums.begin();
    for (const auto& [name, w] : *model.parameters)
      add_in_place(*sum++, w.value().to(DType::f64) * share);
  }
  auto sum = sums.begin();
  for (const auto& [name, w] : *mean.parameters) {
    Tensor to = w.value();
    copy((sum++)->to(to.dtype()), to);
  }
  Safetensors file;
  mean.save(file);
  for (const auto& [name, value] : mean.metadata) file.metadata.emplace(name, value);
  file.metadata.erase("adam.steps");  // the file does not have the optimiser's state
  save_safetensors(out, file);
  say("the mean of {} checkpoints: {}\n", files.size(), out.string());
  return 0;
}

int inspect(const UseOptions& o) {
  const auto file = model_file({&o.file, o.file.empty() ? 0u : 1u});
  const Model model = Model::load(file);
  if (o.exported.empty()) {
    o.json ? print_json(model) : print(model);
    return 0;
  }
  for (const char* end :
       {".source.model", ".source.vocabulary", ".target.model", ".target.vocabulary"})
    require_writable(o.exported + end, {file});
  export_side(model.source(), o.exported + ".source");
  export_side(model.target(), o.exported + ".target");
  if (model.entry("truecase") == "yes")
    say("These files do not contain the truecaser: --truecase learns it from the training text.\n");
  return 0;
}

}  // namespace attune::pairs
