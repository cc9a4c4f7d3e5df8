#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>

#include <attune/autograd/compositions.hpp>
#include <attune/autograd/reference.hpp>
#include <attune/tensor/fail.hpp>

namespace attune {

namespace {

/// n - correction. Throws if it is below 1.
double samples(const char* operation, const Shape& x, const Axes& axes, Index correction) {
  const Index n = reduced_size(x, axes) - correction;
  if (n <= 0) fail(operation, "{} with correction {} has too few elements", x, correction);
  return static_cast<double>(n);
}

/// j - i for the elements (i, j) of the last two axes (M, N).
Tensor diagonal_numbers(const char* operation, const Shape& x) {
  if (x.rank() < 2) fail(operation, "two axes were expected: {}", x);
  return arange(x[-1], DType::f64) - arange(x[-2], DType::f64).reshape({x[-2], 1});
}

}  // namespace

template <class A, Value X>
X var(const A& x, const Axes& axes, KeepAxes keep, Integer correction) {
  const double n = samples("var", x.shape(), axes, correction);
  return sum(square(reference::centred<X>(x, axes)), axes, keep) / n;
}

template <class A, Value X>
X std(const A& x, const Axes& axes, KeepAxes keep, Integer correction) {
  const double n = samples("std", x.shape(), axes, correction);
  return norm(reference::centred<X>(x, axes), axes, keep) /
         ::sqrt(n);  // norm's squares neither overflow nor underflow
}

template <class A, Value X>
X maxout(const A& x) {
  if (x.rank() == 0 || x.dim(-1) % 2 != 0)
    fail("maxout", "the last axis of {} does not divide into pairs", x.shape());
  const Index half = x.dim(-1) / 2;
  return maximum(slice(x, -1, 0, half), slice(x, -1, half, 2 * half));
}

template <class A, Value X>
X squeeze(const A& x, Integer axis) {
  if (x.dim(x.shape().axis(axis, "squeeze")) != 1)
    fail("squeeze", "the extent of axis {} of {} is not 1", axis, x.shape());
  return reshape(x, x.shape().without(axis));
}

template <class A, Value X>
X unsqueeze(const A& x, Integer axis) {
  return reshape(x, x.shape().inserted(axis, 1));
}

template <class A, Value X>
std::vector<X> split(const A& x, std::span<const Index> sizes, Integer axis) {
  const Index extent = x.dim(x.shape().axis(axis, "split"));
  const bool none_negative = std::ranges::all_of(sizes, [](Index size) { return size >= 0; });
  if (!none_negative || std::accumulate(sizes.begin(), sizes.end(), Index{0}) != extent)
    fail("split", "the extent of axis {} of {} is not {}", axis, x.shape(),
         fmt::join(sizes, " + "));
  std::vector<X> parts;
  Index begin = 0;
  for (const Index size : sizes) {
    parts.push_back(slice(x, axis, begin, begin + size));
    begin += size;
  }
  return parts;
}

template <class A, Value X>
std::vector<X> chunk(const A& x, Integer n, Integer axis) {
  const Index extent = x.dim(x.shape().axis(axis, "chunk"));
  if (n < 1) fail("chunk", "n = {} is not positive", n);
  const Index size = std::max<Index>(1, ceil_div(extent, n));
  std::vector<Index> sizes(extent == 0 ? Index{n} : extent / size, std::min(size, extent));
  if (extent % size != 0) sizes.push_back(extent % size);
  return split(x, sizes, axis);
}

template <class A, Value X>
X flip(const A& x, const Axes& axes) {
  const auto chosen = chosen_axes("flip", x.shape(), axes);
  X y = x;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const auto n = static_cast<double>(x.dim(axis));
    if (chosen[axis]) y = gather(y, arange(n - 1, -1, -1), axis);
  }
  return y;
}

template <class A, Value X>
X roll(const A& x, Integer shift, Integer axis) {
  const Index n = x.dim(x.shape().axis(axis, "roll"));
  if (n == 0) return x;
  const Index end = n - ((shift % n) + n) % n;
  return concat({slice(x, axis, end, n), slice(x, axis, 0, end)}, axis);
}

template <class A, Value X>
X repeat(const A& x, Integer n, Integer axis) {
  if (n < 0) fail("repeat", "n = {} is negative", n);
  const Index extent = x.dim(x.shape().axis(axis, "repeat"));
  const Tensor ids = broadcast_to(arange(extent).reshape({extent, 1}), {extent, n});
  return gather(x, ids.reshape({-1}), axis);
}

template <class A, Value X>
X tril(const A& x, Integer k) {
  return where(diagonal_numbers("tril", x.shape()) <= static_cast<double>(k), x, 0.0);
}

template <class A, Value X>
X triu(const A& x, Integer k) {
  return where(diagonal_numbers("triu", x.shape()) >= static_cast<double>(k), x, 0.0);
}

template <class A, Value X>
X take_along_axis(const A& x, const Tensor& ids, Integer axis) {
  return gather(reshape(x, {-1}), flat_indices_along_axis(x.shape(), ids, axis));
}

template <class A, Value X>
X masked_select(const A& x, const Mask& mask) {
  const Tensor flat =
      broadcast_to(mask.defined() ? Tensor(mask) : ones({}), x.shape()).reshape({-1});
  return gather(reshape(x, {-1}), nonzero(flat).reshape({-1}));
}

template <class A, Value X>
Sorted<X> sort(const A& x, Integer axis, Order order) {
  const Index n = x.dim(x.shape().axis(axis, "sort"));
  const Tensor indices = argsort(Var(x).value(), n, axis, order, "sort");
  return {take_along_axis(x, indices, axis), indices};
}

template <class A, Value X>
Sorted<X> topk(const A& x, Integer k, Integer axis) {
  const Tensor indices = argsort(Var(x).value(), k, axis, Order::descending, "topk");
  return {take_along_axis(x, indices, axis), indices};
}

template <class A, Value X>
X segment_sum(const A& x, const Tensor& segments, Integer n) {
  return scatter_add(X(zeros(x.shape().with(0, n), x.dtype())), segments, x);
}

template <class A, Value X>
X segment_max(const A& x, const Tensor& segments, Integer n) {
  const Tensor rows = segment_argmax(Var(x).value(), segments, n);
  if (x.size() == 0) return full(rows.shape(), -std::numeric_limits<double>::infinity(), x.dtype());
  return where(rows >= 0, take_along_axis(x, maximum(rows, 0.0), 0),
               -std::numeric_limits<double>::infinity());
}

template <class A, Value X>
X segment_softmax(const A& x, const Tensor& segments, Integer n) {
  const Tensor largest = gather(segment_max(Var(x).value(), segments, n), segments);
  const X e = exp(x - X(where(isfinite(largest), largest, 0.0)));
  const X total = segment_sum(e, segments, n);  // 0 for a segment of only -∞
  return e / gather(where(total == 0, 1.0, total), segments);
}

namespace {

/// An operand of einsum, and one letter for each of its axes.
template <class X>
struct Labelled {
  X x;
  std::string labels;

  bool has(char label) const { return labels.find(label) != std::string::npos; }
  Index extent(char label) const { return x.dim(static_cast<int>(labels.find(label))); }
  /// Permutes the axes into this order, and joins them into groups whose extents are products.
  X arranged(std::initializer_list<std::string> groups) const {
    std::vector<int> order;
    std::vector<Index> extents;
    for (const std::string& group : groups) {
      Index& extent = extents.emplace_back(1);
      for (const char label : group) {
        order.push_back(static_cast<int>(labels.find(label)));
        extent *= x.dim(order.back());
      }
    }
    return reshape(permute(x, order), Shape(extents));
  }
};

/// The operand with each letter once: diagonals are taken of axes with the same letter.
template <class X>
Labelled<X> diagonal(Labelled<X> of, const std::string& equation) {
  for (std::size_t i = 0; i < of.labels.size(); ++i) {
    const std::size_t j = of.labels.find(of.labels[i], i + 1);
    if (j == std::string::npos) continue;
    const int a = static_cast<int>(i), b = static_cast<int>(j);
    const Index n = of.x.dim(a);
    if (of.x.dim(b) != n)
      fail("einsum", "'{}': axes {} and {} of {} differ", equation, a, b, of.x.shape());
    std::vector<int> order{a, b};
    for (int axis = 0; axis < of.x.rank(); ++axis)
      if (axis != a && axis != b) order.push_back(axis);
    const X pairs = permute(of.x, order);
    const std::string rest = std::string(of.labels).erase(j, 1).erase(i, 1);
    const auto end = static_cast<double>(n * n), step = static_cast<double>(n + 1);
    return diagonal<X>({gather(reshape(pairs, pairs.shape().without(0).with(0, n * n)),
                               n == 0 ? arange(0) : arange(0, end, step)),
                        of.labels[i] + rest},
                       equation);
  }
  return of;
}

/// Sums over the letters that are not in `needed`.
template <class X>
Labelled<X> summed(const Labelled<X>& of, const std::string& needed) {
  std::vector<int> axes;
  std::string left;
  for (std::size_t i = 0; i < of.labels.size(); ++i) {
    const bool stays = needed.find(of.labels[i]) != std::string::npos;
    if (!stays) axes.push_back(static_cast<int>(i));
    if (stays) left += of.labels[i];
  }
  return {axes.empty() ? of.x : sum(of.x, axes), left};
}

/// The product of two operands, summed over the letters that are not in `needed`.
template <class X>
Labelled<X> contracted(const Labelled<X>& a, const Labelled<X>& b, const std::string& needed,
                       const std::string& equation) {
  const auto fitted = [&](const Labelled<X>& of, const Labelled<X>& other) {
    std::string kept = needed + other.labels;  // without axes of extent 1 that broadcast
    std::erase_if(kept, [&](char label) {
      return of.has(label) && other.has(label) && of.extent(label) == 1 && other.extent(label) != 1;
    });
    return summed(of, kept);
  };
  const Labelled<X> left = fitted(a, b), right = fitted(b, a);
  std::string batch, of_left, shared, of_right;
  for (const char label : left.labels) {
    const bool later = needed.find(label) != std::string::npos;
    (!right.has(label) ? of_left : later ? batch : shared) += label;
    if (right.has(label) && left.extent(label) != right.extent(label))
      fail("einsum", "'{}': {} is {} in {} and {} in {}", equation,
           label < 'A' ? "'...'" : std::string(1, label), left.extent(label), a.x.shape(),
           right.extent(label), b.x.shape());
  }
  std::vector<Index> extents;
  for (const char label : batch + of_left) extents.push_back(left.extent(label));
  for (const char label : right.labels) {
    if (left.has(label)) continue;
    of_right += label;
    extents.push_back(right.extent(label));
  }
  const X product = batched_matmul(left.arranged({batch, of_left, shared}),
                                   right.arranged({batch, shared, of_right}));
  return {reshape(product, Shape(extents)), batch + of_left + of_right};
}

/// "ij,jk->ik" -> {"ij", "jk", "ik"}. "..." becomes digits: 0 is the last axis, 1 the one before.
std::vector<std::string> letters_of(const std::string& equation, const std::vector<int>& ranks) {
  constexpr char others = '\1';  // instead of "..."
  std::string text = equation;
  std::erase(text, ' ');
  for (std::size_t at; (at = text.find("...")) != std::string::npos;)
    text.replace(at, 3, 1, others);
  const std::size_t arrow = text.find("->");
  std::vector<std::string> all{""};
  for (const char c : text.substr(0, arrow))
    c == ',' ? static_cast<void>(all.emplace_back()) : all.back().push_back(c);
  if (all.size() != ranks.size())
    fail("einsum", "'{}' has {} operands, {} were given", equation, all.size(), ranks.size());
  std::string result(std::ranges::count(text, others) > 0, others);
  if (arrow != std::string::npos) {
    result = text.substr(arrow + 2);
  } else {
    for (const char c : text)
      if (c != ',' && c != others && std::ranges::count(text, c) == 1) result += c;
    std::ranges::sort(result);
  }
  all.push_back(result);
  std::string most;  // digits of an operand
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const char c : all[i]) {
      if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c != others)
        fail("einsum", "'{}': letters, ',', '...' and '->' were expected, not '{}'", equation, c);
    }
    const std::size_t at = all[i].find(others);
    if (at == std::string::npos) continue;
    const Index axes = i < ranks.size() ? ranks[i] + 1 - std::ssize(all[i]) : std::ssize(most);
    all[i].replace(at, 1, std::string("543210").substr(std::clamp<Index>(6 - axes, 0, 6)));
    most = std::max(most, all[i].substr(at, std::max<Index>(0, axes)));
    if (all[i].find(others) != std::string::npos)
      fail("einsum", "'{}': '...' occurs twice", equation);
  }
  return all;
}

}  // namespace

template <class A, Value X>
X einsum(const std::string& equation, const std::vector<A>& operands) {
  std::vector<int> ranks;
  for (const A& operand : operands) ranks.push_back(operand.rank());
  const std::vector<std::string> letters = letters_of(equation, ranks);
  const std::string& result = letters.back();
  std::vector<Labelled<X>> all;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].rank() != std::ssize(letters[i]))
      fail("einsum", "'{}': operand {} is {}", equation, i, operands[i].shape());
    all.push_back(diagonal<X>({operands[i], letters[i]}, equation));
  }
  Labelled<X> product = all[0];
  for (std::size_t i = 1; i < all.size(); ++i) {
    std::string needed = result;
    for (std::size_t later = i + 1; later < all.size(); ++later) needed += all[later].labels;
    product = contracted(product, all[i], needed, equation);
  }
  product = summed(product, result);
  std::vector<int> order;
  for (const char label : result) {
    if (!product.has(label) || std::ranges::count(result, label) > 1)
      fail("einsum",
           "'{}': letter {} of the result must occur in an operand, and once in the result",
           equation, label);
    order.push_back(static_cast<int>(product.labels.find(label)));
  }
  return permute(product.x, order);
}

#define ATTUNE_INSTANTIATE(A, X)                                            \
  template X var(const A&, const Axes&, KeepAxes, Integer);                 \
  template X std(const A&, const Axes&, KeepAxes, Integer);                 \
  template X maxout(const A&);                                              \
  template X squeeze(const A&, Integer);                                    \
  template X unsqueeze(const A&, Integer);                                  \
  template std::vector<X> split(const A&, std::span<const Index>, Integer); \
  template std::vector<X> chunk(const A&, Integer, Integer);                \
  template X flip(const A&, const Axes&);                                   \
  template X roll(const A&, Integer, Integer);                              \
  template X repeat(const A&, Integer, Integer);                            \
  template X tril(const A&, Integer);                                       \
  template X triu(const A&, Integer);                                       \
  template X take_along_axis(const A&, const Tensor&, Integer);             \
  template X masked_select(const A&, const Mask&);                          \
  template Sorted<X> sort(const A&, Integer, Order);                        \
  template Sorted<X> topk(const A&, Integer, Integer);                      \
  template X segment_sum(const A&, const Tensor&, Integer);                 \
  template X segment_max(const A&, const Tensor&, Integer);                 \
  template X segment_softmax(const A&, const Tensor&, Integer);             \
  template X einsum(const std::string&, const std::vector<A>&);
ATTUNE_INSTANTIATE(Tensor, Tensor)
ATTUNE_INSTANTIATE(Var, Var)
ATTUNE_INSTANTIATE(Mask, Tensor)

}  // namespace attune
