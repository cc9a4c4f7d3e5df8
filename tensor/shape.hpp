// Element types and shapes of tensors.
#pragma once

// One clear message if the compiler does not use C++20, instead of hundreds of errors.
#if __cplusplus < 202002L
#error "attune needs C++20: compile with -std=c++20, by g++ 12 or clang 14 or newer ones"
#include <attune/stop>  // This file does not exist: the compiler stops here.
#endif

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace attune {

/// Extents, indices and counts.
using Index = std::int64_t;

/// Arguments that C++ would convert to an integer silently.
template <class T>
concept FractionOrBool = std::floating_point<T> || std::same_as<T, bool>;

/// An argument that is an extent, an index, an axis or a count; fractions and bools do not compile.
class Integer {
 public:
  constexpr Integer(Index value) : value_(value) {}  // NOLINT: implicit conversion
  Integer(FractionOrBool auto) = delete;
  constexpr operator Index() const { return value_; }  // NOLINT: implicit conversion
  static std::span<const Index> list(std::initializer_list<Integer> of) {
    return {reinterpret_cast<const Index*>(of.begin()), of.size()};
  }

 private:
  Index value_;
};

/// n / divisor, rounded up; for n >= 0 and divisor >= 1.
constexpr Index ceil_div(Integer n, Integer divisor) { return (n + divisor - 1) / divisor; }

/// The element type of a tensor, known at run time.
enum class DType : std::uint8_t { f32, f64, i32 };

constexpr std::size_t size_of(DType dtype) { return dtype == DType::f64 ? 8 : 4; }

constexpr const char* name_of(DType dtype) {
  return dtype == DType::f32 ? "f32" : dtype == DType::f64 ? "f64" : "i32";
}

constexpr bool is_floating(DType dtype) { return dtype != DType::i32; }

namespace detail {
template <class T>
constexpr DType dtype_for() {
  constexpr bool is_f32 = std::is_same_v<T, float>, is_f64 = std::is_same_v<T, double>;
  static_assert(is_f32 || is_f64 || std::is_same_v<T, std::int32_t>,
                "elements of a Tensor are float, double or std::int32_t");
  return is_f32 ? DType::f32 : is_f64 ? DType::f64 : DType::i32;
}
}  // namespace detail

/// The DType of float, double or std::int32_t; any other T does not compile. Convert 64-bit
/// integers and booleans to std::int32_t first: ids are i32, and masks are 0 and 1 of any dtype.
template <class T>
inline constexpr DType dtype_of = detail::dtype_for<T>();

/// The extents of a tensor, outermost axis first. At most `max_rank` axes. Throws if an extent is
/// negative, or if the product of the nonzero extents exceeds 2^59: sizes in bytes never overflow.
class Shape {
 public:
  static constexpr int max_rank = 6;

  Shape() = default;
  Shape(std::initializer_list<Integer> extents) : Shape(Integer::list(extents)) {}
  /// Replaces an extent of -1 by `open`.
  explicit Shape(std::span<const Index> extents, Index open = -1);

  int rank() const { return rank_; }
  Index size() const {
    const auto& e = extents_;
    return (e[0] * e[1]) * (e[2] * e[3]) * (e[4] * e[5]);
  }

  /// Extent of an axis; a negative axis counts from the end. Throws if the axis does not exist.
  Index operator[](Integer axis) const { return begin()[this->axis(axis)]; }

  /// The axis counted from 0: axis(-1) is rank() - 1. Throws if it does not exist.
  int axis(Integer axis, const char* operation = "shape") const {
    const Index from_start = axis + (axis < 0 ? rank_ : 0);
    if (from_start < 0 || from_start >= rank_) [[unlikely]]
      fail_axis(axis, operation);
    return static_cast<int>(from_start);
  }

  const Index* begin() const& { return extents_.data(); }
  const Index* end() const& { return extents_.data() + rank_; }
  const Index* begin() const&& = delete;  // would point into a temporary
  const Index* end() const&& = delete;

  /// A copy with another extent (`with`), without an axis, or with an axis inserted before `axis`.
  Shape with(Integer axis, Integer extent) const {
    Shape result = *this;
    result.extents_[static_cast<std::size_t>(this->axis(axis))] = extent;
    result.check_extents();
    return result;
  }
  Shape without(Integer axis) const;
  Shape inserted(Integer axis, Integer extent) const;

  /// True if the last extents of this shape are those of `other`.
  bool ends_with(const Shape& other) const {
    return other.rank_ <= rank_ && std::equal(other.begin(), other.end(), end() - other.rank_);
  }

  /// Product of the extents of the axes [begin, end).
  Index product(Integer begin, Integer end) const {
    Index n = 1;
    for (Index i = begin; i < end; ++i) n *= extents_[static_cast<std::size_t>(i)];
    return n;
  }

  // Compares all extents: those beyond the rank are 1. Faster than the call of memcmp that the
  // compiler would generate.
  friend bool operator==(const Shape& a, const Shape& b) {
    Index differences = a.rank_ ^ b.rank_;
    for (std::size_t i = 0; i < max_rank; ++i) differences |= a.extents_[i] ^ b.extents_[i];
    return differences == 0;
  }

 private:
  void check_extents() const {
    Index bits = 0;
    for (const Index extent : extents_) bits |= extent;
    if (static_cast<std::uint64_t>(bits) >> 9) check_size();  // six extents < 2^9: at most 2^54
  }
  void check_size() const;
  [[noreturn]] void fail_axis(Index axis, const char* operation) const;

  std::array<Index, max_rank> extents_{1, 1, 1, 1, 1, 1};
  std::int8_t rank_ = 0;  // small: classes that contain a Shape store other members behind it
};

namespace detail {
/// The linker does not find it if -D_GLIBCXX_DEBUG or another flag gives the program other classes
/// of the standard library than the library has. Such a program would crash.
void flags_like_D_GLIBCXX_DEBUG_must_match_the_library(std::vector<int>, std::string);
[[gnu::used]] inline void (*const same_flags)(std::vector<int>, std::string) =
    flags_like_D_GLIBCXX_DEBUG_must_match_the_library;
}  // namespace detail

/// "(3, 4)"; "()" for a scalar.
std::string to_string(const Shape& shape);
std::string to_string(std::span<const Index> extents);
std::ostream& operator<<(std::ostream& out, const Shape& shape);

/// The index of element `number` in row-major order; and the same as text, "(0, 3)".
std::array<Index, Shape::max_rank> element_index(const Shape& shape, Integer number);
std::string element_name(const Shape& shape, Integer number);

/// The shape of `a op b` under NumPy's broadcasting rule: axes are aligned at the end, and extents
/// must agree or be 1. Throws an Error that names `operation`.
Shape broadcast(const char* operation, const Shape& a, const Shape& b);

}  // namespace attune

template <>  // Shape::size is the product of the extents, not their number
inline constexpr bool std::ranges::disable_sized_range<attune::Shape> = true;
