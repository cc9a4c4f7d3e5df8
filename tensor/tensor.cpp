#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include <attune/tensor/fail.hpp>
#include <attune/tensor/tensor.hpp>
#include <attune/tensor/threads.hpp>

namespace attune {

namespace detail {

Buffer& buffer_of(const Tensor& x) { return *x.buffer_.operator->(); }

void fail_modified(const Shape& shape) {
  fail(fmt::format("backward of {}", thread_state.pullback.operation),
       "a tensor {} that it needs was modified in place after the forward pass", shape);
}

void fail_dtype(DType actual, DType wanted, const Shape& shape) {
  if (actual == wanted) fail("tensor", "an undefined tensor was accessed");
  fail("tensor", "{} {} was accessed as {}", name_of(actual), shape, name_of(wanted));
}

}  // namespace detail

namespace {

/// Calls f with a zero of the element type, i32 included.
template <class F>
decltype(auto) visit(DType dtype, F f) {
  if (dtype == DType::f32) return f(0.0f);
  return dtype == DType::f64 ? f(0.0) : f(std::int32_t{0});
}

template <class To, class From>
To converted(const char* operation, From value) {
  if constexpr (std::is_same_v<To, std::int32_t> && std::is_floating_point_v<From>) {
    if (!(value > -0x1p31 - 1 && value < 0x1p31))
      fail(operation, "{:g} does not fit in i32", value);
  }
  return static_cast<To>(value);
}

void require_defined(const char* operation, const Tensor& x) {
  if (!x.defined()) fail(operation, "the tensor is not defined");
}

/// f(0), ... f(n - 1), computed in f64.
template <class F>
Tensor sequence(const char* operation, Index n, DType dtype, F f) {
  Tensor result = Tensor::uninitialized({n}, DType::f64, operation);
  double* to = result.mutable_data<double>();
  for (Index i = 0; i < n; ++i) to[i] = f(i);
  return dtype == DType::i32 ? to_i32(operation, result) : result.to(dtype);
}

}  // namespace

Tensor Tensor::uninitialized(const Shape& shape, DType dtype, std::string_view operation) {
  // Where addresses have 32 bits, what they cannot reach must not wrap.
  const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(
      static_cast<std::uint64_t>(shape.size()) * size_of(dtype), PTRDIFF_MAX));
  try {
    return {detail::IntrusivePtr(detail::make_buffer(bytes)), shape, dtype};
  } catch (const OutOfMemory&) {
    throw OutOfMemory(operation, fmt::format("{} {}", to_string(shape), name_of(dtype)), bytes);
  }
}

template <class T, DType dtype>
Tensor Tensor::of(const Shape& shape, std::span<const T> values) {
  Tensor result = uninitialized(shape, dtype);
  if (static_cast<Index>(values.size()) != result.size())
    fail("tensor", "{} values were given for {}", values.size(), shape);
  std::ranges::copy(values, result.mutable_data<T>());
  return result;
}
template Tensor Tensor::of(const Shape&, std::span<const float>);
template Tensor Tensor::of(const Shape&, std::span<const double>);
template Tensor Tensor::of(const Shape&, std::span<const std::int32_t>);

Index Tensor::offset_of(std::initializer_list<Integer> index) const {
  bool exists = static_cast<int>(index.size()) == rank();
  Index offset = 0;
  for (int axis = 0; exists && axis < rank(); ++axis) {
    Index i = index.begin()[axis];
    if (i < 0) i += dim(axis);
    exists = i >= 0 && i < dim(axis);
    offset = offset * dim(axis) + i;
  }
  if (!exists) fail("at", "there is no element {} in {}", to_string(Integer::list(index)), shape_);
  return offset;
}

double Tensor::item() const {
  if (size() != 1) fail("item", "one element was expected: {}", shape_);
  return visit(dtype_, [&](auto zero) { return static_cast<double>(*data<decltype(zero)>()); });
}

template <class T, DType dtype>
std::vector<T> Tensor::to_vector() const {
  require_defined("to_vector", *this);
  const Tensor x = to(dtype);
  return {x.data<T>(), x.data<T>() + size()};
}
template std::vector<float> Tensor::to_vector() const;
template std::vector<double> Tensor::to_vector() const;
template std::vector<std::int32_t> Tensor::to_vector() const;

Tensor Tensor::operator[](Integer t) const {
  if (rank() == 0 || t < -dim(0) || t >= dim(0))
    fail("tensor", "row {} of {} does not exist", t, shape_);
  if (t < 0) t = t + dim(0);
  Tensor row = slice(t, t + 1);
  row.shape_ = shape_.without(0);
  return row;
}

Tensor Tensor::slice(Integer begin, Integer end) const {
  if (rank() == 0 || begin < 0 || begin > end || end > dim(0))
    fail("slice", "rows {} to {} of {} do not exist", begin, end, shape_);
  Tensor rows = *this;
  const Index row_size = shape_.product(1, rank());
  rows.shape_ = shape_.with(0, end - begin);
  rows.offset_ += static_cast<std::size_t>(begin * row_size) * size_of(dtype_);
  return rows;
}

Tensor Tensor::reshape(std::span<const Index> extents) const {
  require_defined("reshape", *this);
  const auto open = std::ranges::find(extents, -1);  // the extent that is left over, if any
  Index known = 1;
  bool fits = true;
  for (auto extent = extents.begin(); extent != extents.end(); ++extent) {
    if (extent == open) continue;
    fits = fits && *extent >= 0 && !__builtin_mul_overflow(known, *extent, &known);
  }
  const bool divides = known > 0 && size() % known == 0;
  if (!fits || (open == extents.end() ? known != size() : !divides))
    fail("reshape", "{} with {} elements cannot become {}", shape_, size(), to_string(extents));
  Tensor result = *this;
  result.shape_ = Shape(extents, open == extents.end() ? 0 : size() / known);
  return result;
}

Tensor Tensor::clone() const {
  Tensor result = uninitialized(shape_, dtype_, "clone");
  copy(*this, result);
  return result;
}

Tensor Tensor::to(DType dtype) const {
  require_defined("to", *this);
  if (dtype == dtype_) return *this;
  Tensor result = uninitialized(shape_, dtype, "to");
  visit(dtype_, [&](auto from_zero) {
    visit(dtype, [&](auto to_zero) {
      using To = decltype(to_zero);
      const auto* x = data<decltype(from_zero)>();
      std::transform(x, x + size(), result.mutable_data<To>(),
                     [](auto v) { return converted<To>("to", v); });
    });
  });
  return result;
}

Tensor to_i32(const char* operation, const Tensor& x) {
  visit(x.dtype(), [&](auto zero) {
    const auto* from = x.data<decltype(zero)>();
    parallel_each(is_floating(x.dtype()) ? x.size() : 0, copy_tile / 8, [&](Index i) {
      const auto v = static_cast<double>(from[i]);
      if (!(v >= -0x1p31 && v < 0x1p31 && v == std::floor(v)))
        fail(operation, "{:g} does not fit in i32, at element {}", v, element_name(x.shape(), i));
    });
  });
  return x.to(DType::i32);
}

Tensor arange(Integer n, DType dtype) {
  if (n < 0) fail("arange", "n = {} is negative", n);
  if (dtype == DType::i32) require_i32_indices("arange", n);
  return sequence("arange", n, dtype, [](Index i) { return static_cast<double>(i); });
}

Tensor arange(double begin, double end, double step, DType dtype) {
  const double n = std::ceil((end - begin) / step);
  if (!(step != 0 && n < 0x1p53))
    fail("arange", "{:g} to {:g} in steps of {:g} has no end", begin, end, step);
  return sequence("arange", static_cast<Index>(std::max(0.0, n)), dtype,
                  [&](Index i) { return begin + static_cast<double>(i) * step; });
}

Tensor linspace(double begin, double end, Integer n, DType dtype) {
  if (n < 1) fail("linspace", "n = {} must be at least 1", n);
  const double step = (end - begin) / static_cast<double>(n - 1);
  return sequence("linspace", n, dtype, [&](Index i) {
    return i == 0 ? begin : i == n - 1 ? end : begin + static_cast<double>(i) * step;
  });
}

Tensor eye(Integer n, DType dtype) {
  if (n < 0) fail("eye", "n = {} is negative", n);
  Tensor result = full({n, n}, 0, dtype);
  visit(dtype, [&](auto zero) {
    auto* to = result.mutable_data<decltype(zero)>();
    for (Index i = 0; i < n; ++i) to[i * (n + 1)] = 1;
  });
  return result;
}

Mask::Mask(Tensor values) : Tensor(std::move(values)) {
  if (!defined()) return;
  visit(dtype(), [&](auto zero) {
    const auto* x = data<decltype(zero)>();
    const auto* first = std::find_if(x, x + size(), [](auto v) { return (v != 0) & (v != 1); });
    if (first == x + size()) return;
    fail("mask", "{} must be 1 (takes part) or 0, but element {} is {}", shape(),
         element_name(shape(), first - x), *first);
  });
}

Tensor full(const Shape& shape, double value, DType dtype) {
  Tensor result = Tensor::uninitialized(shape, dtype, "full");
  fill(result, value);
  return result;
}

void fill(Tensor& x, double value) {
  require_defined("fill", x);
  visit(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* to = x.mutable_data<T>();
    const T element = converted<T>("fill", value);
    if (!is_floating(x.dtype()) && element != value)
      fail("fill", "{:g} does not fit in i32", value);
    parallel_ranges(x.size(), copy_tile / 4,
                    [&](Index begin, Index end) { std::fill_n(to + begin, end - begin, element); });
  });
}

void copy(const Tensor& from, Tensor& to) {
  require_defined("copy", from);
  require_same_dtype("copy", from, to);
  if (from.shape() != to.shape())
    fail("copy", "shapes differ: {} and {}", from.shape(), to.shape());
  if (is_exact_alias("copy", from, to)) return;
  const std::span source = bytes_of(from);
  const std::span target = mutable_bytes_of(to);
  parallel_ranges(std::ssize(source), copy_tile, [&](Index begin, Index end) {
    std::memcpy(target.data() + begin, source.data() + begin, end - begin);
  });
}

std::string describe(const Tensor& x) {
  return x.defined() ? fmt::format("{} {}", name_of(x.dtype()), to_string(x.shape())) : "undefined";
}

std::span<const std::byte> bytes_of(const Tensor& x) {
  return visit(x.dtype(), [&](auto zero) {
    return std::as_bytes(std::span(x.data<decltype(zero)>(), static_cast<std::size_t>(x.size())));
  });
}

std::span<std::byte> mutable_bytes_of(Tensor& x) {
  return visit(x.dtype(), [&](auto zero) {
    return std::as_writable_bytes(
        std::span(x.mutable_data<decltype(zero)>(), static_cast<std::size_t>(x.size())));
  });
}

void require_same_dtype(const char* operation, const Tensor& a, const Tensor& b) {
  if (a.defined() && b.defined() && a.dtype() == b.dtype()) return;
  fail(operation, "dtypes differ: {} and {}", describe(a), describe(b));
}

bool is_exact_alias(const char* operation, const Tensor& from, const Tensor& to) {
  const std::span x = bytes_of(from), y = bytes_of(to);
  if (x.data() >= y.data() + y.size() || y.data() >= x.data() + x.size()) return false;
  if (x.data() == y.data() && x.size() == y.size()) return true;
  fail(operation, "{} and {} overlap in memory", describe(from), describe(to));
}

void require_i32(const char* operation, const char* what, const Tensor& x) {
  if (x.defined() && x.dtype() == DType::i32) return;
  fail(operation, "{} must be i32: {}", what, describe(x));
}

void require_i32_indices(const char* operation, Integer n) {
  if (n > Index{1} << 31) fail(operation, "{} does not fit in i32", n - 1);
}

const std::int32_t* checked_ids(const char* operation, const std::string& what, const Tensor& x,
                                Index limit, Index least) {
  require_i32(operation, (what + "s").c_str(), x);
  const auto* number = x.data<std::int32_t>();
  for (Index i = 0; i < x.size(); ++i) {
    if (number[i] >= least && number[i] < limit) continue;
    fail(operation, "{} {} at {} is not in {} to {}", what, number[i], i, least, limit - 1);
  }
  return number;
}

void fail_not_floating(const char* operation, const Tensor& x) {
  require_defined(operation, x);
  fail(operation, "f32 or f64 was expected: " + describe(x));
}

}  // namespace attune
