#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include <attune/autograd/anomaly.hpp>
#include <attune/autograd/backward.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/fail.hpp>
#include <attune/tensor/reduce.hpp>

namespace attune {
namespace {

[[noreturn]] void fail_not_variable(const Var& value) {
  fail("gradients", "this {} value is not a variable, and only variables have gradients",
       value.shape());
}

}  // namespace

/// One backward pass: a heap of the nodes that gradients have reached, the newest node on top.
class BackwardWalk {
 public:
  BackwardWalk() = default;
  BackwardWalk(const BackwardWalk&) = delete;
  BackwardWalk& operator=(const BackwardWalk&) = delete;

  ~BackwardWalk() {  // frees the nodes that remain if a pullback has thrown
    for (const detail::NodePointer& node : reached_)
      delete std::exchange(gradients_of(*node.get()), nullptr);
  }

  /// Restricts the walk to nodes on paths from `root` to these variables. Throws if there are none.
  void restrict_to(std::span<const Var> variables, detail::Node& root) {
    for (const Var& variable : variables) {
      if (!variable.node() || !variable.node()->is_leaf) fail_not_variable(variable);
      leading_.insert(variable.node().get());
    }
    std::map<std::uint64_t, detail::Node*> nodes{{root.id, &root}};  // inputs have smaller ids
    for (auto at = nodes.rbegin(); at != nodes.rend(); ++at) {
      for (detail::Edge* edge = at->second->edges; edge; edge = edge->next) {
        for (const detail::Target& input : edge->targets())
          if (input.node) nodes.emplace(input.node->id, input.node.get());
      }
    }
    for (const auto& [id, node] : nodes) {
      bool leads = node->walked;  // its pullbacks are freed: visiting it throws
      for (detail::Edge* edge = node->edges; edge; edge = edge->next) leads |= needed(*edge);
      if (leads) leading_.insert(node);
    }
    if (variables.empty() || !leading_.contains(&root))
      fail("backward", "the result depends on none of the {} requested variables",
           variables.size());
  }

  /// Ends the walk at these inputs, whose gradients are added to `slots`; null: not needed.
  void end_at(std::span<const detail::Target> inputs, std::span<GradientSlot* const> slots) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      ends_[{inputs[i].node.get(), inputs[i].output}] = slots[i];
  }

  /// The slot of an input's gradient. Takes over the reference to the input's node.
  GradientSlot& slot(detail::Target& target) {
    detail::Node& node = *target.node.get();
    if (!ends_.empty()) [[unlikely]]
      if (const auto end = ends_.find({&node, target.output}); end != ends_.end())
        return *end->second;
    detail::NodeGradients*& gradients = gradients_of(node);
    if (!gradients) {
      for (int line = 1; line < node.lines; ++line)  // the edges are visited soon
        __builtin_prefetch(reinterpret_cast<const std::byte*>(&node) + 64 * line);
      auto made = std::make_unique<detail::NodeGradients>(node.output_count);
      for (std::size_t i = 0; i < node.output_count; ++i)
        (*made)[i].begin(node.output(i).shape, node.output(i).dtype);
      reached_.push_back(std::move(target.node));
      std::ranges::push_heap(reached_, {}, id);
      made->walk = this;
      gradients = made.release();
    }
    if (gradients->walk != this)
      fail("backward", "another backward, which has not ended, has reached this {}",
           node.operation);
    return (*gradients)[target.output];
  }

  Gradients run() {
    Gradients gradients;
    gradients.requested_only_ = !leading_.empty();
    while (!reached_.empty()) {
      std::ranges::pop_heap(reached_, {}, id);
      const detail::NodePointer node = std::move(reached_.back());
      reached_.pop_back();
      try {
        visit(*node.get(), gradients);
      } catch (const OutOfMemory& error) {
        error.throw_as(fmt::format("backward of {}", node->operation));
      }
    }
    for (Tensor& gradient : gradients.tensors_) {  // variables may share a tensor
      if (!gradient.unique()) gradient = gradient.clone();
    }
    std::ranges::reverse(gradients.ids_);
    std::ranges::reverse(gradients.tensors_);
    return gradients;
  }

 private:
  static constexpr auto id = [](const detail::NodePointer& node) { return node->id; };

  /// Several walks may reach a variable at once (in other threads, or nested in a pullback), so its
  /// slots belong to the walk. An operation is in one walk only: its slots are stored in the node.
  detail::NodeGradients*& gradients_of(detail::Node& node) {
    return node.is_leaf ? leaves_[&node] : node.gradients;
  }

  void visit(detail::Node& node, Gradients& gradients) {
    const std::unique_ptr<detail::NodeGradients> arrived(
        std::exchange(gradients_of(node), nullptr));
    detail::PerOutput<Tensor> dy(node.output_count);
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = (*arrived)[i].finish();
    if (std::ranges::none_of(dy, &Tensor::defined)) return;  // no pullback added a gradient
    if (node.is_leaf) {
      gradients.ids_.push_back(node.id);
      gradients.tensors_.push_back(std::move(dy[0]));
      return;
    }
    if (node.walked)
      fail("backward", "backward has run on this {} before; its pullbacks are freed",
           node.operation);
    node.walked = true;
    detail::thread_state.pullback = {node.operation, node.id};
    for (detail::Edge* edge = node.edges; edge; edge = edge->next)
      if (needed(*edge)) run(node, *edge, {dy.begin(), dy.size()});
    node.release_edges();
  }

  bool needed(const detail::Target& input) const {
    if (!ends_.empty()) [[unlikely]]
      if (const auto end = ends_.find({input.node.get(), input.output}); end != ends_.end())
        return end->second != nullptr;
    return input.node && (leading_.empty() || leading_.contains(input.node.get()));
  }
  bool needed(detail::Edge& edge) const {
    return std::ranges::any_of(edge.targets(), [&](auto& input) { return needed(input); });
  }

  void run(const detail::Node& node, detail::Edge& edge, std::span<const Tensor> dy) {
    const std::span<detail::Target> targets = edge.targets();
    std::array<GradientSlot*, detail::max_joint_inputs> few{};
    std::vector<GradientSlot*> many;  // of recompute only
    if (targets.size() > few.size()) many.resize(targets.size());
    const std::span<GradientSlot*> dx = many.empty() ? std::span(few).first(targets.size()) : many;
    for (std::size_t i = 0; i < targets.size(); ++i)
      dx[i] = needed(targets[i]) ? &slot(targets[i]) : nullptr;
    edge.run(dy, dx);
    if (detail::detects_anomaly()) [[unlikely]] {
      for (const GradientSlot* slot : dx) {
        if (slot) detail::check_gradient(node.operation, slot->sum());
      }
    }
  }

  std::vector<detail::NodePointer> reached_;  // a heap by id: the newest node first
  std::unordered_map<const detail::Node*, detail::NodeGradients*> leaves_;
  std::unordered_set<const detail::Node*> leading_;  // nodes that need a gradient; empty: all nodes
  std::map<std::pair<const detail::Node*, std::uint8_t>, GradientSlot*> ends_;
};

namespace {

void check_backward(const Var& y, const Tensor& dy) {
  if (!y.requires_gradient())
    fail("backward", "the result depends on no variable, or was computed under NoGrad");
  if (!dy.defined() || dy.shape() != y.shape() || dy.dtype() != y.dtype())
    fail("backward", "the gradient is {}, but the result {}", describe(dy), describe(y.value()));
  if (const std::string given = detail::detects_anomaly() ? first_non_finite(dy) : "";
      !given.empty())
    fail("anomaly", "backward got a non-finite gradient dy: " + given);
}

/// dy of a scalar loss: 1.
Tensor one_for(const Var& loss) {
  if (!loss.defined()) fail("backward", "the loss is undefined");
  if (loss.size() != 1) fail("backward", "a scalar was expected: {}", loss.shape());
  return ones(loss.shape(), loss.dtype());
}

/// The gradients of `variables`, or of all variables if it is null.
Gradients gradients_of(const Var& y, const Tensor& dy, const std::vector<Var>* variables) {
  check_backward(y, dy);
  const NoGrad no_grad;
  const detail::ScopedValue scope(detail::thread_state.pullback, {"backward", ~std::uint64_t{0}});
  BackwardWalk walk;
  if (variables) walk.restrict_to(*variables, *y.node().get());
  detail::Target root{y.node(), y.output()};
  // A copy if it was written to since it was created: that may be after the forward pass.
  const detail::Buffer& buffer = detail::buffer_of(dy);
  walk.slot(root).add(buffer.modified_at > buffer.created_at ? dy.clone() : dy);
  return walk.run();
}

}  // namespace

void detail::backward_into(const Var& y, const Tensor& dy, std::span<const Target> inputs,
                           std::span<GradientSlot* const> dx) {
  BackwardWalk walk;
  walk.end_at(inputs, dx);
  Target root{y.node(), y.output()};
  walk.slot(root).add(dy);
  static_cast<void>(walk.run());
}

Gradients backward(const Var& loss) { return backward(loss, one_for(loss)); }

Gradients backward(const Var& y, const Tensor& dy) { return gradients_of(y, dy, nullptr); }

Gradients backward(const Var& loss, const std::vector<Var>& variables) {
  return gradients_of(loss, one_for(loss), &variables);
}

Gradients backward(const Var& loss, std::span<const NamedVariable> variables) {
  std::vector<Var> unnamed;
  for (const NamedVariable& named : variables) unnamed.push_back(named.variable);
  return backward(loss, unnamed);
}

Gradients::Gradients(std::span<const NamedVariable> variables, std::vector<Tensor> gradients) {
  if (variables.size() != gradients.size())
    fail("gradients", "there are {} variables, but {} gradients", variables.size(),
         gradients.size());
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Var& variable = variables[i].variable;
    if (!gradients[i].defined() || gradients[i].shape() != variable.shape() ||
        gradients[i].dtype() != variable.dtype())
      fail("gradients", "shape or dtype differs: variable {}, gradient {}", variable.shape(),
           gradients[i].shape());
    if (!variable.node() || !variable.node()->is_leaf) fail_not_variable(variable);
    const auto at = std::ranges::lower_bound(ids_, variable.node()->id);
    if (at != ids_.end() && *at == variable.node()->id)
      fail("gradients", "variable {} is given twice", variable.shape());
    tensors_.insert(tensors_.begin() + (at - ids_.begin()), std::move(gradients[i]));
    ids_.insert(at, variable.node()->id);
  }
}

Gradients& Gradients::operator+=(Gradients other) & {
  for (std::size_t k = 0; k < other.ids_.size(); ++k) {
    const auto i = std::ranges::lower_bound(ids_, other.ids_[k]) - ids_.begin();
    const auto at = tensors_.begin() + i;
    if (i == std::ssize(ids_) || ids_[i] != other.ids_[k]) {
      ids_.insert(ids_.begin() + i, other.ids_[k]);
      const bool shared = !other.tensors_[k].unique();
      tensors_.insert(at, shared ? other.tensors_[k].clone() : std::move(other.tensors_[k]));
    } else if (at->unique()) {
      add_in_place(*at, other.tensors_[k]);
    } else {  // other Tensors share its elements
      *at = *at + other.tensors_[k];
    }
  }
  norm_at_ = 0;
  return *this;
}

double Gradients::global_norm() const {
  if (norm_is_known()) return norm_;
  double squares = 0;
  for (const Tensor& gradient : tensors_) squares += sum_of_squares(gradient);
  // abs: the sign of a NaN would appear in messages.
  if (!std::isinf(squares)) return std::abs(std::sqrt(squares));
  std::vector<double> norms;  // squares of f64 may overflow where the norm does not
  for (const Tensor& gradient : tensors_) norms.push_back(norm(gradient.to(DType::f64)).item());
  // Not std::hypot: its result depends on the CPU.
  return norm(Tensor::of<double>({std::ssize(norms)}, norms)).item();
}

double Gradients::global_norm() {
  const std::uint64_t before = detail::observe();
  norm_ = std::as_const(*this).global_norm();
  norm_at_ = before;
  return norm_;
}

bool Gradients::norm_is_known() const {
  return norm_at_ > 0 && std::ranges::all_of(tensors_, [&](const Tensor& gradient) {
           return detail::buffer_of(gradient).modified_at.load(std::memory_order_relaxed) <=
                  norm_at_;
         });
}

void Gradients::scale(double factor) {
  const bool known = norm_is_known() && std::abs(factor) <= 1;  // larger ones may overflow
  for (Tensor& gradient : tensors_) {
    if (!gradient.unique()) gradient = gradient.clone();  // other Tensors share its elements
    // A factor that is subnormal in f32, with few bits, is split in two; the first factor is exact.
    const bool split = std::abs(factor) < std::numeric_limits<float>::min();
    if (split) scale_in_place(gradient, 0x1p-64);
    scale_in_place(gradient, split ? factor * 0x1p64 : factor);
  }
  norm_ *= std::abs(factor);
  norm_at_ = known ? detail::observe() : 0;
}

std::span<const Tensor> Gradients::all() const& { return tensors_; }

const Tensor* Gradients::find(const Var& variable) const& {
  if (!variable.node()) return nullptr;
  const auto [at, end] = std::equal_range(ids_.begin(), ids_.end(), variable.node()->id);
  return at == end ? nullptr : &tensors_[at - ids_.begin()];
}

const Tensor& Gradients::operator[](const Var& variable) const& {
  if (const Tensor* gradient = find(variable)) return *gradient;
  if (!variable.node() || !variable.node()->is_leaf) fail_not_variable(variable);
  fail("gradients", "the loss does not depend on this {} variable{}", variable.shape(),
       requested_only_ ? ", or its gradient was not requested" : "");
}

}  // namespace attune
