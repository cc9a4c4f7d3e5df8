// Expected numbers, computed by PyTorch. tests/golden/README.md describes the files.
#pragma once

#include <fstream>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

#include <attune/tensor/tensor.hpp>

namespace attune {

/// One file of tests/golden. `prefix`, such as "mean/", is added to all later names.
class Golden {
 public:
  explicit Golden(const std::string& name) : name_(name) {
    std::ifstream file(std::string(ATTUNE_GOLDEN) + "/" + name + ".json");
    if (!file) throw std::runtime_error("there is no golden file " + name);
    file >> json_;
  }

  Golden at(const std::string& prefix) const {
    Golden part = *this;
    part.prefix_ += prefix;
    return part;
  }

  bool contains(const std::string& name) const {
    return json_.at("tensors").contains(prefix_ + name);
  }

  /// The tensor of that name: f64, or i32 if the file declares it so.
  Tensor operator[](const std::string& name) const {
    if (!contains(name)) throw std::runtime_error(name_ + " has no tensor " + prefix_ + name);
    const auto& entry = json_["tensors"][prefix_ + name];
    const auto extents = entry.at("shape").get<std::vector<Index>>();
    const auto values = entry.at("data").get<std::vector<double>>();
    const Tensor x = Tensor::of(Shape(extents), std::span<const double>(values));
    return entry.value("dtype", "f64") == "i32" ? x.to(DType::i32) : x;
  }

  double number(const std::string& name) const {
    return json_.at("numbers").at(prefix_ + name).get<double>();
  }

 private:
  nlohmann::json json_;
  std::string name_, prefix_;
};

}  // namespace attune
