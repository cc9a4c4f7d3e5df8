// Memory use of training, and failed allocations.

#include <fstream>
#include <new>
#include <tuple>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <attune/autograd/attention_ops.hpp>
#include <attune/autograd/backward.hpp>
#include <attune/models/by_name.hpp>
#include <attune/models/ensemble.hpp>
#include <attune/models/loss.hpp>
#include <attune/models/papers.hpp>
#include <attune/models/search.hpp>
#include <attune/models/transformer.hpp>
#include <attune/nn/clipping.hpp>
#include <attune/nn/optimisers.hpp>
#include <attune/tensor/errors.hpp>
#include <attune/tensor/matmul.hpp>

#include "support/failing_allocations.hpp"
#include "support/models_batches.hpp"
#include "support/op_cases.hpp"
#include "support/process.hpp"
#include "support/threads_scope.hpp"

namespace {

using namespace attune;

template <class M>
struct TrainingOf {
  nn::Parameters params{1};
  M model;
  nn::Adam adam{params, {.rate = 1e-3}};
  Random random{1};

  explicit TrainingOf(const typename M::Options& options) : model(params, options) {}

  double step(const text::Batch& batch) {
    Random of_step = random;
    const nn::Training training(of_step);
    const Var loss = models::loss(model, batch);
    Gradients gradients = backward(loss);
    nn::clip_by_global_norm(gradients, 1.0);
    adam.step(gradients);
    return loss.item();
  }
};

struct Training : TrainingOf<models::Bahdanau> {
  Training()
      : TrainingOf({.source_vocabulary = 50,
                    .target_vocabulary = 50,
                    .embedding = 32,
                    .hidden = 32,
                    .readout = 32,
                    .score = {.attention = 32}}) {}
};

struct TransformerTraining : TrainingOf<models::Transformer> {
  TransformerTraining()
      : TrainingOf({.source_vocabulary = 50,
                    .target_vocabulary = 50,
                    .layer = {.size = 8, .heads = 2, .inner = 16, .dropout = 0.1},
                    .encoder_layers = 1,
                    .decoder_layers = 1}) {}
};

text::Batch random_batch(Random& random, Index sentences, Index source, Index target) {
  const auto sources = test::random_sentences(
      std::vector<Index>(static_cast<std::size_t>(sentences), source), 50, random.bits());
  const auto targets = test::random_sentences(
      std::vector<Index>(static_cast<std::size_t>(sentences), target), 50, random.bits());
  std::vector<text::Pair> pairs;
  for (std::size_t i = 0; i < sources.size(); ++i) pairs.push_back({sources[i], targets[i]});
  return text::make_batch(pairs);
}

/// Steps with changing shapes, after one with the largest shape.
void train_on_all_shapes(int steps) {
  constexpr Index most_sentences = 16, longest = 20;
  const test::ThreadsScope one(1);  // two may need their scratch at once, or one after the other
  Training training;
  Random random(1);
  training.step(random_batch(random, most_sentences, longest, longest));
  training.step(random_batch(random, most_sentences, longest, longest));  // weights are packed now
  const BufferStatistics largest = buffer_statistics();
  BufferStatistics warm{};
  int grown = 0;
  for (int step = 0; step < steps; ++step) {
    if (step == steps / 2) warm = buffer_statistics();
    const Index target = 1 + random.below(longest), source = 1 + random.below(longest),
                sentences = 1 + random.below(most_sentences);
    training.step(random_batch(random, sentences, source, target));
    const BufferStatistics now = buffer_statistics();
    grown += now.in_use != largest.in_use || now.peak != largest.peak;
    CHECK(now.in_use + now.cached <= 2 * now.peak);
  }
  CHECK(grown == 0);
  const BufferStatistics end = buffer_statistics();
  CHECK(static_cast<double>(end.cached) <= 1.02 * static_cast<double>(warm.cached));
  CHECK(end.allocations - warm.allocations <= static_cast<std::size_t>(steps / 50));
}

}  // namespace

TEST_CASE("memory: training on changing shapes needs no more than its largest step") {
  train_on_all_shapes(2000);
}

TEST_CASE("memory: 20,000 steps with changing shapes" * doctest::skip()) {
  train_on_all_shapes(20'000);
}

TEST_CASE("memory: a failed allocation names the operation, its result and the bytes") {
  for (const OpCase& op : op_cases()) {
    // Errors of their scratch tensors do not name the operation.
    if (op.group == "fused attention" || op.name.starts_with("affine") || op.name == "unwindow")
      continue;
    CAPTURE(op.name);
    std::vector<Var> inputs;
    for (const Tensor& x : op.inputs) inputs.push_back(variable(x));
    const auto error = [](const auto& f) {
      release_cached_buffers();
      const test::Limit limit(test::blocks, 0);
      return error_of(f);
    };
    const auto check = [](const std::string& message) {
      if (message == "no error") return;  // it needs none
      CHECK(message.find(": there is no memory for ") != message.npos);
      const bool scalar = message.starts_with("tensor: there is no memory for () ");
      CHECK((scalar || !message.starts_with("tensor: there is no memory for (")));
    };
    check(error([&] { op(inputs); }));
    const Var y = op(inputs);
    const Tensor dy = randn(y.shape(), y.dtype());
    check(error([&] { std::ignore = backward(y, dy); }));
  }
}

/// Steps in which the first, second, ... allocation of that kind fails, until none fails.
template <class Training>
void check_failing_steps(test::Budget& kind) {
  Random random(1);
  const text::Batch batch = random_batch(random, 2, 2, 1);
  Training training, undisturbed;
  for (int i = 0; i < 3; ++i) CHECK(training.step(batch) == undisturbed.step(batch));
  long failed = 0;
  for (bool done = false; !done;) {
    release_cached_buffers();
    try {
      const test::Limit limit(kind, failed);
      training.step(batch);
      done = true;
    } catch (const OutOfMemory&) {
      ++failed;
    } catch (const std::bad_alloc&) {
      ++failed;
    }
  }
  CHECK(failed > 100);
  undisturbed.step(batch);
  CHECK(training.step(batch) == undisturbed.step(batch));
}

TEST_CASE("memory: after a failed allocation anywhere in a step, the next step is correct") {
  for (const int threads : {1, 2}) {
    const test::ThreadsScope scope(threads);
    for (test::Budget* kind : {&test::blocks, &test::objects}) {
      CAPTURE(threads);
      CAPTURE((kind == &test::blocks));
      const std::size_t in_use = buffer_statistics().in_use;
      check_failing_steps<Training>(*kind);
      check_failing_steps<TransformerTraining>(*kind);
      CHECK(buffer_statistics().in_use == in_use);
    }
  }
}

TEST_CASE("memory: cached blocks are freed before an allocation fails") {
  { const Tensor idle = Tensor::uninitialized({100'000}); }
  const BufferStatistics before = buffer_statistics();
  const test::Limit limit(test::blocks, 0, 1);
  const Tensor x = Tensor::uninitialized({1'000'000});
  CHECK(buffer_statistics().cached + 400'000 <= before.cached);
  CHECK(buffer_statistics().in_use >= before.in_use + 4'000'000);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they take terabytes

/// Runs the test case "memory: child process of NAME" in a process of its own.
void check_child_process(const std::string& name) {
  const auto result = test::run_test_case("memory: child process of " + name);
  CAPTURE(result.out);
  CHECK(result.status == 0);
  CHECK(result.out.find("1 passed") != std::string::npos);
}

/// Peak resident memory of the process in bytes.
std::size_t resident() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

TEST_CASE("memory: child process of the attention test" * doctest::skip()) {
  const test::ThreadsScope two(2);
  const Var q = variable(randn({4096, 1, 32})), kv = variable(randn({4096, 1, 64}, DType::f32, 2));
  std::ignore = backward(sum(attention(slice(q, 0, 0, 8), slice(kv, 0, 0, 8))));
  const std::size_t before = resident(), in_use = buffer_statistics().in_use;
  std::ignore = backward(sum(attention(q, kv, {.causal = true, .dropout = 0.1})));
  CHECK(buffer_statistics().peak - in_use < 20'000'000);  // weights alone would take 67 MB
  CHECK(resident() - before < 25'000'000);
}

TEST_CASE("memory: attention is linear in the sequence length, not quadratic") {
  check_child_process("the attention test");
}

TEST_CASE("memory: child process of the forced decoding test" * doctest::skip()) {
  nn::Parameters params(1);
  Random random(1);
  const text::Batch batch = random_batch(random, 1, 2000, 2000);
  for (const std::string name : {"bahdanau", "transformer"}) {
    models::ModelOptions options = models::model_options(name);
    models::set(options, "hidden", "16");
    const models::NamedModel model(nn::Scope(params) / name, options, {50, 50});
    const models::Model both = models::ensemble_of({model, model});
    const std::size_t before = resident();
    CHECK(models::force_decode(both, batch, {.weights = false}).size() == 1);
    CHECK(resident() - before < 50'000'000);  // a weight of each word and place would take 16 MB
    CHECK(models::force_decode(model, batch).size() == 1);
    CHECK(resident() - before < 100'000'000);  // and those of all heads 64 MB
  }
}

TEST_CASE("memory: forced decoding of a long pair stores no states of previous steps") {
  check_child_process("the forced decoding test");
}

TEST_CASE("memory: child process of another test" * doctest::skip()) {
  Random random(1);
  const text::Batch batch = random_batch(random, 8, 10, 10);
  Training training, undisturbed;
  for (int i = 0; i < 3; ++i) CHECK(training.step(batch) == undisturbed.step(batch));
  const Tensor column = zeros({30'000, 1}), row = zeros({1, 30'000});

  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t limit = pages * static_cast<std::size_t>(getpagesize()) + (rlim_t{256} << 20);
  const rlimit address_space{limit, limit};
  REQUIRE(setrlimit(RLIMIT_AS, &address_space) == 0);

  CHECK(error_of([&] { matmul(column, row); }) ==
        "matmul: there is no memory for (30000, 30000) f32, 3.6 GB");
  std::vector<Tensor> all;
  CHECK(error_of([&] {
          for (;;) all.push_back(Tensor::uninitialized({4, 1'000'000}));
        }) == "tensor: there is no memory for (4, 1000000) f32, 16 MB");
  CHECK(all.size() >= 5);
  all.clear();
  CHECK(Tensor::uninitialized({25, 1'000'000}).defined());  // the small ones are given back
  for (int i = 0; i < 3; ++i) CHECK(training.step(batch) == undisturbed.step(batch));
}

TEST_CASE(
    "memory: with a limited address space a failed allocation throws, and training continues") {
  check_child_process("another test");
}

#endif
