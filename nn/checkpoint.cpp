#include <charconv>

#include <fmt/format.h>

#include <attune/nn/checkpoint.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {
namespace {

template <class T>
T number_in(const Metadata& metadata, const std::string& name, T low, T high) {
  const std::string& text = load_text(metadata, name);
  const char* const end = text.data() + text.size();
  T value{};
  const auto [read, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || read != end || !(value >= low && value <= high)) {
    fail("checkpoint",
         fmt::format("'{}' is '{}', not a number from {} to {}", name, text, low, high));
  }
  return value;
}

}  // namespace

const Tensor& find_tensor(const Safetensors& file, const std::string& name, const Shape& shape,
                          DType dtype) {
  const Tensor* from = file.find(name);
  if (!from) fail("checkpoint", fmt::format("there is no '{}' {} in it", name, to_string(shape)));
  if (from->shape() != shape || from->dtype() != dtype) {
    fail("checkpoint",
         fmt::format("'{}' is {} {}, but {} {} was expected", name, name_of(from->dtype()),
                     to_string(from->shape()), name_of(dtype), to_string(shape)));
  }
  return *from;
}

void save_parameters(const Parameters& parameters, Safetensors& file) {
  for (const auto& [name, w] : parameters) file.add(name, w.value());
}

void load_parameters(const Safetensors& file, Parameters& parameters) {
  NamedTensors values;
  for (const auto& [name, w] : parameters) values.emplace_back(name, w.value());
  load_tensors(file, values);
}

NamedTensors beside_parameters(const Parameters& parameters, const std::string& prefix,
                               std::span<const Tensor> tensors) {
  NamedTensors named;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!tensors[i].defined()) continue;
    named.emplace_back(prefix + "." + parameters.all()[i].name, tensors[i]);
  }
  return named;
}

void save_tensors(const NamedTensors& tensors, Safetensors& file) {
  for (const auto& [name, tensor] : tensors) file.add(name, tensor);
}

void load_tensors(const Safetensors& file, const NamedTensors& tensors) {
  for (const auto& [name, to] : tensors) find_tensor(file, name, to.shape(), to.dtype());
  for (auto [name, to] : tensors) copy(*file.find(name), to);
}

const std::string& load_text(const Metadata& metadata, const std::string& name) {
  const auto entry = metadata.find(name);
  if (entry == metadata.end()) fail("checkpoint", fmt::format("there is no '{}' in it", name));
  return entry->second;
}

std::int64_t load_count(const Metadata& metadata, const std::string& name) {
  return number_in<std::int64_t>(metadata, name, 0, std::int64_t{1} << 53);
}

double load_number(const Metadata& metadata, const std::string& name, double low, double high) {
  return number_in(metadata, name, low, high);
}

}  // namespace attune::nn
