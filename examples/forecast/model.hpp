// A network that forecasts, with what its numbers mean.
#pragma once

#include <filesystem>

#include <attune/tensor/safetensors.hpp>

#include "networks.hpp"
#include "windows.hpp"

namespace attune::forecast {

/// What a checkpoint of this program says that it is.
inline constexpr const char* checkpoint_format = "attune forecast 1";

class Model {
 public:
  Model(const NetworkOptions& options, std::vector<std::string> columns, frames::Scaling scaling,
        std::uint64_t seed);

  /// Reads a checkpoint written by `save`. Throws an Error that begins with the path.
  static Model load(const std::filesystem::path& path);
  void save(Safetensors& file) const;

  /// See Network; of scaled values.
  Var operator()(const Tensor& past, std::vector<Tensor>* weights = nullptr) const {
    return (*network_)(past, weights);
  }

  const NetworkOptions& options() const { return options_; }
  WindowSizes sizes() const { return {options_.look_back, options_.horizon}; }
  std::span<const std::string> columns() const { return columns_; }
  const frames::Scaling& scaling() const { return scaling_; }
  nn::Parameters& parameters() { return *parameters_; }
  const nn::Parameters& parameters() const { return *parameters_; }
  /// All metadata of the checkpoint it was loaded from.
  const Metadata& metadata() const { return metadata_; }

 private:
  Model(const NetworkOptions& options, std::vector<std::string> columns, frames::Scaling scaling,
        std::unique_ptr<nn::Parameters> parameters);

  NetworkOptions options_;
  std::vector<std::string> columns_;
  frames::Scaling scaling_;
  std::unique_ptr<nn::Parameters> parameters_;
  std::unique_ptr<Network> network_;
  Metadata metadata_;
};

/// Mean squared and mean absolute error of scaled values, over all windows.
struct Errors {
  double mse = 0, mae = 0;
  Index windows = 0;
  std::vector<double> mse_by_step;  // of each row ahead (H)
};

/// Of the windows whose targets begin at these rows of scaled values (rows, C).
Errors measure(const Model& model, const Tensor& values, std::span<const Index> rows);

}  // namespace attune::forecast
