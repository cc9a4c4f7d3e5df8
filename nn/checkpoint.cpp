#include <charconv>

#include <fmt/format.h>

#include <attune/nn/checkpoint.hpp>
#include <attune/tensor/check.hpp>

namespace attune::nn {

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
  for (const auto& [name, w] : parameters) check_tensor(file, name, w.value());
  for (const auto& [name, w] : parameters) {
    Tensor to = w.value();
    load_tensor(file, name, to);
  }
}

void check_tensor(const Safetensors& file, const std::string& name, const Tensor& to) {
  find_tensor(file, name, to.shape(), to.dtype());
}

void load_tensor(const Safetensors& file, const std::string& name, Tensor& to) {
  copy(find_tensor(file, name, to.shape(), to.dtype()), to);
}

std::int64_t load_count(const Safetensors& file, const std::string& name) {
  constexpr std::int64_t most = std::int64_t{1} << 53;
  const auto entry = file.metadata.find(name);
  if (entry == file.metadata.end()) fail("checkpoint", fmt::format("there is no {} in it", name));
  const std::string& text = entry->second;
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 0 || count > most) {
    fail("checkpoint", fmt::format("{} is '{}', not 0 to {}", name, text, most));
  }
  return count;
}

}  // namespace attune::nn
