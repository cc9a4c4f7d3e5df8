// The parameters of a model, by path.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/gradcheck.hpp>
#include <attune/autograd/var.hpp>
#include <attune/nn/init.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/safetensors.hpp>

namespace attune::nn {

/// Owns all parameters of a model. A layer gets them from a Scope, an optimiser and a checkpoint
/// take them from here. Names are paths with dots: "encoder.forward.W_h".
class Parameters {
 public:
  /// Initial values depend on the seed and a parameter's path only, so a further layer does not
  /// change those of the others; f32 and f64 parameters start from the same numbers.
  explicit Parameters(std::uint64_t seed = 1, DType dtype = DType::f32);

  /// With the values of a file in the place of initial ones. A layer that adds a parameter which
  /// the file does not have, or has with another shape or dtype, throws before anything of that
  /// size is made.
  explicit Parameters(Safetensors weights, DType dtype = DType::f32);

  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  /// Makes a parameter. Throws when the path is taken.
  Var add(const std::string& path, const Shape& shape, const Init& init);

  /// In the order in which they were made.
  std::span<const NamedVariable> all() const { return parameters_; }
  auto begin() const { return parameters_.begin(); }
  auto end() const { return parameters_.end(); }

  /// By path. Throws when there is none of that name.
  const Var& operator[](std::string_view path) const;
  bool contains(std::string_view path) const { return index_.contains(std::string(path)); }

  /// Number of elements in all of them.
  Index count() const;
  DType dtype() const { return dtype_; }
  std::uint64_t seed() const { return seed_; }

 private:
  Tensor first_values(const std::string& path, const Shape& shape, const Init& init) const;

  std::uint64_t seed_;
  DType dtype_;
  std::optional<Safetensors> weights_;
  std::vector<NamedVariable> parameters_;
  std::unordered_map<std::string, std::size_t> index_;
};

/// A place in the tree of parameters: what a layer's constructor takes. The Parameters must outlive
/// the constructor, not the layer.
class Scope {
 public:
  Scope(Parameters& parameters) : parameters_(&parameters) {}  // NOLINT: a model takes Parameters

  /// The place below.
  Scope operator/(std::string_view name) const { return Scope(*parameters_, path(name)); }

  /// Makes the parameter of that name here.
  Var add(std::string_view name, const Shape& shape, const Init& init) const {
    return parameters_->add(path(name), shape, init);
  }

  DType dtype() const { return parameters_->dtype(); }
  /// "encoder.forward"; empty at the top.
  const std::string& path() const { return prefix_; }

 private:
  Scope(Parameters& parameters, std::string prefix)
      : parameters_(&parameters), prefix_(std::move(prefix)) {}
  std::string path(std::string_view name) const;

  Parameters* parameters_;
  std::string prefix_;
};

/// `parameters / "encoder"`: where a layer's parameters begin with "encoder."
inline Scope operator/(Parameters& parameters, std::string_view name) {
  return Scope(parameters) / name;
}

/// The paths of the parameters on which a loss did not depend.
std::vector<std::string> missing(const Gradients& gradients, const Parameters& parameters);

/// gradcheck of every parameter.
inline GradcheckResult gradcheck(const Parameters& parameters, const std::function<Var()>& f,
                                 const GradcheckOptions& options = {}) {
  return attune::gradcheck(parameters.all(), f, options);
}

namespace detail {

/// f(); an Error gets the path of the layer or parameter at its end: "..., in encoder.forward".
template <class F>
decltype(auto) in_layer(const std::string& path, F f) {
  try {
    return f();
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Error& error) {
    if (path.empty()) throw;
    throw Error(std::string(error.what()) + ", in " + path);
  }
}

}  // namespace detail

}  // namespace attune::nn
