#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include <attune/autograd/grad.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/autograd/record.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/random.hpp>

namespace attune {

void SlotOf<Var>::add(const Var& gradient) { sum_ = sum_.defined() ? sum_ + gradient : gradient; }

void SlotOf<Var>::add_product(const Var& a, const Var& b, Integer column) {
  const auto matrix = [](const Var& x, const Var& dy) {
    const Var kept = detail::without_discarded(x, dy, -1);
    return reshape(kept, {x.shape().product(0, x.rank() - 1), x.dim(-1)});
  };
  const Var product = matmul(matrix(a, b), matrix(b, a), {.a = true});
  add(product.shape() == shape_ ? product
                                : pad(product, 1, column, shape_[1] - column - product.dim(1)));
}

void SlotOf<Var>::add_slice(const Var& gradient, Integer axis, Integer begin) {
  slices_.push_back({gradient, shape_.axis(axis), begin});
}

Var SlotOf<Var>::sum() {
  std::ranges::stable_sort(slices_, {}, [](auto& one) { return std::pair(one.axis, one.begin); });
  while (!slices_.empty()) {  // concatenates slices that do not overlap, with zeros between them
    const int axis = slices_.front().axis;
    const DType dtype = slices_.front().gradient.dtype();
    std::vector<Var> parts;
    Index end = 0;
    const auto fill = [&](Index to) {
      if (to > end) parts.push_back(zeros(shape_.with(axis, to - end), dtype));
    };
    std::vector<Slice> overlapping;
    for (Slice& one : slices_) {
      if (one.axis != axis || one.begin < end) {
        overlapping.push_back(std::move(one));
        continue;
      }
      fill(one.begin);
      end = one.begin + one.gradient.dim(axis);
      parts.push_back(std::move(one.gradient));
    }
    fill(shape_[axis]);
    add(concat(parts, axis));
    slices_ = std::move(overlapping);
  }
  return sum_;
}

namespace {

/// A recorded backward pass from several results. Inputs have smaller ids than their users.
class GradWalk {
 public:
  /// `ends_at_x`: takes the histories of x for constants.
  GradWalk(std::span<const Var> y, std::span<const Var> dy, std::span<const Var> x,
           bool ends_at_x = false)
      : ends_at_x_(ends_at_x) {
    std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
    for (const Var& one : x) {
      requested_.insert(one.node().get());
      if (one.node()) first = std::min(first, one.node()->id);
    }
    leading_ = requested_;
    for (const Var& one : y)
      if (one.node()) nodes_.emplace(one.node()->id, one.node());
    for (auto at = nodes_.rbegin(); at != nodes_.rend(); ++at)
      for (detail::Edge* edge = at->second->edges; edge; edge = edge->next)
        for (const detail::Target& input : edge->targets())
          if (input.node && input.node->id >= first) nodes_.emplace(input.node->id, input.node);
    for (const auto& [id, node] : nodes_) {
      bool leads = node->walked;  // its pullbacks are freed: visiting it throws
      for (detail::Edge* edge = node->edges; edge; edge = edge->next)
        leads |= std::ranges::any_of(edge->targets(), [&](auto& input) { return needed(input); });
      if (leads) leading_.insert(node.get());
    }
    for (std::size_t i = 0; i < y.size(); ++i)
      if (dy[i].defined() && leads(y[i])) slot(*y[i].node().get(), y[i].output()).add(dy[i]);
    for (auto at = nodes_.rbegin(); at != nodes_.rend(); ++at) visit(at->second);
  }

  /// The gradient of x; undefined if no result depends on it.
  Var of(const Var& x) {
    const auto at = slots_.find(x.node().get());
    return at == slots_.end() ? Var() : at->second[x.output()].sum();
  }
  bool leads(const Var& y) const { return leading_.contains(y.node().get()); }
  /// Adds the gradients of x to dx (null: not needed), as constants unless `records`.
  void add_to(std::span<SlotOf<Var>* const> dx, std::span<const Var> x, bool records) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Var gradient = dx[i] ? of(x[i]) : Var();
      if (gradient.defined()) dx[i]->add(records ? gradient : detach(gradient));
    }
  }

 private:
  bool needed(const detail::Target& input) const {
    return input.node && leading_.contains(input.node.get());
  }
  SlotOf<Var>& slot(detail::Node& node, std::uint8_t output) {
    std::vector<SlotOf<Var>>& all = slots_[&node];
    if (all.empty())
      for (std::size_t i = 0; i < node.output_count; ++i) all.emplace_back(node.output(i).shape);
    return all[output];
  }

  void visit(const detail::NodePointer& node) {
    const auto at = slots_.find(node.get());
    if (at == slots_.end()) return;
    std::vector<Var> dy;
    for (SlotOf<Var>& one : at->second) dy.push_back(one.sum());
    if (std::ranges::none_of(dy, &Var::defined)) return;  // no use depends on its inputs
    const detail::ScopedValue scope(detail::thread_state.pullback, {node->operation, node->id});
    const bool requested = requested_.contains(node.get());
    if (requested && ends_at_x_) return;
    if (node->walked && !requested)
      fail("grad", "backward has run on this {} before; its pullbacks are freed", node->operation);
    for (detail::Edge* edge = node->edges; edge; edge = edge->next) {
      const std::span<detail::Target> inputs = edge->targets();
      std::vector<SlotOf<Var>*> dx(inputs.size());
      bool used = false;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (!needed(inputs[i])) continue;
        dx[i] = &slot(*inputs[i].node.get(), inputs[i].output);
        used = true;
      }
      if (used) edge->record(node, dy, dx);
    }
  }

  const bool ends_at_x_;
  std::map<std::uint64_t, detail::NodePointer> nodes_;
  std::unordered_set<const detail::Node*> requested_, leading_;  // leading to a requested one
  std::unordered_map<const detail::Node*, std::vector<SlotOf<Var>>> slots_;
};

/// The same value, with the gradients of its uses apart from those of other uses of x.
Var alias(const Var& x) {
  return record("alias", x.value()).wrt(x, [](const auto& dy) { return dy; });
}

}  // namespace

namespace detail {

void fail_first_order(const char* operation) {
  fail("grad", "the pullback of {} takes only Tensors, so it has no second order", operation);
}

void record_definition(std::span<const Target> inputs, std::span<const Tensor> values,
                       const std::function<std::vector<Var>(std::span<const Var>)>& definition,
                       std::span<const Var> dy, std::span<SlotOf<Var>* const> dx) {
  const bool records = thread_state.records_history;
  const ScopedValue history(thread_state.records_history, true);  // also under NoGrad
  std::vector<Var> in, requested;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    in.emplace_back(values[i], inputs[i].node, inputs[i].output);
    if (!in[i].requires_gradient()) continue;
    in[i] = alias(in[i]);
    if (dx[i]) requested.push_back(in[i]);
  }
  GradWalk(definition(in), dy, requested, true).add_to(dx, in, records);
}

namespace {

/// The pullback of recompute.
struct RecomputeEdge final : Edge {
  std::vector<Target> inputs, ends;  // equal; backward takes over the references of `inputs`
  std::function<Var(const Var&)> f;
  Var x;
  ThreadState state;
  std::optional<Random> random;  // nn::Training's, before f

  Var compute() {
    const PullbackContext pullback = thread_state.pullback;
    const ScopedValue scope(thread_state, state);
    std::optional<Random> again = random;
    if (again) thread_state.training_random = &*again;
    thread_state.pullback = pullback;
    thread_state.records_history = true;
    return f(x);
  }
  std::span<Target> targets() override { return inputs; }
  void run(std::span<const Tensor> dy, std::span<GradientSlot* const> dx) override {
    backward_into(compute(), dy[0], ends, dx);
  }
  void record(const NodePointer&, std::span<const Var> dy,
              std::span<SlotOf<Var>* const> dx) override {
    std::vector<Var> of;
    for (const Target& input : ends) of.emplace_back(Tensor(), input.node, input.output);
    const Var y = compute();
    GradWalk(std::span(&y, 1), dy, of, true).add_to(dx, of, thread_state.records_history);
  }
};

}  // namespace
}  // namespace detail

Var recompute(const std::function<Var(const Var&)>& f, const Var& x) {
  auto edge = std::make_unique<detail::RecomputeEdge>();
  edge->f = f, edge->x = x, edge->state = detail::thread_state;
  if (const Random* random = detail::thread_state.training_random) edge->random = *random;
  const std::uint64_t start = detail::observe();
  const Var y = f(x);
  if (!y.node() || y.node()->id < start) return y;
  std::map<std::uint64_t, detail::Node*> inner{{y.node()->id, y.node().get()}};
  for (auto at = inner.rbegin(); at != inner.rend(); ++at) {
    for (detail::Edge* one = at->second->edges; one; one = one->next) {
      for (const detail::Target& input : one->targets()) {
        const auto same = [&](const detail::Target& other) {
          return other.node.get() == input.node.get() && other.output == input.output;
        };
        if (!input.node) continue;
        if (input.node->id >= start) {
          inner.emplace(input.node->id, input.node.get());
        } else if (std::ranges::none_of(edge->inputs, same)) {
          edge->inputs.push_back(input);
        }
      }
    }
  }
  edge->ends = edge->inputs;
  const Tensor value = y.value();
  detail::NodePointer node(detail::Node::make("recompute", false, std::span(&value, 1), 0));
  node->edges = edge.release();
  return Var(value, std::move(node), 0);
}

std::vector<Var> grad(const Var& y, const std::vector<Var>& x, const Var& dy) {
  if (!dy.defined() || dy.shape() != y.shape() || dy.dtype() != y.dtype())
    fail("grad", "dy is {}, but the result {}", describe(dy.value()), describe(y.value()));
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!x[i].requires_gradient())
      fail("grad", "x number {} is a constant: {}", i, describe(x[i].value()));
  GradWalk walk(std::span(&y, 1), std::span(&dy, 1), x);
  if (!walk.leads(y))
    fail("grad", "the result depends on none of the {} inputs, or was computed under NoGrad",
         x.size());
  std::vector<Var> all;
  for (const Var& one : x) {
    const Var gradient = walk.of(one);
    all.push_back(gradient.defined() ? gradient : zeros(one.shape(), one.dtype()));
    // A gradient that is constant in x, such as relu's slope, still leads to x: with gradient 0.
    if (!all.back().requires_gradient())
      all.back() =
          record("grad", all.back().value()).wrt(one, [](const auto& d) { return zeros_like(d); });
  }
  return all;
}

std::vector<Var> grad(const Var& y, const std::vector<Var>& x) {
  if (!y.defined() || y.size() != 1)
    fail("grad", "a scalar, or dy, was expected: {}", describe(y.value()));
  return grad(y, x, ones(y.shape(), y.dtype()));
}
std::vector<Var> grad(const Var& y, std::span<const NamedVariable> variables) {
  std::vector<Var> x;
  for (const NamedVariable& named : variables) x.push_back(named.variable);
  return grad(y, x);
}
Var grad(const Var& y, const Var& x) { return grad(y, std::vector{x})[0]; }
Var grad(const Var& y, const Var& x, const Var& dy) { return grad(y, std::vector{x}, dy)[0]; }

Gradients hessian_product(const Var& loss, std::span<const NamedVariable> variables,
                          const Gradients& v) {
  const std::vector<Var> g = grad(loss, variables);
  std::vector<Tensor> products;
  Var along = zeros({}, loss.dtype());  // Σ v · ∂loss/∂w
  for (std::size_t i = 0; i < g.size(); ++i)
    if (const Tensor* direction = v.find(variables[i].variable)) along += sum(g[i] * *direction);
  const NoGrad no_third_order;
  const bool any = along.requires_gradient();
  for (const Var& h : any ? grad(along, variables) : g)
    products.push_back(any ? h.value() : zeros_like(h.value()));
  return Gradients(variables, products);
}

}  // namespace attune
