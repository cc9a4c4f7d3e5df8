// The n-dimensional array: contiguous, row-major, reference counted.
#pragma once

#include <concepts>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <attune/tensor/buffer.hpp>
#include <attune/tensor/errors.hpp>
#include <attune/tensor/shape.hpp>
#include <attune/tensor/thread_state.hpp>

namespace attune {

class Tensor;

namespace detail {

Buffer& buffer_of(const Tensor& x);
[[noreturn]] void fail_modified(const Shape& shape);
[[noreturn]] void fail_dtype(DType actual, DType wanted, const Shape& shape);

}  // namespace detail

/// A contiguous, row-major array of f32, f64 or i32. Copies of a Tensor share the elements; `clone`
/// copies the elements. `x[t]`, `slice` and `reshape` return views: they copy no elements.
class Tensor {
 public:
  /// An undefined tensor: `defined()` is false.
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  // `x[t] = y` would assign to a temporary view and change nothing: it does not
  // compile. See `copy`.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & = default;
  ~Tensor() = default;

  /// Allocates without initialising the elements. Throws OutOfMemory, which names `operation`. If
  /// `operation` is empty, the enclosing visit_floating or backward catches the error and adds its
  /// own name.
  static Tensor uninitialized(const Shape& shape, DType dtype = DType::f32,
                              std::string_view operation = {});

  /// A tensor of these values in row-major order. Throws if their number is not the shape's size.
  template <class T, DType = dtype_of<T>>
  static Tensor of(const Shape& shape, std::span<const T> values);
  template <class T>
  static Tensor of(const Shape& shape, std::initializer_list<T> values) {
    return of(shape, std::span<const T>(values.begin(), values.size()));
  }

  bool defined() const { return static_cast<bool>(buffer_); }
  const Shape& shape() const& { return shape_; }
  Shape shape() const&& { return shape_; }
  int rank() const { return shape_.rank(); }
  Index dim(Integer axis) const { return shape_[axis]; }
  Index size() const { return buffer_ ? shape_.size() : 0; }
  DType dtype() const { return dtype_; }

  /// Read access to the elements. Throws unless T is the element type.
  template <class T>
  const T* data() const& {
    if (dtype_ != dtype_of<T> || !buffer_) detail::fail_dtype(dtype_, dtype_of<T>, shape_);
    const detail::PullbackContext& context = detail::thread_state.pullback;
    if (context.operation &&
        buffer_->modified_at.load(std::memory_order_relaxed) > context.recorded_at &&
        buffer_->created_at <= context.recorded_at) {
      detail::fail_modified(shape_);
    }
    return reinterpret_cast<const T*>(buffer_->elements() + offset_);
  }
  template <class T>
  const T* data() const&& = delete;  // keep the Tensor in a variable

  /// Write access to the elements. Throws unless T is the element type. The call marks the buffer
  /// as modified: a later backward throws if it needs the earlier contents, and cached results
  /// (packed matrices) become invalid. Call it again before writing if an operation has read the
  /// tensor since the last call; writes through the old pointer would not be noticed.
  template <class T>
  T* mutable_data() & {
    if (dtype_ != dtype_of<T> || !buffer_) detail::fail_dtype(dtype_, dtype_of<T>, shape_);
    buffer_->modified_at.store(detail::write_stamp(), std::memory_order_relaxed);
    return reinterpret_cast<T*>(buffer_->elements() + offset_);
  }

  /// One element: `x.at<float>({t, -1})`; T must be the element type. Negative indices count from
  /// the end. Throws if there are not as many indices as axes, or if one is out of range.
  template <class T>
  T at(std::initializer_list<Integer> index) const {
    return data<T>()[offset_of(index)];
  }
  /// Write access to one element. For many elements use `mutable_data`.
  template <class T>
  T& mutable_at(std::initializer_list<Integer> index) & {
    return mutable_data<T>()[offset_of(index)];
  }

  /// The only element, as double. Throws unless the tensor has exactly one element.
  double item() const;

  /// All elements in row-major order, converted to T.
  template <class T, DType = dtype_of<T>>
  std::vector<T> to_vector() const;

  /// View of index t of axis 0, without that axis. Negative t counts from the end. Throws if t is
  /// out of range.
  Tensor operator[](Integer t) const;

  /// View of the indices [begin, end) of axis 0. Throws unless 0 <= begin <= end <= dim(0).
  Tensor slice(Integer begin, Integer end) const;

  /// View in another shape of the same size. One extent may be -1: it is computed from the others.
  Tensor reshape(std::initializer_list<Integer> extents) const {
    return reshape(Integer::list(extents));
  }
  Tensor reshape(const Shape& shape) const {
    return reshape(std::span<const Index>(shape.begin(), shape.end()));
  }
  Tensor reshape(std::span<const Index> extents) const;

  /// A copy with a buffer of its own.
  Tensor clone() const;
  /// Converts the elements; to i32 truncates towards zero, and throws for NaN and out of range. If
  /// the dtype is equal, shares the elements instead of copying.
  Tensor to(DType dtype) const;

  /// True if this is the only owner of the buffer, which may then be overwritten.
  bool unique() const { return buffer_.unique(); }
  /// True if both are views of the same buffer.
  bool shares_buffer_with(const Tensor& other) const {
    return buffer_ && buffer_.operator->() == other.buffer_.operator->();
  }

 private:
  friend detail::Buffer& detail::buffer_of(const Tensor& x);
  Tensor(detail::IntrusivePtr<detail::Buffer> buffer, const Shape& shape, DType dtype)
      : buffer_(std::move(buffer)), shape_(shape), dtype_(dtype) {}
  Index offset_of(std::initializer_list<Integer> index) const;

  detail::IntrusivePtr<detail::Buffer> buffer_;
  std::size_t offset_ = 0;  // bytes from the buffer's first element
  [[no_unique_address]] Shape shape_;
  DType dtype_ = DType::f32;
};

/// A mask: 1 at positions that take part, 0 at the others, of any dtype. A Tensor converts
/// implicitly, `{.mask = tensor}`. The conversion throws if an element is neither 0 nor 1, for
/// example in an additive mask of 0 and -∞; operations do not check again. Copies share the
/// elements. Later writes are not checked. If an optional mask is undefined, all take part.
class Mask : public Tensor {
 public:
  Mask() = default;
  Mask(Tensor values);  // NOLINT: implicit conversion

  /// Skips the check. For values that are 0 or 1 by construction, such as rows of a mask.
  static Mask unchecked(Tensor values) {
    Mask mask;
    static_cast<Tensor&>(mask) = std::move(values);
    return mask;
  }
  Mask to(DType dtype) const { return defined() ? unchecked(Tensor::to(dtype)) : *this; }
};

/// Tensor or Var. A template over Value serves both types.
template <class X>
concept Value =
    std::is_constructible_v<X, Tensor> && !std::same_as<X, Mask> && requires(const X& x) {
  { x.dtype() } -> std::same_as<DType>;
};

/// The Value of an argument A of such a template: a Mask counts as a Tensor.
template <class A>
using ValueOf = std::conditional_t<std::same_as<A, Mask>, Tensor, A>;

Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
inline Tensor zeros(const Shape& shape, DType dtype = DType::f32) { return full(shape, 0, dtype); }
inline Tensor ones(const Shape& shape, DType dtype = DType::f32) { return full(shape, 1, dtype); }
/// 0, 1, ... n - 1
Tensor arange(Integer n, DType dtype = DType::i32);
/// begin, begin + step, ... up to, but not including, end. step may be negative. Throws if it is 0.
Tensor arange(double begin, double end, double step = 1, DType dtype = DType::i32);
/// n evenly spaced numbers from begin to end, both included. Throws unless n >= 1.
Tensor linspace(double begin, double end, Integer n, DType dtype = DType::f32);
/// The identity matrix (n, n).
Tensor eye(Integer n, DType dtype = DType::f32);
/// A scalar, shape ().
inline Tensor scalar(double value, DType dtype = DType::f32) { return full({}, value, dtype); }
/// The same in the shape and dtype of x, a Tensor or Var.
Tensor full_like(const auto& x, double value) { return full(x.shape(), value, x.dtype()); }
Tensor zeros_like(const auto& x) { return full_like(x, 0); }
Tensor ones_like(const auto& x) { return full_like(x, 1); }
/// Sets all elements to `value`. Throws if x is i32 and the value does not fit in i32.
void fill(Tensor& x, double value);
/// Copies all elements of `from` to `to`. Throws unless both have the same shape and dtype.
void copy(const Tensor& from, Tensor& to);

/// The memory of the elements, in the machine's byte order.
std::span<const std::byte> bytes_of(const Tensor& x);
std::span<const std::byte> bytes_of(const Tensor&& x) = delete;  // keep the Tensor in a variable
std::span<std::byte> mutable_bytes_of(Tensor& x);

/// The dtype and shape for a message: "f32 (2, 3)", or "undefined".
std::string describe(const Tensor& x);

/// x converted to i32. Throws if an element does not fit in i32, such as 0.5 or 2^31.
Tensor to_i32(const char* operation, const Tensor& x);

/// Throws unless a and b have the same dtype.
void require_same_dtype(const char* operation, const Tensor& a, const Tensor& b);
/// True if `from` and `to` have the same memory, false if their memory is disjoint. Throws if they
/// overlap partially: an in-place operation would read elements that it has already overwritten.
[[nodiscard]] bool is_exact_alias(const char* operation, const Tensor& from, const Tensor& to);
/// Throws if `from` and `to` overlap partially.
inline void require_no_partial_overlap(const char* operation, const Tensor& from,
                                       const Tensor& to) {
  static_cast<void>(is_exact_alias(operation, from, to));
}
/// Throws unless the elements are i32, as ids and indices must be; `what` names them in the error.
void require_i32(const char* operation, const char* what, const Tensor& x);
/// Throws unless the indices 0 to n - 1 fit in i32.
void require_i32_indices(const char* operation, Integer n);
/// The elements of x, checked: throws unless they are i32 and in [least, limit). `what` is the noun
/// for one element in the message ("id").
const std::int32_t* checked_ids(const char* operation, const std::string& what, const Tensor& x,
                                Index limit, Index least = 0);
const std::int32_t* checked_ids(const char*, const std::string&, const Tensor&&, Index,
                                Index = 0) = delete;
[[noreturn]] void fail_not_floating(const char* operation, const Tensor& x);

/// Throws an Error that begins with `operation` unless the elements are f32 or f64.
inline void require_floating(const char* operation, const Tensor& x) {
  if (!x.defined() || !is_floating(x.dtype())) fail_not_floating(operation, x);
}

}  // namespace attune
