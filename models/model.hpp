// The type of model that loss, search, sampling, forced decoding and ensembles work with.
#pragma once

#include <memory>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <attune/models/decoder.hpp>
#include <attune/models/output_subsets.hpp>
#include <attune/tensor/errors.hpp>

namespace attune::models {

namespace detail {

/// A value whose type depends on the class of model. Copies share it. Values of another `kind` have
/// another type: a source cannot be passed as a state.
template <int kind>
class ModelValue {
 public:
  ModelValue() = default;
  template <class T>
  explicit ModelValue(T value) : value_(std::make_shared<T>(std::move(value))), type_(&typeid(T)) {}

  template <class T>
  const T& as() const& {
    if (!type_ || *type_ != typeid(T))
      fail("Model", "the source or decoder state is one of another class of model");
    return *static_cast<const T*>(value_.get());
  }
  template <class T>
  const T& as() const&& = delete;  // keep the source or state in a variable

 private:
  std::shared_ptr<const void> value_;
  const std::type_info* type_ = nullptr;
};

/// The functions of Model, for one class of decoder or for an ensemble.
struct ModelBase {
  using State = ModelValue<0>;
  /// A struct with the member `mask`, which `start` of the class accepts.
  struct Source : ModelValue<1> {
    Source() = default;
    template <class Own>
    requires std::is_convertible_v<decltype(Own::mask), Tensor> Source(
        Own own)  // NOLINT: implicit conversion
        : ModelValue(std::move(own)), mask(as<Own>().mask) {}
    Mask mask;  // (S, B)
  };
  struct Step {
    Var logits;   // (B, V)
    Var weights;  // (S, B), averaged over heads; undefined without attention
    State state;
  };
  struct Steps {
    AffineLogits logits;       // (T, B, V)
    std::vector<Var> weights;  // (S, B) of each step; empty without attention
  };

  virtual ~ModelBase() = default;
  virtual Source encode(const Tensor& source, const Mask& mask) const = 0;
  virtual State start(const Source& source) const = 0;
  virtual Step step(const Tensor& previous, const State& state, OutputSubsets* subsets) const = 0;
  virtual State select(const State& state, const Tensor& rows) const = 0;
  virtual Steps unroll(const Source& source, const Tensor& previous, const Mask& mask,
                       bool weights) const = 0;
};

template <class M>
struct ModelOf;

}  // namespace detail

/// Any class with the functions of a Decoder. Constructed from an lvalue, a Model refers to that
/// object, which must outlive it; constructed from an rvalue, it owns the object (as std::views::all
/// does). Copies share the object. The functions throw if a source or state is one of another class.
class Model {
 public:
  using State = detail::ModelBase::State;
  using Source = detail::ModelBase::Source;
  using Step = detail::ModelBase::Step;
  using Steps = detail::ModelBase::Steps;

  template <class M>
  requires(!std::is_base_of_v<Model, std::remove_cvref_t<M>> && Decoder<std::remove_cvref_t<M>>)
      Model(M&& model) {  // NOLINT: implicit conversion
    using Own = std::remove_cvref_t<M>;
    std::shared_ptr<const Own> own;
    if constexpr (std::is_lvalue_reference_v<M>) {
      own = std::shared_ptr<const Own>(std::shared_ptr<void>(), &model);  // does not own
    } else {
      own = std::make_shared<const Own>(std::forward<M>(model));
    }
    of_ = std::make_shared<const detail::ModelOf<Own>>(std::move(own));
  }

  /// Token ids source (S, B) i32, mask (S, B). Throws if the class has no function `encode`.
  Source encode(const Tensor& source, const Mask& mask) const { return of_->encode(source, mask); }
  /// The initial state.
  State start(const Source& source) const { return of_->start(source); }
  /// One step after the previous tokens (B) i32. With `subsets`, computes only these logits.
  Step step(const Tensor& previous, const State& state, OutputSubsets* subsets = nullptr) const {
    return of_->step(previous, state, subsets);
  }
  /// Gathers columns of the batch by index (i32, repetition allowed).
  State select(const State& state, const Tensor& rows) const { return of_->select(state, rows); }
  /// All steps on given target tokens (teacher forcing): previous (T, B) i32 is `<s>` and
  /// y_1 .. y_{T-1}, mask (T, B) is 1 on tokens. Without a mask, there is no padding. Logits at
  /// steps with mask 0 are unspecified. Pass weights = false if attention weights are not needed.
  /// Throws on shapes that do not fit, and, with a recurrent decoder, if T = 0.
  Steps unroll(const Source& source, const Tensor& previous, const Mask& mask = {},
               bool weights = true) const;

 private:
  friend Model ensemble_of(std::vector<Model> models);
  friend class NamedModel;
  Model() = default;

  std::shared_ptr<const detail::ModelBase> of_;
};

template <class M>
struct detail::ModelOf final : detail::ModelBase {
  using Types = DecoderTypes<M>;
  using OwnSource = typename Types::Source;
  using OwnState = typename Types::State;
  using OwnOutputs = std::vector<typename Types::Output>;

  explicit ModelOf(std::shared_ptr<const M> own) : model(std::move(own)) {}

  Source encode(const Tensor& source, const Mask& mask) const override {
    if constexpr (requires { model->encode(source, mask); }) {
      return OwnSource(model->encode(source, mask));
    } else {
      fail("Model", "the class has no function encode(source, mask)");
    }
  }
  State start(const Source& source) const override {
    return State(model->start(source.as<OwnSource>()));
  }
  Step step(const Tensor& previous, const State& state, OutputSubsets* subsets) const override {
    const auto words = model->read(previous.reshape(previous.shape().inserted(0, 1)));
    auto own = model->step(words[0], state.as<OwnState>());
    OwnOutputs outputs;
    outputs.push_back(std::move(own.output));
    const AffineLogits logits{model->logits(words, outputs)};
    return {subsets ? Var(subsets->logits(logits)) : Var(logits)[0], std::move(own.weights),
            State(OwnState(std::move(own.state)))};
  }
  State select(const State& state, const Tensor& rows) const override {
    return State(OwnState(model->select(state.as<OwnState>(), rows)));
  }
  Steps unroll(const Source& source, const Tensor& previous, const Mask& mask,
               bool weights) const override {
    const OwnSource& own = source.as<OwnSource>();
    if constexpr (requires { model->unroll(own, previous, mask, weights); }) {
      auto all = model->unroll(own, previous, mask, weights);
      return {{model->logits(all.words, all.outputs)}, std::move(all.weights)};
    } else {
      const auto words = model->read(previous);
      OwnState state = model->start(own);
      OwnOutputs outputs;
      std::vector<Var> all_weights;
      for (Index t = 0; t < previous.dim(0); ++t) {
        auto step = model->step(words[t], state);
        outputs.push_back(std::move(step.output));
        if (weights && step.weights.defined()) all_weights.push_back(std::move(step.weights));
        state = std::move(step.state);
      }
      if (outputs.empty()) fail("unroll", "previous has no steps, T = 0");
      return {{model->logits(words, outputs)}, std::move(all_weights)};
    }
  }

  std::shared_ptr<const M> model;
};

}  // namespace attune::models
