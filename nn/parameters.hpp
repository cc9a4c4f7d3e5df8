// The parameters of a model by path: their initial values, and to and from a safetensors file.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/gradcheck.hpp>
#include <attune/autograd/var.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/random.hpp>
#include <attune/tensor/safetensors.hpp>

namespace attune::nn {

/// Fills a tensor (f64; converted to the parameter's type afterwards) from a random stream.
using Init = std::function<void(Tensor&, Random&)>;

namespace init {

Init constant(double value);
inline Init zeros() { return constant(0); }
/// Uniform in [low, high).
Init uniform(double low, double high);
/// Normal with mean 0.
Init normal(double standard_deviation);

/// Uniform in ±√(6 / (fan_in + fan_out))  (Glorot and Bengio, 2010) for a matrix (fan_in, fan_out).
/// `blocks` matrices may stand side by side, such as the gates of a cell, in
/// (fan_in, blocks · fan_out).
Init glorot(Index blocks = 1);

/// Columns (or rows, where there are fewer) of each block form an orthonormal system (Saxe et al.,
/// 2014).
Init orthogonal(Index blocks = 1);

}  // namespace init

/// Owns all parameters of a model. A layer gets them from a Scope, an optimiser and a checkpoint
/// take them from here. Names are paths with dots: "encoder.forward.W_h".
class Parameters {
 public:
  /// Initial values depend on the seed and a parameter's path only, so a further layer does not
  /// change those of the others; f32 and f64 parameters start from the same numbers.
  explicit Parameters(std::uint64_t seed = 1, DType dtype = DType::f32);

  /// Takes the values of a file instead of initial ones. A layer that adds a parameter which
  /// the file does not have, or has with another shape or dtype, throws before anything of that
  /// size is made.
  explicit Parameters(Safetensors weights, DType dtype = DType::f32);

  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  /// Adds a parameter. Throws when the path is taken, or when an extent in braces is less than 1.
  Var add(const std::string& path, const Shape& shape, const Init& init);
  Var add(const std::string& path, std::initializer_list<Index> extents, const Init& init);

  /// In the order in which they were added. Parameters convert to a span, as for gradcheck.
  std::span<const NamedVariable> all() const { return parameters_; }
  auto begin() const { return parameters_.begin(); }
  auto end() const { return parameters_.end(); }
  auto data() const { return parameters_.data(); }  // which std::span asks for in libc++ 14
  auto size() const { return parameters_.size(); }

  /// Those for which `wanted` holds, in that order: what to train of a model.
  ///     backward(loss, params.where([](const NamedVariable& parameter) {
  ///       return parameter.name.starts_with("output.");
  ///     }));
  std::vector<NamedVariable> where(const std::function<bool(const NamedVariable&)>& wanted) const;

  /// By path. Throws when there is none of that name.
  const Var& operator[](std::string_view path) const;
  bool contains(std::string_view path) const { return index_.contains(std::string(path)); }

  /// Number of elements in all of them.
  Index count() const {
    Index n = 0;
    for (const NamedVariable& parameter : parameters_) n += parameter.variable.size();
    return n;
  }
  DType dtype() const { return dtype_; }

 private:
  Tensor initial_values(const std::string& path, const Shape& shape, const Init& init) const;

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

  /// The scope below.
  Scope operator/(std::string_view name) const { return Scope(*parameters_, path(name)); }

  /// Adds the parameter of that name here.
  Var add(std::string_view name, const Shape& shape, const Init& init) const {
    return parameters_->add(path(name), shape, init);
  }
  Var add(std::string_view name, std::initializer_list<Index> extents, const Init& init) const {
    return parameters_->add(path(name), extents, init);
  }

  DType dtype() const { return parameters_->dtype(); }
  /// "encoder.forward"; empty at the top.
  const std::string& path() const { return prefix_; }

 private:
  Scope(Parameters& parameters, std::string prefix)
      : parameters_(&parameters), prefix_(std::move(prefix)) {}
  std::string path(std::string_view name) const {
    return (prefix_.empty() ? "" : prefix_ + ".") + std::string(name);
  }

  Parameters* parameters_;
  std::string prefix_;
};

/// `parameters / "encoder"`: where a layer's parameters begin with "encoder."
inline Scope operator/(Parameters& parameters, std::string_view name) {
  return Scope(parameters) / name;
}

/// A table of paths, shapes and numbers of elements, and their total.
std::ostream& operator<<(std::ostream& out, const Parameters& parameters);

/// Adds every parameter to a file, under its path. The tensors are shared, not copied: write the
/// file before the next update.
void save_parameters(const Parameters& parameters, Safetensors& file);

/// Overwrites every parameter with the tensor of its path. Throws, before any has changed, when one
/// is missing or has another shape or dtype. Other tensors of the file are ignored.
void load_parameters(const Safetensors& file, Parameters& parameters);

/// What load_matching left out, by name.
struct Unmatched {
  std::vector<std::string> parameters;  // which keep their values
  std::vector<std::string> tensors;     // of the file, which were not used
};

/// Overwrites every parameter for which the file has a tensor of its path, shape and dtype: for a
/// changed model, such as one with another vocabulary. Tensors of optimisers count as unused.
[[nodiscard]] Unmatched load_matching(const Safetensors& file, Parameters& parameters);

/// The tensor of that name. Throws when there is none, or one with another shape or dtype.
const Tensor& find_tensor(const Safetensors& file, const std::string& name, const Shape& shape,
                          DType dtype);

/// Tensors with the names that they have in a file, sharing elements with what they stand for.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

void save_tensors(const NamedTensors& tensors, Safetensors& file);

/// Overwrites all of them. Throws, before any has changed, when one is missing or has another shape
/// or dtype.
void load_tensors(const Safetensors& file, const NamedTensors& tensors);

/// An entry of the metadata: as it stands, as a count (0 to 2^53), and as a number from `low` to
/// `high`. Throw when it is missing or anything else.
const std::string& load_text(const Metadata& metadata, const std::string& name);
std::int64_t load_count(const Metadata& metadata, const std::string& name);
double load_number(const Metadata& metadata, const std::string& name, double low, double high);

/// While one lives, errors in this thread end with the path of a layer or parameter: "..., in
/// encoder.forward". Of several, the innermost one counts. A layer of your own keeps scope.path() and
/// begins its operator() with `const nn::InLayer layer(path_);`.
struct InLayer : attune::detail::ScopedValue<const std::string*> {
  [[nodiscard]] explicit InLayer(const std::string& path)
      : ScopedValue(attune::detail::layer_path, &path) {}
};

}  // namespace attune::nn
