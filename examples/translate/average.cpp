#include <fmt/format.h>

#include <attune/models/seq2seq_options.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/elementwise.hpp>

#include "commands.hpp"
#include "model.hpp"
#include "support/output.hpp"

namespace attune::translate {

namespace {

/// Throws where the file is no model, or more than a model: the whole state of a training.
void check_replaceable(const std::filesystem::path& path) {
  if (!std::filesystem::is_regular_file(path) || std::filesystem::file_size(path) == 0) return;
  bool goes_on = false;
  try {
    goes_on = Model::load(path).metadata().contains("adam.steps");
  } catch (const Error&) {
    fail(path.string(), "there is a file that is no model: another file to write was expected");
  }
  if (goes_on)
    fail(path.string(), "a training can go on from it: another file to write was expected");
}

}  // namespace

int average(const AverageArguments& o) {
  require_writable(o.out, o.models);
  check_replaceable(o.out);
  Model mean = Model::load(o.models.front());
  // What models must have in common for their weights to mean the same.
  std::vector<std::string> names(std::begin(codec_entries), std::end(codec_entries));
  for (const auto& field : models::seq2seq_fields()) names.push_back(field.name);
  const double share = 1.0 / static_cast<double>(o.models.size());
  std::vector<Tensor> sums;
  for (const auto& [name, w] : mean.parameters()) sums.push_back(zeros(w.shape(), DType::f64));
  for (const std::filesystem::path& path : o.models) {
    const Model model = Model::load(path);
    check_alike(names, mean.metadata(), path, model.metadata(), "the first checkpoint");
    auto sum = sums.begin();
    for (const auto& [name, w] : model.parameters()) {
      add_in_place(*sum++, w.value().to(DType::f64) * share);
    }
  }
  std::size_t i = 0;
  for (const auto& [name, w] : mean.parameters()) {
    Tensor to = w.value();
    copy(sums[i++].to(to.dtype()), to);
  }
  Safetensors file;
  mean.save(file);
  for (const auto& [name, value] : mean.metadata()) file.metadata.emplace(name, value);
  save_safetensors(o.out, file);
  fmt::print("the mean of {} checkpoints: {}\n", o.models.size(), o.out.string());
  return 0;
}

}  // namespace attune::translate
