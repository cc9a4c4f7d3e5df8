// Included before every source: features that Debian's emscripten (libc++ of 2021) lacks and the library or its tests use.
// These are std::ranges algorithms, std::bit_cast, std::from_chars for floating point, libhwy's target selection, and CPU
// affinity.
#pragma once

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <concepts>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <ranges>
#include <string>

#include <sched.h>
#include <unistd.h>

namespace std {

// std::ssize is a 32-bit number, an Index one of 64 bits.
template <integral A, integral B>
requires(!same_as<A, B>) constexpr common_type_t<A, B> min(A a, B b) { return a < b ? a : b; }
template <integral A, integral B>
requires(!same_as<A, B>) constexpr common_type_t<A, B> max(A a, B b) { return a < b ? b : a; }

template <class To, class From>
constexpr To bit_cast(const From& from) {
  return __builtin_bit_cast(To, from);
}

template <class T>
requires is_floating_point_v<T> from_chars_result from_chars(const char* begin, const char* end,
                                                             T& value) {
  const string text(begin, end);
  char* after;
  errno = 0;
  if (text.empty() || isspace(static_cast<unsigned char>(text[0])) || text[0] == '+')
    return {begin, errc::invalid_argument};
  value = static_cast<T>(strtod(text.c_str(), &after));
  if (after == text.c_str()) return {begin, errc::invalid_argument};
  return {begin + (after - text.c_str()), errno == ERANGE ? errc::result_out_of_range : errc()};
}

namespace ranges::detail {

/// Applies a comparison to projected elements.
template <class Compare, class Project>
auto projected(Compare& compare, Project& project) {
  return [&](const auto& a, const auto& b) {
    return invoke(compare, invoke(project, a), invoke(project, b));
  };
}

}  // namespace ranges::detail

namespace ranges {

// (range, predicate)
#define ATTUNE_OF_PREDICATE(name)                                                                 \
  template <class R, class P, class M = identity>                                                 \
  auto name(R&& r, P p, M m = {}) {                                                               \
    return std::name(r.begin(), r.end(), [&](const auto& x) { return invoke(p, invoke(m, x)); }); \
  }
ATTUNE_OF_PREDICATE(all_of)
ATTUNE_OF_PREDICATE(any_of)
ATTUNE_OF_PREDICATE(none_of)
ATTUNE_OF_PREDICATE(count_if)
ATTUNE_OF_PREDICATE(find_if)

// (range, comparison, projection)
#define ATTUNE_OF_ORDER(name)                                              \
  template <class R, class C = std::less<>, class P = identity>            \
  auto name(R&& r, C c = {}, P p = {}) {                                   \
    return std::name(std::begin(r), std::end(r), detail::projected(c, p)); \
  }
ATTUNE_OF_ORDER(sort)
ATTUNE_OF_ORDER(stable_sort)
ATTUNE_OF_ORDER(is_sorted)
ATTUNE_OF_ORDER(make_heap)
ATTUNE_OF_ORDER(push_heap)
ATTUNE_OF_ORDER(pop_heap)
ATTUNE_OF_ORDER(max_element)
ATTUNE_OF_ORDER(min_element)

template <class R, class T, class P = identity>
auto find(R&& r, const T& value, P p = {}) {
  return std::find_if(std::begin(r), std::end(r),
                      [&](const auto& x) { return invoke(p, x) == value; });
}
template <class R, class T, class C = std::less<>, class P = identity>
auto upper_bound(R&& r, const T& value, C c = {}, P p = {}) {
  return std::upper_bound(std::begin(r), std::end(r), value,
                          [&](const T& v, const auto& x) { return invoke(c, v, invoke(p, x)); });
}

template <class R, class O, class S, class T>
auto replace_copy(R&& r, O to, const S& from, const T& by) {
  using E = std::decay_t<decltype(*r.begin())>;
  return std::replace_copy(r.begin(), r.end(), to, static_cast<E>(from), static_cast<E>(by));
}

// (range, ...), without a projection
#define ATTUNE_OF_RANGE(name)                              \
  template <class R, class... More>                        \
  auto name(R&& r, const More&... more) {                  \
    return std::name(std::begin(r), std::end(r), more...); \
  }
ATTUNE_OF_RANGE(adjacent_find)
ATTUNE_OF_RANGE(binary_search)
ATTUNE_OF_RANGE(copy)
ATTUNE_OF_RANGE(copy_if)
ATTUNE_OF_RANGE(count)
ATTUNE_OF_RANGE(lower_bound)
ATTUNE_OF_RANGE(move)
ATTUNE_OF_RANGE(replace)
ATTUNE_OF_RANGE(reverse)
ATTUNE_OF_RANGE(transform)

// (range, range, ...)
#define ATTUNE_OF_RANGES(name)                                                         \
  template <class A, class B, class... More>                                           \
  auto name(A&& a, B&& b, const More&... more) {                                       \
    return std::name(std::begin(a), std::end(a), std::begin(b), std::end(b), more...); \
  }
ATTUNE_OF_RANGES(equal)
ATTUNE_OF_RANGES(set_union)
ATTUNE_OF_RANGES(is_permutation)
ATTUNE_OF_RANGES(set_intersection)

template <class R>
auto max(const R& r) {
  return *std::max_element(std::begin(r), std::end(r));
}
template <class R>
auto unique(R&& r) {
  return subrange(std::unique(std::begin(r), std::end(r)), std::end(r));
}
// (range, iterator, comparison)
#define ATTUNE_OF_MIDDLE(name)                        \
  template <class R, class I, class C>                \
  void name(R&& r, I middle, C c) {                   \
    std::name(std::begin(r), middle, std::end(r), c); \
  }
ATTUNE_OF_MIDDLE(nth_element)
ATTUNE_OF_MIDDLE(partial_sort)

template <class A, class B>
auto swap_ranges(A&& a, B&& b) {
  return std::swap_ranges(a.begin(), a.end(), b.begin());
}

}  // namespace ranges
}  // namespace std

namespace hwy {
inline std::int64_t SupportedTargets() { return std::int64_t{1} << 61; }  // HWY_EMU128
inline void DisableTargets(std::int64_t) {}
}  // namespace hwy

extern "C" {
inline int sched_getaffinity(pid_t, std::size_t, cpu_set_t*) { return -1; }
inline int sched_setaffinity(pid_t, std::size_t, const cpu_set_t*) { return -1; }
}
