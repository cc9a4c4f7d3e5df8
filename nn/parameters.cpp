#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <ostream>

#include <fmt/format.h>

#include <attune/nn/parameters.hpp>
#include <attune/tensor/fail.hpp>

namespace attune::nn {
namespace init {
namespace {

/// cols of a matrix (rows, blocks · cols)
Index block_columns(const char* what, const Tensor& x, Index blocks) {
  if (x.rank() != 2 || blocks < 1 || x.dim(1) % blocks != 0) {
    const std::string blocks_in_it =
        blocks == 1 ? "" : fmt::format(" of {} concatenated blocks", blocks);
    fail(what, "a matrix{} was expected: {}", blocks_in_it, x.shape());
  }
  return x.dim(1) / blocks;
}

/// `count` orthonormal vectors of n >= count elements, by Gram-Schmidt with each vector
/// orthogonalised twice, which suffices for full precision (Giraud et al., 2005).
std::vector<double> orthonormal(Index count, Index n, Random& random) {
  std::vector<double> vectors(count * n);
  for (Index i = 0; i < count; ++i) {
    double* v = vectors.data() + i * n;
    for (Index k = 0; k < n; ++k) v[k] = random.normal();
    for (int pass = 0; pass < 2; ++pass) {
      for (Index j = 0; j < i; ++j) {
        const double* u = vectors.data() + j * n;
        const double along = std::inner_product(u, u + n, v, 0.0);
        for (Index k = 0; k < n; ++k) v[k] -= along * u[k];
      }
      const double length = std::sqrt(std::inner_product(v, v + n, v, 0.0));
      for (Index k = 0; k < n; ++k) v[k] /= length;
    }
  }
  return vectors;
}

}  // namespace

Init constant(double value) {
  return [value](Tensor& x, Random&) { fill(x, value); };
}

Init uniform(double low, double high) {
  return [=](Tensor& x, Random& random) {
    std::generate_n(x.mutable_data<double>(), x.size(), [&] { return random.uniform(low, high); });
  };
}

Init normal(double standard_deviation) {
  require_in_range("init::normal", "standard deviation", standard_deviation, "[0, inf)");
  return [=](Tensor& x, Random& random) {
    std::generate_n(x.mutable_data<double>(), x.size(),
                    [&] { return standard_deviation * random.normal(); });
  };
}

Init glorot(Integer blocks) {
  return [blocks](Tensor& x, Random& random) {
    const Index fan_out = block_columns("glorot", x, blocks);
    const double limit = std::sqrt(6.0 / static_cast<double>(x.dim(0) + fan_out));
    uniform(-limit, limit)(x, random);
  };
}

Init orthogonal(Integer blocks) {
  return [blocks](Tensor& x, Random& random) {
    const Index cols = block_columns("orthogonal", x, blocks), rows = x.dim(0);
    double* values = x.mutable_data<double>();
    for (Index block = 0; block < blocks; ++block) {
      const bool wide = cols > rows;
      const std::vector<double> q = orthonormal(std::min(rows, cols), std::max(rows, cols), random);
      for (Index r = 0; r < rows; ++r) {
        for (Index c = 0; c < cols; ++c)
          values[r * x.dim(1) + block * cols + c] = q[wide ? r * cols + c : c * rows + r];
      }
    }
  };
}

}  // namespace init

Parameters::Parameters(std::uint64_t seed, DType dtype) : seed_(seed), dtype_(dtype) {
  if (!is_floating(dtype)) fail("Parameters", "f32 or f64 was expected");
}

Parameters::Parameters(Safetensors weights, DType dtype) : Parameters(0, dtype) {
  weights_ = std::move(weights);
}

Tensor Parameters::initial_values(const std::string& path, const Shape& shape, const Init& init) {
  if (weights_) {
    const Tensor values = find_tensor(*weights_, path, shape, dtype_).clone();
    weights_->tensors.erase(path);
    return values;
  }
  Tensor values = Tensor::uninitialized(shape, DType::f64, "Parameters");
  Random random(seed_, path);
  const InLayer parameter(path);
  init(values, random);
  return values.to(dtype_);
}

Var Parameters::add(const std::string& path, const Shape& shape, const Init& init) {
  if (contains(path)) fail("Parameters", "'{}' exists already", path);
  if (!init) fail("Parameters", "'{}' has no initialiser", path);
  const Var parameter = variable(initial_values(path, shape, init));
  index_.emplace(path, parameters_.size());
  parameters_.push_back({path, parameter});
  return parameters_.back().variable;
}

Var Parameters::add(const std::string& path, std::initializer_list<Integer> extents,
                    const Init& init) {
  if (std::ranges::any_of(extents, [](Index extent) { return extent < 1; }))
    fail("Parameters", "'{}' {} has an extent below 1", path, to_string(Integer::list(extents)));
  return add(path, Shape(extents), init);
}

std::vector<NamedVariable> Parameters::where(
    const std::function<bool(const NamedVariable&)>& wanted) const {
  std::vector<NamedVariable> chosen;
  std::ranges::copy_if(parameters_, std::back_inserter(chosen), wanted);
  return chosen;
}

std::span<const NamedVariable> Parameters::all() const& { return parameters_; }

bool Parameters::contains(std::string_view path) const {
  return index_.contains(std::string(path));
}

const Var& Parameters::operator[](std::string_view path) const& {
  const auto at = index_.find(std::string(path));
  if (at == index_.end()) fail("Parameters", "'{}' does not exist", path);
  return parameters_[at->second].variable;
}

template <class T>
static T number_in(const Metadata& metadata, const std::string& name, T low, T high) {
  const std::string& text = load_text(metadata, name);
  const char* const end = text.data() + text.size();
  T value{};
  const auto [read, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || read != end || !(value >= low && value <= high))
    fail("checkpoint", "'{}' is {}, not a number from {} to {}", name, in_quotes(text), low, high);
  return value;
}

Tensor find_tensor(const Safetensors& file, const std::string& name, const Shape& shape,
                   DType dtype) {
  const Tensor* from = file.find(name);
  if (!from) fail("checkpoint", "'{}' {} is missing", name, shape);
  if (from->shape() != shape || from->dtype() != dtype)
    fail("checkpoint", "'{}' is {}, but {} {} was expected", name, describe(*from), name_of(dtype),
         shape);
  return *from;
}

std::ostream& operator<<(std::ostream& out, const Parameters& parameters) {
  std::size_t width = 0;
  Index total = 0;
  for (const auto& [path, w] : parameters) width = std::max(width, path.size());
  for (const auto& [path, w] : parameters) {
    total += w.size();
    out << fmt::format("{:<{}}  {:<16} {:>12}\n", path, width, to_string(w.shape()), w.size());
  }
  return out << fmt::format("{:<{}}  {:<16} {:>12}\n", "total", width, "", total);
}

void save_parameters(const Parameters& parameters, Safetensors& file) {
  for (const auto& [name, w] : parameters) file.add(name, w.value());
}

void load_parameters(const Safetensors& file, Parameters& parameters) {
  NamedTensors values;
  for (const auto& [name, w] : parameters) values.emplace_back(name, w.value());
  load_tensors(file, values);
}

void save_tensors(const NamedTensors& tensors, Safetensors& file) {
  for (const auto& [name, tensor] : tensors) file.add(name, tensor);
}

void load_tensors(const Safetensors& file, const NamedTensors& tensors) {
  std::vector<Tensor> from;
  for (const auto& [name, to] : tensors)
    from.push_back(find_tensor(file, name, to.shape(), to.dtype()));
  for (std::size_t i = 0; i < from.size(); ++i) {
    Tensor to = tensors[i].second;
    copy(from[i], to);
  }
}

std::string load_text(const Metadata& metadata, const std::string& name) {
  const auto entry = metadata.find(name);
  if (entry == metadata.end()) fail("checkpoint", "'{}' is missing", name);
  return entry->second;
}

std::int64_t load_count(const Metadata& metadata, const std::string& name) {
  return number_in<std::int64_t>(metadata, name, 0, std::int64_t{1} << 53);
}

double load_number(const Metadata& metadata, const std::string& name, double low, double high) {
  return number_in(metadata, name, low, high);
}

void require_in_range(const char* owner, const char* name, double value, const char* range) {
  char* end = nullptr;
  const double low = std::strtod(range + 1, &end), high = std::strtod(end + 1, &end);
  if ((*range == '[' ? value >= low : value > low) && (*end == ']' ? value <= high : value < high))
    return;
  fail(owner, "{} = {} is not in {}", name, value, range);
}

}  // namespace attune::nn
