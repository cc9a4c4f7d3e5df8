// Run by mpirun with several processes, and alone. Only the first one prints.
#define DOCTEST_CONFIG_IMPLEMENT
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sched.h>

#include <attune/autograd/ops.hpp>
#include <attune/nn/bf16.hpp>
#include <attune/nn/gradient_sum.hpp>
#include <attune/nn/linear.hpp>
#include <attune/nn/messages.hpp>
#include <attune/nn/workers.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/random.hpp>

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

/// As one process adds them.
std::string alone(const Parameters& parameters, const Model& model, std::span<const double> shares,
                  Precision precision) {
  detail::GradientSum sum(parameters, {detail::subtrees(0, std::ssize(shares))}, nullptr, {}, 0, 0,
                          precision);
  detail::ShardTree<double> loss;
  for (Index shard = 0; shard < std::ssize(shares); ++shard) {
    const double share = shares[static_cast<std::size_t>(shard)];
    const Var one = share == 0 ? Var() : model.loss(shard);
    sum.add(shard, one, share, false);
    loss.push({0, shard}, share == 0 ? 0 : share * one.item(), [](double& l, double r) { l += r; });
  }
  return bits(parameters, loss.finish([](double& l, double r) { l += r; }), sum.finish());
}

TEST_CASE("gradients of shards: the same bits as in one process, whoever computed them") {
  for (const auto& [dtype, precision] : {std::pair{DType::f32, Precision::f32},
                                         {DType::f64, Precision::f32},
                                         {DType::f32, Precision::bf16},
                                         {DType::f64, Precision::bf16}}) {
    Parameters parameters(1, dtype);
    const Model model(parameters);
    for (const Index shards : {1, 2, 3, 4, 6, 7, 8, 16}) {
      CAPTURE(shards);
      if (shards < std::max(2, workers->count())) continue;
      std::vector<double> shares(static_cast<std::size_t>(shards), 1 / static_cast<double>(shards));
      if (shards > 2) shares[1] = 0;
      const auto [loss, gradients] = workers->backward(
          parameters, shares, [&](Index shard) { return model.loss(shard); }, precision);
      CHECK(bits(parameters, loss, gradients) == alone(parameters, model, shares, precision));
      if (dtype == DType::f64 || precision == Precision::f32) continue;
      for (const auto& [name, w] : parameters) {
        Tensor rounded = gradients[w].clone();
        detail::round_to_bf16(rounded);
        CHECK(rounded.to_vector<float>() == gradients[w].to_vector<float>());
      }
    }
  }
}

TEST_CASE("bf16: to the nearest, ties to even, and packed in half the bytes") {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<std::pair<float, float>> expected = {
      {1, 1},
      {1 + 0x1p-8f, 1},
      {1 + 0x1p-8f + 0x1p-23f, 1 + 0x1p-7f},
      {-1 - 0x3p-8f, -1 - 0x1p-6f},
      {0x1p-133f, 0x1p-133f},
      {std::numeric_limits<float>::max(), infinity},
      {-infinity, -infinity}};
  Tensor x = zeros({8});
  std::vector<float> rounded;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    x.mutable_data<float>()[i] = expected[i].first;
    rounded.push_back(expected[i].second);
  }
  x.mutable_data<float>()[7] = std::bit_cast<float>(0x7f800001u);  // not a number
  detail::round_to_bf16(x);
  const Tensor packed = detail::pack_bf16(x);
  CHECK(packed.size() == 4);
  for (const Tensor& y : {x, detail::unpack_bf16(packed, {8})}) {
    CHECK(y.slice(0, 7).to_vector<float>() == rounded);
    CHECK(std::isnan(y.to_vector<float>()[7]));
  }
  CHECK(detail::unpack_bf16(detail::pack_bf16(x.slice(0, 3)), {3}).to_vector<float>() ==
        std::vector<float>(rounded.begin(), rounded.begin() + 3));
}

TEST_CASE("gather: what each says, by rank") {
  const auto say = [](int rank) {
    return std::string(static_cast<std::size_t>(rank * 70'000), 'a' + static_cast<char>(rank));
  };
  const std::vector<std::string> all = workers->gather(say(workers->rank()));
  REQUIRE(std::ssize(all) == workers->count());
  for (int r = 0; r < workers->count(); ++r) CHECK(all[static_cast<std::size_t>(r)] == say(r));
}

TEST_CASE("workers of one machine share out its CPUs") {
  cpu_set_t set;
  CPU_ZERO(&set);
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  std::string mine;
  for (int cpu = 0; cpu < 64; ++cpu) mine += CPU_ISSET(cpu, &set) ? '1' : '0';
  const std::vector<std::string> all = workers->gather(mine);
  int used = 0, users = 0;  // CPUs of any, and workers on the first of this one
  for (std::size_t cpu = 0; cpu < mine.size(); ++cpu)
    used += std::ranges::any_of(all, [&](const std::string& one) { return one[cpu] == '1'; });
  for (const std::string& one : all) users += one[mine.find('1')] == '1';
  CHECK(users <= (workers->count() + used - 1) / used);
}

/// Nothing ever arrives.
struct DeadNetwork : detail::Messages {
  int rank() const override { return 0; }
  int count() const override { return 2; }
  std::string host() const override { return "node1"; }
  void leave() override {}
  void abort() override {}
  std::size_t send(int, int, std::span<const std::byte>) override { return 0; }
  std::size_t receive(int, int, std::span<std::byte>) override { return 0; }
  bool done(std::size_t) override { return false; }
};

TEST_CASE("a worker that gives no sign is named") {
  DeadNetwork network;
  const std::vector<std::string> hosts = {"node1", "node2"};
  detail::Exchange exchange(network, hosts, /*patience=*/0.01);
  exchange.wait();  // for nothing
  std::array<std::byte, 4> bytes{};
  exchange.receive(1, 0, bytes);
  CHECK_THROWS_WITH_AS(exchange.wait(),
                       "workers: worker 1 of 2 on node2 has not responded for 0.01 s", Error);
}

/// All workers are stopped for a while, and then go on.
struct StoppedJob : DeadNetwork {
  bool done(std::size_t) override {
    if (++looks == 1) std::this_thread::sleep_for(std::chrono::milliseconds(600));
    return looks > 3;
  }
  int looks = 0;
};

TEST_CASE("the time in which a worker was stopped itself is not held against the others") {
  StoppedJob job;
  const std::vector<std::string> hosts = {"node1", "node2"};
  detail::Exchange exchange(job, hosts, /*patience=*/0.3);
  std::array<std::byte, 4> bytes{};
  exchange.receive(1, 0, bytes);
  CHECK_NOTHROW(exchange.wait());
}

TEST_CASE("after an error with messages under way, no others are sent") {
  DeadNetwork network;
  const std::vector<std::string> hosts = {"node1", "node2"};
  std::array<std::byte, 4> bytes{};
  detail::Exchange(network, hosts, 1).wait();  // for nothing
  detail::Exchange(network, hosts, 1).receive(1, 0, bytes);
  CHECK_THROWS_WITH_AS(detail::Exchange(network, hosts, 1),
                       "workers: an error left messages under way: they cannot go on", Error);
}

TEST_CASE("parameters without elements need no messages") {
  Parameters parameters(1, DType::f64);
  const Scope scope(parameters);
  const Var none = scope.add("none", {0, 3}, init::zeros()),
            one = scope.add("one", {2}, init::normal(1));
  const std::vector<double> shares(static_cast<std::size_t>(workers->count() + 1), 0.5);
  const auto sum = workers->backward(parameters, shares,
                                     [&](Index) { return attune::sum(one) + attune::sum(none); });
  CHECK(sum.gradients[none].shape() == Shape{0, 3});
  CHECK(sum.gradients[one].to_vector<double>() ==
        std::vector<double>(2, 0.5 * static_cast<double>(shares.size())));
}

}  // namespace
}  // namespace attune::nn

int main(int argc, char** argv) {
  attune::nn::Workers workers({.patience = 60, .bucket_bytes = 100});
  attune::nn::workers = &workers;
  doctest::Context context(argc, argv);
  context.setOption("no-colors", true);
  if (workers.rank() > 0) context.setOption("out", "/dev/null");
  const int status = context.run();
  int failed = 0;
  for (const std::string& one : workers.gather(status == 0 ? "" : "failed")) failed += !one.empty();
  return failed > 0;
}
