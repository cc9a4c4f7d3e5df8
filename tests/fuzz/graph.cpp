// Graphs of random operations on random shapes. An operation throws a one-line Error, or:
//
//   * its result has the same bits with and without recording, and with one and two threads;
//   * gradients have the shapes of their variables and the same bits in every run, also if only some
//     are computed; in smooth graphs they agree with central differences;
//   * if a value is overwritten in place, backward throws or its gradients do not change.
#include <algorithm>
#include <cmath>
#include <map>

#include <attune/autograd/backward.hpp>
#include <attune/tensor/buffer.hpp>
#include <attune/tensor/threads.hpp>

#include "fuzz.hpp"
#include "support/op_cases.hpp"

namespace {

using namespace attune;
using fuzz::expect;
using Vars = std::vector<Var>;
using Tensors = std::vector<Tensor>;

/// The kind of the leaves' values.
enum class Leaves { smooth, hostile, large };

constexpr std::size_t most_values = 24;

struct Graph {
  Leaves leaves;
  DType dtype;
  std::vector<Shape> shapes;
  std::string_view program;
  /// Which results the first run kept. Later runs, with other values, keep the same results.
  std::vector<bool> kept = {};
  std::string text = {};
};

struct Run {
  Vars variables, values;  // values of other dtypes than the graph's are constants
  bool probed = false;     // adds a zero variable to each result, to get the result's gradient
};

double largest(const Tensor& x) {
  double m = 0;
  for (const double v : x.to_vector<double>()) m = v != v ? v : std::max(m, std::abs(v));
  return m;
}

/// True if later operations may use the result: it is not too large.
bool is_wanted(const Graph& g, const Var& y) {
  if (y.size() > (g.leaves == Leaves::large ? 100'000 : 2'000)) return false;
  return g.leaves != Leaves::smooth || largest(y.value()) < 100;  // false for NaN
}

/// Chooses the inputs of operations from the values computed so far.
class Operands {
 public:
  Operands(fuzz::Choices& choices, const Vars& values, DType dtype)
      : choices_(choices), values_(values), dtype_(dtype) {}

  /// Inputs of the shapes in the list of operations, with a random extent for each letter; or
  /// values of any shape.
  Vars of(const OpCase& op) {
    const bool any_shapes = choices_.one_in(2);
    Vars all;
    Index elements = 1;
    for (const OpInput& input : op.all) {
      if (input.kind == OpInput::Kind::fixed && !input.differentiable()) {
        all.push_back(input.value.dtype() == DType::i32 ? input.value : input.value.to(dtype_));
      } else if (!input.differentiable()) {
        all.push_back(constant(input, any_shapes, all));
      } else {
        Var x = any_shapes ? any() : of_shape(shape_of(input));
        elements *= std::max<Index>(1, x.size());
        if (elements > 10'000'000) x = all.front();  // limits the broadcast shape
        const bool positive = input.kind != OpInput::Kind::normal;
        all.push_back(positive && x.dtype() == dtype_ ? softplus(x) + 0.25 : x);
      }
    }
    return all;
  }

 private:
  const Var& any() { return values_[choices_.byte() % values_.size()]; }

  Index extent(char letter) {
    constexpr int extents[] = {1, 2, 3, 4, 5, 2, 1, 0};
    return letters_.try_emplace(letter, extents[choices_.byte() % 8]).first->second;
  }
  Shape shape_of(const OpInput& input) {
    if (input.kind == OpInput::Kind::fixed) return input.value.shape();
    return input.shape([&](char letter) { return extent(letter); });
  }

  /// A value, its elements repeated to fill the shape. Sometimes a value of another shape.
  Var of_shape(const Shape& shape) {
    const Var& x = any();
    if (x.shape() == shape || choices_.one_in(32)) return x;
    if (x.size() == 0) return zeros(shape, dtype_);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(shape.size()));
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = static_cast<std::int32_t>(static_cast<Index>(i) % x.size());
    return reshape(gather(reshape(x, {-1}),
                          Tensor::of(Shape{std::ssize(ids)}, std::span<const std::int32_t>(ids))),
                   shape);
  }

  /// A mask of ones and zeros, or ids below an extent, sometimes with an id out of range.
  Tensor constant(const OpInput& input, bool any_shapes, const Vars& before) {
    const Shape shape = any_shapes && choices_.one_in(2) ? any().shape() : shape_of(input);
    std::vector<double> values(static_cast<std::size_t>(shape.size()));
    const unsigned pattern = choices_.byte() | 0x100u;
    if (input.kind == OpInput::Kind::mask) {
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = pattern >> i % 9 & 1;
      return Tensor::of(shape, std::span<const double>(values))
          .to(choices_.one_in(64) ? DType::f32 : dtype_);
    }
    const int step = choices_.byte();
    const Index below =
        any_shapes && before[0].rank() > 0
            ? before[0].dim(0)
            : OpInput::extent(input.below, [&](char letter) { return extent(letter); });
    const Index range = std::max<Index>(1, below) + choices_.one_in(32);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>((pattern + static_cast<Index>(i) * step) % range);
    return Tensor::of(shape, std::span<const double>(values)).to(DType::i32);
  }

  fuzz::Choices& choices_;
  const Vars& values_;
  DType dtype_;
  std::map<char, Index> letters_ = {};
};

using Group = std::vector<OpCase>;

/// The operations by group. Groups are drawn uniformly, however many variants they have.
const std::vector<Group>& groups() {
  static const auto all = [] {
    std::vector<Group> groups;
    for (const OpCase& op : op_cases()) {
      if (groups.empty() || groups.back()[0].group != op.group) groups.emplace_back();
      groups.back().push_back(op);
    }
    return groups;
  }();
  return all;
}

/// Runs one operation and adds its result.
void run_operation(Graph& g, fuzz::Choices& choices, Run& run, bool first, std::size_t& result) {
  const Group& group = groups()[choices.byte() % groups().size()];
  const OpCase& operation = group[choices.byte() % group.size()];
  const auto y = fuzz::accepted(
      [&] { return operation.f(Operands(choices, run.values, g.dtype).of(operation)); });
  if (first)
    g.text +=
        fmt::format(" {}: {}{}", operation.group, operation.name, y ? to_string(y->shape()) : "");
  if (!y) return;
  expect(y->defined() && y->size() == y->shape().size(), "a result's size does not match");
  if (first) g.kept.push_back(is_wanted(g, *y));
  expect(result < g.kept.size(), "whether an operation throws depends on values");
  if (!g.kept[result++]) return;
  run.values.push_back(*y);
  if (!run.probed || y->dtype() != g.dtype) return;
  run.variables.push_back(variable(zeros(y->shape(), g.dtype)));
  run.values.back() = *y + run.variables.back();
}

Run run(Graph& g, const Tensors& leaves, bool first = false, bool probed = false) {
  Run run{.variables = {}, .values = {}, .probed = probed};
  for (const Tensor& leaf : leaves) {
    run.values.push_back(leaf.dtype() == g.dtype ? variable(leaf) : Var(leaf));
    if (leaf.dtype() == g.dtype) run.variables.push_back(run.values.back());
  }
  fuzz::Choices choices(g.program);
  std::size_t result = 0;
  while (!choices.done() && run.values.size() < most_values)
    run_operation(g, choices, run, first, result);
  expect(result == g.kept.size(), "whether an operation throws depends on values");
  return run;
}

/// Σ w ⊙ y over all values that were computed, with fixed random weights w.
Var loss_of(const Graph& g, const Run& run, std::size_t leaves) {
  Var total = zeros({}, g.dtype);
  for (std::size_t i = leaves; i < run.values.size(); ++i) {
    const Var& y = run.values[i];
    if (y.dtype() == g.dtype) total = total + sum(y * randn(y.shape(), g.dtype, i));
  }
  return total;
}

/// The gradient of each variable; undefined if the loss does not depend on it.
Tensors gradients_of(const Run& run, const Var& loss) {
  Tensors all(run.variables.size());
  if (!loss.requires_gradient()) return all;
  const Gradients gradients = backward(loss);
  expect(!fuzz::accepted([&] { return backward(loss); }), "a second backward does not throw");
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Tensor* gradient = gradients.find(run.variables[i]);
    if (!gradient) continue;
    expect(gradient->shape() == run.variables[i].shape() &&
               gradient->dtype() == run.variables[i].dtype(),
           "a gradient has another shape or dtype than its variable");
    all[i] = *gradient;
  }
  return all;
}

bool same(const Tensors& a, const Tensors& b) {
  return std::ranges::equal(a, b, [](const Tensor& x, const Tensor& y) {
    if (!x.defined() || !y.defined()) return x.defined() == y.defined();
    return x.shape() == y.shape() && std::ranges::equal(bytes_of(x), bytes_of(y));
  });
}

Tensors values_of(const Run& run) {
  Tensors values;
  for (const Var& value : run.values) values.push_back(value.value());
  return values;
}

Tensors copies_of(const Tensors& leaves) {
  Tensors copies;
  for (const Tensor& leaf : leaves) copies.push_back(leaf.clone());
  return copies;
}

/// Gradients of the leaves, and, if `probed`, of all results.
Tensors gradients_at(Graph& g, const Tensors& leaves, bool probed = false) {
  const Run r = run(g, leaves, /*first=*/false, probed);
  return gradients_of(r, loss_of(g, r, leaves.size()));
}

void check_threads(Graph& g, const Tensors& leaves, const Tensors& values,
                   const Tensors& gradients) {
  set_threads(2);
  const Run r = run(g, leaves);
  expect(same(values_of(r), values), "with two threads, values differ");
  expect(same(gradients_of(r, loss_of(g, r, leaves.size())), gradients),
         "with two threads, gradients differ");
  set_threads(1);
}

/// Computes only the gradients of the variables whose bit is set. All NaNs are treated as equal,
/// because the sum of two NaNs may have the bits of either.
void check_some(Graph& g, const Tensors& leaves, const Tensors& gradients, std::size_t bits) {
  const Run r = run(g, leaves);
  const Var loss = loss_of(g, r, leaves.size());
  const auto one_nan = [](const Tensor& x) {
    return map(x, [](auto v) { return v != v ? decltype(v)(fuzz::nan) : v; });
  };
  Vars some;
  Tensors expected(gradients.size()), found(gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if ((bits >> i & 1) == 0) continue;
    some.push_back(r.variables[i]);
    if (gradients[i].defined()) expected[i] = one_nan(gradients[i]);
  }
  const Gradients alone =
      fuzz::accepted([&] { return backward(loss, some); }).value_or(Gradients());
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (const Tensor* gradient = alone.find(r.variables[i])) found[i] = one_nan(*gradient);
  expect(same(found, expected), "backward for some variables: gradients differ");
}

/// Overwrites one value between forward and backward.
void check_overwritten(Graph& g, const Tensors& leaves, const Tensors& gradients,
                       std::size_t which) {
  const Run r = run(g, copies_of(leaves));
  const Var loss = loss_of(g, r, leaves.size());
  Tensor value = r.values[which % r.values.size()].value();
  fill(value, 2);
  const auto after = fuzz::accepted([&] { return gradients_of(r, loss); });
  expect(!after || same(*after, gradients), "backward used an overwritten value");
}

/// The loss at x + t u, for leaves x and directions u.
double loss_at(Graph& g, const Tensors& leaves, const Tensors& directions, double t) {
  const NoGrad no_grad;
  Tensors moved;
  for (std::size_t i = 0; i < leaves.size(); ++i) moved.push_back(leaves[i] + directions[i] * t);
  return loss_of(g, run(g, moved), leaves.size()).item();
}

/// d loss(x + t u) / dt by the five-point stencil.
double numeric_slope(Graph& g, const Tensors& leaves, const Tensors& directions, double h) {
  const auto f = [&](double t) { return loss_at(g, leaves, directions, t); };
  return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h);
}

/// Empty, or a message with the different slopes. Also empty if the check is not meaningful: if
/// central differences of two step sizes disagree (a kink, or a graph that is too steep), or if a
/// gradient is huge, because rounding errors remain when huge gradients cancel.
std::string compare_slopes(Graph& g, const Tensors& leaves, std::uint64_t seed) {
  Tensors directions;
  for (const Tensor& leaf : leaves)
    directions.push_back(randn(leaf.shape(), DType::f64, seed + directions.size()));
  const Tensors gradients = gradients_at(g, leaves, /*probed=*/true);
  double slope = 0, scale = 1;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    if (!(largest(gradients[i]) < 1e5)) return {};
    if (i >= leaves.size()) continue;
    slope += sum(gradients[i] * directions[i]).item();
    scale += largest(gradients[i]);
  }
  const double wide = numeric_slope(g, leaves, directions, 1e-3),
               narrow = numeric_slope(g, leaves, directions, 3e-4);
  const double error = std::abs(slope - narrow), doubt = std::abs(wide - narrow);
  if (doubt > 1e-4 * scale || error <= 1e-5 * scale + 10 * doubt) return {};
  return fmt::format("slope by backward {}, by central differences {} and {}", slope, wide, narrow);
}

Tensors smooth_leaves(const Graph& g, std::uint64_t seed) {
  Tensors leaves;
  for (const Shape& shape : g.shapes) leaves.push_back(randn(shape, DType::f64, ++seed));
  return leaves;
}

/// If slopes differ, tries other points, because the first point may be at a kink.
void check_slopes(Graph& g, const Tensors& leaves) {
  std::string difference = compare_slopes(g, leaves, 100);
  for (std::uint64_t seed = 1; seed < 6 && !difference.empty(); ++seed) {
    const Tensors others = smooth_leaves(g, 1000 * seed);
    g.kept.clear();
    run(g, others, true);
    difference = compare_slopes(g, others, seed);
  }
  expect(difference.empty(), difference);
}

Shape random_shape(fuzz::Choices& choices, Leaves kind) {
  constexpr Index small[] = {1, 2, 3, 4, 5, 2, 1, 0}, large[] = {1, 2, 3, 64, 129, 600, 33, 17};
  std::vector<Index> extents(
      static_cast<std::size_t>(choices.between(0, kind == Leaves::large ? 3 : 4)));
  Index size = 1;
  for (Index& extent : extents) {
    extent = (kind == Leaves::large ? large : small)[choices.byte() % 8];
    if (size * extent > (kind == Leaves::large ? 40'000 : 150)) extent = 1;
    size *= extent;
  }
  return Shape(extents);
}

/// A leaf with NaN, infinities, huge and subnormal numbers.
Tensor hostile_leaf(const Shape& shape, DType dtype, fuzz::Choices& choices) {
  constexpr double inf = fuzz::infinity;
  constexpr double odd[] = {0,     -0.0,  1,      -1,   inf,  -inf,  fuzz::nan, 1e30,
                            -1e30, 1e-30, 1e-310, 88.8, -104, 1e300, 0.5,       3};
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  const int first = choices.byte(), step = choices.byte();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = odd[(static_cast<std::size_t>(first) + i * static_cast<std::size_t>(step)) % 16];
  if (dtype == DType::i32) return full(shape, first % 5, DType::i32);
  return Tensor::of(shape, std::span<const double>(values)).to(dtype);
}

void check(fuzz::Choices& choices) {
  constexpr Leaves kinds[] = {Leaves::smooth, Leaves::smooth, Leaves::hostile, Leaves::large};
  Graph g{.leaves = kinds[choices.between(0, 3)], .dtype = DType::f64, .shapes = {}, .program = {}};
  const std::size_t overwritten = choices.byte();
  if (g.leaves != Leaves::smooth && choices.one_in(2)) g.dtype = DType::f32;
  for (int n = choices.between(1, 4); n > 0; --n)
    g.shapes.push_back(random_shape(choices, g.leaves));
  Tensors leaves;
  for (const Shape& shape : g.shapes) {
    if (g.leaves != Leaves::hostile) {
      leaves.push_back(randn(shape, g.dtype, leaves.size() + 1));
    } else {
      constexpr DType others[] = {DType::f32, DType::f64, DType::i32};
      leaves.push_back(hostile_leaf(
          shape, choices.one_in(8) ? others[choices.between(0, 2)] : g.dtype, choices));
    }
  }
  g.program = choices.rest().substr(0, g.leaves == Leaves::large ? 60 : 200);

  const Run recorded = run(g, leaves, true);
  if (std::getenv("ATTUNE_FUZZ_SHOW")) fmt::print(stderr, "graph:{}\n", g.text);
  const Tensors values = copies_of(values_of(recorded));
  const Tensors gradients = gradients_of(recorded, loss_of(g, recorded, leaves.size()));
  {
    const NoGrad no_grad;
    expect(same(values_of(run(g, leaves)), values), "without recording, values differ");
  }
  expect(same(gradients_at(g, leaves), gradients), "in a second run, gradients differ");
  check_some(g, leaves, gradients, overwritten);
  check_overwritten(g, leaves, gradients, overwritten);
  if (g.leaves == Leaves::large) check_threads(g, leaves, values, gradients);
  if (g.leaves == Leaves::smooth) check_slopes(g, leaves);
}

}  // namespace

void fuzz_one(std::string_view input) {
  static const bool once = (set_threads(1), !groups().empty());  // allocates memory once
  static_cast<void>(once);
  const std::size_t before = buffer_statistics().in_use;
  fuzz::Choices choices(input);
  check(choices);
  expect(buffer_statistics().in_use == before, "memory is not freed");
}
