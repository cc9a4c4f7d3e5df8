// Run by mpirun with several processes, and alone. Only the first one prints.
#define DOCTEST_CONFIG_IMPLEMENT
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/autograd/backward.hpp>
#include <attune/autograd/ops.hpp>
#include <attune/nn/layers.hpp>
#include <attune/nn/workers/messages.hpp>
#include <attune/nn/workers/workers.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/errors.hpp>
#include <attune/tensor/platform.hpp>
#include <attune/tensor/random.hpp>

#include "support/naive.hpp"

namespace attune::nn {
namespace {

Workers* workers;

/// Two layers, and a parameter that only odd shards use.
struct Model {
  explicit Model(Scope scope)
      : first(scope / "first", 5, 7),
        second(scope / "second", 7, 3),
        odd(scope.add("odd", {4}, init::normal(1))) {}

  Var loss(Index shard) const {
    const Tensor x = randn({2, 5}, odd.dtype(), static_cast<std::uint64_t>(shard + 1));
    const Var y = second(tanh(first(x)));
    return shard % 2 == 0 ? sum(y * y) : sum(y * y) + sum(odd * odd);
  }

  Linear first, second;
  Var odd;
};

std::string bits(const Parameters& parameters, double loss, const Gradients& gradients) {
  std::string all = fmt::format("{:a}", loss);
  for (const auto& [name, w] : parameters)
    for (const double element : gradients[w].to_vector<double>())
      all += fmt::format(" {:a}", element);
  return all;
}

/// The sum of shards [0, n) in one process: splits at the largest power of two
/// less than n.
template <class T, class Term>
T tree_sum(Index begin, Index end, const Term& term) {
  const auto n = static_cast<std::uint64_t>(end - begin);
  if (n == 1) return term(begin);
  const Index middle = begin + static_cast<Index>(std::bit_floor(n - 1));
  return tree_sum<T>(begin, middle, term) + tree_sum<T>(middle, end, term);
}

std::string alone(const Parameters& parameters, const Model& model,
                  const std::vector<double>& shares) {
  const Index n = std::ssize(shares);
  std::vector<Gradients> gradients;
  std::vector<double> losses;
  for (Index shard = 0; shard < n; ++shard) {
    const double share = shares[static_cast<std::size_t>(shard)];
    const Var loss = model.loss(shard);
    losses.push_back(share * loss.item());
    gradients.push_back(backward(loss, full({}, share, loss.dtype())));
  }
  std::vector<Tensor> sums;
  for (const NamedVariable& parameter : parameters) {
    const Var& w = parameter.variable;
    sums.push_back(tree_sum<Tensor>(0, n, [&](Index shard) {
      const Tensor* found = gradients[static_cast<std::size_t>(shard)].find(w);
      return found ? *found : zeros(w.shape(), w.dtype());
    }));
  }
  return bits(
      parameters,
      tree_sum<double>(0, n, [&](Index shard) { return losses[static_cast<std::size_t>(shard)]; }),
      Gradients(parameters, sums));
}

TEST_CASE("gradients of shards: bit for bit those of one process") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    Parameters parameters(1, dtype);
    const Model model(parameters);
    for (const Index shards : {2, 3, 4, 6, 7, 8, 16}) {
      CAPTURE(shards);
      if (shards < workers->count()) continue;
      std::vector<double> shares(static_cast<std::size_t>(shards), 1 / static_cast<double>(shards));
      if (shards > 2) shares[1] = 0;
      const auto [loss, gradients] =
          workers->backward(parameters, shares, [&](Index shard) { return model.loss(shard); });
      CHECK(bits(parameters, loss, gradients) == alone(parameters, model, shares));
    }
  }
}

TEST_CASE("gather: returns the texts of all workers by rank") {
  const auto say = [](int rank) {
    return std::string(static_cast<std::size_t>(rank * 70'000), 'a' + static_cast<char>(rank));
  };
  const std::vector<std::string> all = workers->gather(say(workers->rank()));
  REQUIRE(std::ssize(all) == workers->count());
  for (int r = 0; r < workers->count(); ++r) CHECK(all[static_cast<std::size_t>(r)] == say(r));
}

TEST_CASE("workers on one machine divide its CPUs") {
  std::string mine(64, '0');
  for (const int cpu : platform::allowed_cpus())
    if (cpu < 64) mine[static_cast<std::size_t>(cpu)] = '1';
  const std::vector<std::string> all = workers->gather(mine);
  int used = 0, users = 0;  // CPUs of any, and workers on the first of this one
  for (std::size_t cpu = 0; cpu < mine.size(); ++cpu)
    used += std::ranges::any_of(all, [&](const std::string& one) { return one[cpu] == '1'; });
  for (const std::string& one : all) users += one[mine.find('1')] == '1';
  CHECK(users <= (workers->count() + used - 1) / used);
}

/// A network on which no message arrives.
struct DeadNetwork : detail::Messages {
  int rank() const override { return 0; }
  int count() const override { return 2; }
  std::string host() const override { return "node1"; }
  void leave() override {}
  void abort() override {}
  Pending send(int, int, std::span<const std::byte>) override { return {}; }
  Pending receive(int, int, std::span<std::byte>) override {
    return [this] { return arrived(); };
  }
  virtual bool arrived() { return false; }
};

TEST_CASE("a worker that does not respond is named") {
  DeadNetwork network;
  const std::vector<std::string> hosts = {"node1", "node2"};
  detail::Exchange exchange(network, hosts, /*patience=*/0.01);
  exchange.wait();  // for nothing
  std::array<std::byte, 4> bytes{};
  exchange.receive(1, 0, bytes);
  CHECK_ERROR("workers: worker 1 of 2 on node2 has not responded for 0.01 s", exchange.wait());
}

/// A job whose workers are all suspended for a while.
struct StoppedJob : DeadNetwork {
  bool arrived() override {
    if (++looks == 1) std::this_thread::sleep_for(std::chrono::milliseconds(600));
    return looks > 3;
  }
  int looks = 0;
};

TEST_CASE("the time in which a worker was suspended does not count") {
  StoppedJob job;
  const std::vector<std::string> hosts = {"node1", "node2"};
  detail::Exchange exchange(job, hosts, /*patience=*/0.3);
  std::array<std::byte, 4> bytes{};
  exchange.receive(1, 0, bytes);
  CHECK_NOTHROW(exchange.wait());
}

TEST_CASE("after an error with pending messages, none are sent") {
  DeadNetwork network;
  const std::vector<std::string> hosts = {"node1", "node2"};
  std::array<std::byte, 4> bytes{};
  detail::Exchange(network, hosts, 1).wait();  // for nothing
  detail::Exchange(network, hosts, 1).receive(1, 0, bytes);
  CHECK_ERROR("workers: an earlier error left messages pending: workers cannot continue",
              detail::Exchange(network, hosts, 1));
}

}  // namespace
}  // namespace attune::nn

int main(int argc, char** argv) {
  attune::nn::Workers workers({.patience = 60});
  attune::nn::workers = &workers;
  doctest::Context context(argc, argv);
  context.setOption("no-colors", true);
  if (workers.rank() > 0) context.setOption("out", "/dev/null");
  const int status = context.run();
  int failed = 0;
  for (const std::string& one : workers.gather(status == 0 ? "" : "failed")) failed += !one.empty();
  return failed > 0;
}
