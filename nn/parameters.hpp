// The parameters of a model by path: initialisation, saving and loading (safetensors).
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
#include <attune/tensor/errors.hpp>
#include <attune/tensor/random.hpp>
#include <attune/tensor/safetensors.hpp>

namespace attune::nn {

/// Initialiser: fills a tensor (f64, converted to the parameter's dtype afterwards) with initial
/// values, using the given random generator.
using Init = std::function<void(Tensor&, Random&)>;

namespace init {

Init constant(double value);
inline Init zeros() { return constant(0); }
/// Uniform in [low, high).
Init uniform(double low, double high);
/// Normal distribution with mean 0.
Init normal(double standard_deviation);

/// Uniform in ±√(6 / (fan_in + fan_out)) (Glorot and Bengio, 2010), for a matrix (fan_in, blocks ·
/// fan_out) of concatenated blocks, such as gates. Throws on other shapes.
Init glorot(Integer blocks = 1);

/// Orthogonal initialisation (Saxe et al., 2014): in each block (rows, cols) of a matrix (rows,
/// blocks · cols), columns are orthonormal, or rows if rows < cols. Throws on other shapes.
Init orthogonal(Integer blocks = 1);

}  // namespace init

/// Owns all parameters of a model. Layers add parameters through a Scope; optimisers and
/// checkpoints access them here. Paths have the form "encoder.forward.W_h".
class Parameters {
 public:
  /// Initial values depend only on the seed and on the parameter's path, so adding a layer does not
  /// change other layers. f32 values are the rounded f64 values.
  explicit Parameters(std::uint64_t seed = 1, DType dtype = DType::f32);
  explicit Parameters(FractionOrBool auto seed, DType = DType::f32) = delete;

  /// Uses the tensors of a file instead of initial values. `add` throws, before it allocates
  /// memory, if the file has no tensor of that path, shape and dtype. It releases the tensor it used.
  explicit Parameters(Safetensors weights, DType dtype = DType::f32);

  Parameters(const Parameters&) = delete;
  Parameters& operator=(const Parameters&) = delete;

  /// Adds a parameter. Throws if the path exists.
  Var add(const std::string& path, const Shape& shape, const Init& init);
  /// Throws also if one of `extents` is < 1.
  Var add(const std::string& path, std::initializer_list<Integer> extents, const Init& init);

  /// All parameters in the order of `add`. Parameters also converts to a span, as for gradcheck.
  std::span<const NamedVariable> all() const&;
  std::span<const NamedVariable> all() const&& = delete;  // keep the Parameters in a variable
  auto begin() const& { return parameters_.begin(); }
  auto end() const& { return parameters_.end(); }
  auto data() const& { return parameters_.data(); }  // required by std::span of libc++ 14
  void begin() const&& = delete;
  void end() const&& = delete;
  void data() const&& = delete;
  auto size() const { return parameters_.size(); }

  /// The parameters for which `wanted` returns true, in the order of `add`. To train some
  /// parameters:
  ///     backward(loss, params.where([](const NamedVariable& parameter) {
  ///       return parameter.name.starts_with("output.");
  ///     }));
  std::vector<NamedVariable> where(const std::function<bool(const NamedVariable&)>& wanted) const;

  /// The parameter of that path. Throws if it does not exist.
  const Var& operator[](std::string_view path) const&;
  Var operator[](std::string_view path) const&& { return (*this)[path]; }
  bool contains(std::string_view path) const;

  /// Total number of elements of all parameters.
  Index count() const {
    Index n = 0;
    for (const NamedVariable& parameter : parameters_) n += parameter.variable.size();
    return n;
  }
  DType dtype() const { return dtype_; }

 private:
  Tensor initial_values(const std::string& path, const Shape& shape, const Init& init);

  std::uint64_t seed_;
  DType dtype_;
  std::optional<Safetensors> weights_;
  std::vector<NamedVariable> parameters_;
  std::unordered_map<std::string, std::size_t> index_;
};

/// A path prefix for the parameters of a layer, the first argument of a layer's constructor. The
/// Parameters must outlive the scope, but not the layer.
class Scope {
 public:
  Scope(Parameters& parameters) : parameters_(&parameters) {}  // NOLINT: a model takes Parameters

  /// The nested scope "PATH.name".
  Scope operator/(std::string_view name) const { return Scope(*parameters_, path(name)); }

  /// Adds the parameter "PATH.name". Throws as Parameters::add does.
  Var add(std::string_view name, const Shape& shape, const Init& init) const {
    return parameters_->add(path(name), shape, init);
  }
  Var add(std::string_view name, std::initializer_list<Integer> extents, const Init& init) const {
    return parameters_->add(path(name), extents, init);
  }

  DType dtype() const { return parameters_->dtype(); }
  /// The prefix, such as "encoder.forward"; empty for a scope of all parameters.
  const std::string& path() const& { return prefix_; }
  const std::string& path() const&& = delete;  // keep the Scope in a variable

 private:
  Scope(Parameters& parameters, std::string prefix)
      : parameters_(&parameters), prefix_(std::move(prefix)) {}
  std::string path(std::string_view name) const {
    return (prefix_.empty() ? "" : prefix_ + ".") + std::string(name);
  }

  Parameters* parameters_;
  std::string prefix_;
};

/// `parameters / "encoder"`: the scope whose parameters have the prefix "encoder."
inline Scope operator/(Parameters& parameters, std::string_view name) {
  return Scope(parameters) / name;
}

/// Prints a table of paths, shapes and numbers of elements, and the total number of elements.
std::ostream& operator<<(std::ostream& out, const Parameters& parameters);

/// Adds every parameter to a file, under its path. The tensors are shared, not copied: write the
/// file before the next update.
void save_parameters(const Parameters& parameters, Safetensors& file);

/// Overwrites every parameter with the tensor of the same path; ignores other tensors of the file.
/// Throws, and changes nothing, if a tensor is missing or has another shape or dtype.
void load_parameters(const Safetensors& file, Parameters& parameters);

/// The tensor of that name. Throws if it is missing or has another shape or dtype.
Tensor find_tensor(const Safetensors& file, const std::string& name, const Shape& shape,
                   DType dtype);

/// Tensors by their name in a file; they share elements with the state that load_tensors restores.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

void save_tensors(const NamedTensors& tensors, Safetensors& file);

/// Overwrites all `tensors`. Throws as load_parameters does.
void load_tensors(const Safetensors& file, const NamedTensors& tensors);

/// Read a metadata entry: as text, as a count (an integer from 0 to 2^53), or as a number in
/// [low, high]. Throw if the entry is missing or invalid.
std::string load_text(const Metadata& metadata, const std::string& name);
std::int64_t load_count(const Metadata& metadata, const std::string& name);
double load_number(const Metadata& metadata, const std::string& name, double low, double high);

/// Throws unless the value is in `range`, such as "[0, 1)" or "(0, inf)": "OWNER: NAME = 2 is not in
/// [0, 1)".
void require_in_range(const char* owner, const char* name, double value, const char* range);

/// Scope guard: error messages of this thread end with the path of a layer or parameter, as in
/// "..., in encoder.forward". The innermost guard applies. To use it in a new layer, store
/// scope.path() as path_ and begin operator() with `const nn::InLayer layer(path_);`.
struct InLayer : attune::detail::ScopedValue<const std::string*> {
  [[nodiscard]] explicit InLayer(const std::string& path)
      : ScopedValue(attune::detail::thread_state.layer_path, &path) {}
  explicit InLayer(const std::string&&) = delete;  // the path must outlive the guard
};

}  // namespace attune::nn
