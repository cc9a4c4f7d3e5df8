#include <fmt/format.h>

#include <attune/nn/checkpoint.hpp>
#include <attune/nn/parameters.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {

Parameters::Parameters(std::uint64_t seed, DType dtype) : seed_(seed), dtype_(dtype) {
  if (!is_floating(dtype)) fail("Parameters", "f32 or f64 was expected");
}

Parameters::Parameters(Safetensors weights, DType dtype) : Parameters(0, dtype) {
  weights_ = std::move(weights);
}

Tensor Parameters::first_values(const std::string& path, const Shape& shape,
                                const Init& init) const {
  if (weights_) return find_tensor(*weights_, path, shape, dtype_).clone();
  Tensor values = Tensor::uninitialized(shape, DType::f64, "Parameters");
  Random random(seed_, path);
  detail::in_layer(path, [&] { init(values, random); });
  return values.to(dtype_);
}

Var Parameters::add(const std::string& path, const Shape& shape, const Init& init) {
  if (contains(path)) fail("Parameters", fmt::format("'{}' exists already", path));
  if (!init) fail("Parameters", fmt::format("'{}' has no function of first values", path));
  const Var parameter = variable(first_values(path, shape, init));
  index_.emplace(path, parameters_.size());
  parameters_.push_back({path, parameter});
  return parameters_.back().variable;
}

const Var& Parameters::operator[](std::string_view path) const {
  const auto at = index_.find(std::string(path));
  if (at == index_.end()) fail("Parameters", fmt::format("there is no '{}'", path));
  return parameters_[at->second].variable;
}

Index Parameters::count() const {
  Index n = 0;
  for (const NamedVariable& parameter : parameters_) n += parameter.variable.size();
  return n;
}

std::vector<std::string> missing(const Gradients& gradients, const Parameters& parameters) {
  std::vector<std::string> paths;
  for (const auto& [path, variable] : parameters)
    if (!gradients.find(variable)) paths.push_back(path);
  return paths;
}

std::string Scope::path(std::string_view name) const {
  return prefix_.empty() ? std::string(name) : fmt::format("{}.{}", prefix_, name);
}

}  // namespace attune::nn
