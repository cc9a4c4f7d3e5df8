#include "model.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <attune/tensor/check.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/reduce.hpp>

#include "support/checkpoint.hpp"
#include "support/signals.hpp"

namespace attune::forecast {
namespace {

std::vector<std::string> columns_in(const Metadata& metadata) {
  const auto json = nlohmann::json::parse(nn::load_text(metadata, "columns"), nullptr, false);
  if (!json.is_array() || json.empty() ||
      !std::ranges::all_of(json, [](const auto& name) { return name.is_string(); })) {
    fail("checkpoint", "'columns' is not an array of names");
  }
  return json.get<std::vector<std::string>>();
}

}  // namespace

Model::Model(const NetworkOptions& options, std::vector<std::string> columns,
             frames::Scaling scaling, std::unique_ptr<nn::Parameters> parameters)
    : options_(options),
      columns_(std::move(columns)),
      scaling_(std::move(scaling)),
      parameters_(std::move(parameters)),
      network_(make_network(*parameters_, options, std::ssize(columns_))) {}

Model::Model(const NetworkOptions& options, std::vector<std::string> columns,
             frames::Scaling scaling, std::uint64_t seed)
    : Model(options, std::move(columns), std::move(scaling),
            std::make_unique<nn::Parameters>(seed)) {}

Model Model::load(const std::filesystem::path& path) {
  return from_checkpoint(path, checkpoint_format, [](const Safetensors& file) {
    NetworkOptions options;
    models::set_fields_from(network_fields(), options, file.metadata);
    std::vector<std::string> columns = columns_in(file.metadata);
    const Shape shape{std::ssize(columns)};
    frames::Scaling scaling{zeros(shape), zeros(shape)};
    nn::load_tensors(file, frames::scaling_tensors(scaling));
    frames::check(scaling);
    Model model(options, std::move(columns), scaling, std::make_unique<nn::Parameters>(file));
    model.metadata_ = file.metadata;
    return model;
  });
}

void Model::save(Safetensors& file) const {
  nn::save_parameters(*parameters_, file);
  nn::save_tensors(frames::scaling_tensors(scaling_), file);
  file.metadata.merge(models::fields_to_map(network_fields(), options_));
  file.metadata["format"] = checkpoint_format;
  file.metadata["columns"] = nlohmann::json(columns_).dump();
}

Errors measure(const Model& model, const Tensor& values, std::span<const Index> rows) {
  constexpr std::size_t batch = 256;
  const NoGrad no_grad;
  Errors errors{.windows = std::ssize(rows), .mse_by_step = {}};
  errors.mse_by_step.resize(static_cast<std::size_t>(model.options().horizon));
  for (std::size_t begin = 0; begin < rows.size(); begin += batch) {
    stop_if_interrupted();
    const auto some = rows.subspan(begin, std::min(batch, rows.size() - begin));
    const auto [past, future] = windows_at(values, model.sizes(), some);
    const Tensor error = (model(past).value() - future).to(DType::f64);
    errors.mae += sum(abs(error)).item();
    const std::vector<double> squares = sum(error * error, {1, 2}).to_vector<double>();
    for (std::size_t step = 0; step < squares.size(); ++step)
      errors.mse_by_step[step] += squares[step];
  }
  const double of_step = static_cast<double>(errors.windows * values.dim(1));
  for (double& mse : errors.mse_by_step) {
    errors.mse += mse / of_step / static_cast<double>(errors.mse_by_step.size());
    mse /= of_step;
  }
  errors.mae /= of_step * static_cast<double>(errors.mse_by_step.size());
  return errors;
}

}  // namespace attune::forecast
