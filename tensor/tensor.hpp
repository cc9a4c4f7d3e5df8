// The n-dimensional array: contiguous, row-major, reference counted.
#pragma once

#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <attune/tensor/buffer.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/shape.hpp>

namespace attune {

class Tensor;

namespace detail {

/// What the thread's running pullback belongs to: set while backward runs it, so that reading a
/// buffer which was overwritten since the forward pass is an error rather than a wrong gradient.
struct PullbackContext {
  const char* operation = nullptr;
  std::uint64_t recorded_at = 0;
};
[[gnu::tls_model("initial-exec")]] inline thread_local constinit PullbackContext pullback_context;

Buffer& buffer_of(const Tensor& x);
[[noreturn]] void fail_modified(const Shape& shape);
[[noreturn]] void fail_dtype(DType actual, DType wanted, const Shape& shape);

}  // namespace detail

/// A contiguous, row-major array of f32, f64 or i32. Copies share the elements; `clone` does not.
/// `x[t]`, `slice` and `reshape` are views: no element moves.
class Tensor {
 public:
  /// No tensor at all: `defined()` is false.
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  // `x[t] = y` would exchange a temporary view and change nothing, so it is deleted: see `copy`.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & = default;
  ~Tensor() = default;

  /// Elements are not initialised. Throws OutOfMemory: of the given operation, or of the one in
  /// whose visit_floating or pullback this is called.
  static Tensor uninitialized(const Shape& shape, DType dtype = DType::f32,
                              std::string_view operation = {});

  /// From values in row-major order; throws when their number is not the shape's size.
  template <class T, DType = dtype_of<T>>
  static Tensor of(const Shape& shape, std::span<const T> values);
  template <class T>
  static Tensor of(const Shape& shape, std::initializer_list<T> values) {
    return of(shape, std::span<const T>(values.begin(), values.size()));
  }

  bool defined() const { return static_cast<bool>(buffer_); }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  Index dim(int axis) const { return shape_[axis]; }
  Index size() const { return size_; }
  DType dtype() const { return dtype_; }

  /// The elements, to read; T must be the dtype's type.
  template <class T>
  const T* data() const {
    if (dtype_ != dtype_of<T> || !buffer_) detail::fail_dtype(dtype_, dtype_of<T>, shape_);
    const detail::PullbackContext& context = detail::pullback_context;
    if (context.operation &&
        buffer_->modified_at.load(std::memory_order_relaxed) > context.recorded_at &&
        buffer_->created_at <= context.recorded_at) {
      detail::fail_modified(shape_);
    }
    return reinterpret_cast<const T*>(buffer_->elements() + offset_);
  }

  /// The elements, to write. If a later backward needs the earlier contents of this buffer, it
  /// throws. After an operation has read the tensor, call this again before writing: an operation
  /// may keep what it computed from the elements (a packed matrix), and only this call invalidates
  /// that.
  template <class T>
  T* mutable_data() {
    if (dtype_ != dtype_of<T> || !buffer_) detail::fail_dtype(dtype_, dtype_of<T>, shape_);
    buffer_->modified_at.store(detail::write_stamp(), std::memory_order_relaxed);
    return reinterpret_cast<T*>(buffer_->elements() + offset_);
  }

  /// One element: `x.at<float>({t, -1})`; T must be the dtype's type. Negative indices count from the
  /// end. Throws when there is none.
  template <class T>
  T at(std::initializer_list<Index> place) const {
    return data<T>()[offset_of(place)];
  }
  /// The same, to write. For many elements take `mutable_data`.
  template <class T>
  T& mutable_at(std::initializer_list<Index> place) {
    return mutable_data<T>()[offset_of(place)];
  }

  /// The only element, as double; throws when there is not exactly one.
  double item() const;

  /// All elements, converted.
  template <class T, DType = dtype_of<T>>
  std::vector<T> to_vector() const;

  /// Row t of the outermost axis, from the end if negative: shape without that axis. A view.
  Tensor operator[](Index t) const;

  /// Rows begin to end (exclusive) of the outermost axis. A view.
  Tensor slice(Index begin, Index end) const;

  /// The same elements in another shape of the same size; one extent may be -1 (what is left over).
  Tensor reshape(const Shape& shape) const {
    return reshape(std::span(shape.begin(), shape.end()));
  }
  Tensor reshape(std::initializer_list<Index> extents) const {
    return reshape(std::span(extents.begin(), extents.size()));
  }
  Tensor reshape(std::span<const Index> extents) const;

  Tensor clone() const;
  Tensor to(DType dtype) const;

  /// True if this is the only owner of the buffer, which may then be overwritten.
  bool unique() const { return buffer_.unique(); }
  /// Both are views of one buffer.
  bool shares_buffer_with(const Tensor& other) const {
    return buffer_ && buffer_.operator->() == other.buffer_.operator->();
  }

 private:
  friend detail::Buffer& detail::buffer_of(const Tensor& x);
  Tensor(detail::Counted<detail::Buffer> buffer, Index size, const Shape& shape, DType dtype)
      : buffer_(std::move(buffer)), size_(size), shape_(shape), dtype_(dtype) {}
  Index offset_of(std::initializer_list<Index> place) const;

  detail::Counted<detail::Buffer> buffer_;
  std::size_t offset_ = 0;  // bytes from the buffer's first element
  Index size_ = 0;
  Shape shape_;
  DType dtype_ = DType::f32;
};

/// Which positions take part: 1 (takes part) or 0 at each, of any floating dtype or i32. A Tensor
/// becomes one without being asked, `{.mask = tensor}`, and is checked then, once: it throws when an
/// element is anything else, as a mask that is meant to be added (0 and -∞) would mean the opposite.
/// Operations rely on it. Undefined: all positions take part. Copies share the elements; what is
/// written into them later is not checked.
class Mask : public Tensor {
 public:
  Mask() = default;
  Mask(Tensor values);  // NOLINT: a mask is a value, implicitly

  /// Of values that are 1 and 0 by construction, such as rows of a mask.
  static Mask unchecked(Tensor values) {
    Mask mask;
    static_cast<Tensor&>(mask) = std::move(values);
    return mask;
  }
  Mask to(DType dtype) const { return defined() ? unchecked(Tensor::to(dtype)) : *this; }
};

/// Tensor and Var: one definition serves both where the operations in it exist for both.
template <class X>
concept Value = std::is_constructible_v<X, Tensor> && requires(const X& x) {
  { x.dtype() } -> std::same_as<DType>;
};

Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
inline Tensor zeros(const Shape& shape, DType dtype = DType::f32) { return full(shape, 0, dtype); }
inline Tensor ones(const Shape& shape, DType dtype = DType::f32) { return full(shape, 1, dtype); }
/// 0, 1, ... n - 1
Tensor arange(Index n, DType dtype = DType::i32);
/// begin, begin + step, ... up to, not including, end; step may be negative, not 0.
Tensor arange(double begin, double end, double step = 1, DType dtype = DType::i32);
/// n numbers from begin to end, both included, the same distance apart.
Tensor linspace(double begin, double end, Index n, DType dtype = DType::f32);
/// The identity matrix (n, n).
Tensor eye(Index n, DType dtype = DType::f32);
/// A scalar, shape ().
inline Tensor scalar(double value, DType dtype = DType::f32) { return full({}, value, dtype); }
/// Overwrites all elements.
void fill(Tensor& x, double value);
/// Overwrites all elements of `to` with those of `from`: same shape and dtype.
void copy(const Tensor& from, Tensor& to);

/// The elements as they lie in memory, whatever their type.
std::span<const std::byte> bytes_of(const Tensor& x);
std::span<std::byte> mutable_bytes_of(Tensor& x);

/// The dtype, the shape, and the elements with so many significant digits: rows on lines of their
/// own, columns aligned; of more than 1000 elements the first and last three along each axis.
/// A stream's precision sets the digits: std::cout << std::setprecision(3) << x.
std::string to_string(const Tensor& x, int digits = 6);
std::ostream& operator<<(std::ostream& out, const Tensor& x);

/// "f32 (2, 3)", or "undefined": a tensor in a message.
std::string describe(const Tensor& x);

/// Throws unless a and b have the same dtype.
void require_same_dtype(const char* operation, const Tensor& a, const Tensor& b);
/// Whether both are the same elements. Throws where they overlap in any other way, as an in-place
/// operation would then read elements that it has already written.
bool are_same_or_apart(const char* operation, const Tensor& from, const Tensor& to);
/// Throws unless the elements are i32, as the numbers of words, rows or classes are; `what` names
/// them in the message.
void require_i32(const char* operation, const char* what, const Tensor& x);
/// Throws unless the places 0 to n - 1 are numbers of i32.
void require_places_in_i32(const char* operation, Index n);
/// The elements. Throws unless they are i32 and in [least, limit); `what` is the noun for one of
/// them in the message ("id").
const std::int32_t* numbers_below(const char* operation, const std::string& what, const Tensor& x,
                                  Index limit, Index least = 0);
[[noreturn]] void fail_not_floating(const char* operation, const Tensor& x);

/// Throws, in the name of the operation, unless the elements are f32 or f64.
inline void require_floating(const char* operation, const Tensor& x) {
  if (!x.defined() || !is_floating(x.dtype())) fail_not_floating(operation, x);
}

/// Calls f with a zero of the tensor's element type, and with what follows f:
/// `visit_floating("tanh", x, [&](auto zero) {...})`. Throws an Error that names the operation when
/// the elements are i32, and when f finds no memory.
template <class F, class... More>
decltype(auto) visit_floating(const char* operation, const Tensor& x, F f, More... more) {
  require_floating(operation, x);
  try {
    return x.dtype() == DType::f32 ? f(0.0f, more...) : f(0.0, more...);
  } catch (const OutOfMemory& error) {
    error.throw_as(operation);
  }
}

namespace detail {
template <class T>
const T* elements(const Tensor& x) {
  return x.data<T>();
}
template <class T>
T* elements(Tensor& x) {
  return x.mutable_data<T>();
}
/// Of a tensor that may be undefined.
template <class T, class MaybeConst>
auto elements_or_null(MaybeConst& x) {
  return x.defined() ? elements<T>(x) : nullptr;
}
/// The same, in a tuple of tensors.
struct OrNull {
  const Tensor& x;
};
template <class T>
const T* elements(const OrNull& of) {
  return elements_or_null<T>(of.x);
}
}  // namespace detail

/// Calls f with pointers to the elements of several tensors, to write where a tensor is not const:
///     visit_elements("tanh", std::tie(x, y), [&]<class T>(const T* from, T* to) {...});
/// All have the dtype of the first one. Throws as visit_floating does.
template <class Tensors, class F>
decltype(auto) visit_elements(const char* operation, const Tensors& tensors, F f) {
  return visit_floating(operation, std::get<0>(tensors), [&](auto zero) {
    const auto pointers_of = [](auto&... x) {
      return std::tuple{detail::elements<decltype(zero)>(x)...};  // in their order
    };
    return std::apply(f, std::apply(pointers_of, tensors));
  });
}

}  // namespace attune
