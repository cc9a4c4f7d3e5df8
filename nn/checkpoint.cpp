#include <fmt/format.h>

#include <attune/nn/checkpoint.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {
namespace {

const Tensor& find_tensor(const Safetensors& file, const std::string& name, const Tensor& to) {
  const Tensor* from = file.find(name);
  if (!from)
    fail("checkpoint", fmt::format("there is no '{}' {} in it", name, to_string(to.shape())));
  if (from->shape() != to.shape() || from->dtype() != to.dtype()) {
    fail("checkpoint",
         fmt::format("'{}' is {} {}, but {} {} was expected", name, name_of(from->dtype()),
                     to_string(from->shape()), name_of(to.dtype()), to_string(to.shape())));
  }
  return *from;
}

}  // namespace

void save_parameters(const Parameters& parameters, Safetensors& file) {
  for (const auto& [name, w] : parameters) file.tensors.emplace_back(name, w.value());
}

void load_parameters(const Safetensors& file, Parameters& parameters) {
  for (const auto& [name, w] : parameters) check_tensor(file, name, w.value());
  for (const auto& [name, w] : parameters) {
    Tensor to = w.value();
    load_tensor(file, name, to);
  }
}

void check_tensor(const Safetensors& file, const std::string& name, const Tensor& to) {
  find_tensor(file, name, to);
}

void load_tensor(const Safetensors& file, const std::string& name, Tensor& to) {
  copy(find_tensor(file, name, to), to);
}

}  // namespace attune::nn
