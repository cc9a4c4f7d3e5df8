#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdlib>
#include <span>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <attune/tensor/arrange.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/errors.hpp>
#include <attune/tensor/file.hpp>
#include <attune/tensor/kernels/normalize.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/platform.hpp>
#include <attune/tensor/reduce.hpp>

#include "support/naive.hpp"
#include "support/process.hpp"
#include "support/scratch_directory.hpp"
#include "support/threads_scope.hpp"

namespace attune {
namespace {

/// Checks that f gives the same bits with one, two and three threads.
template <class F>
void check_thread_independence(F f) {
  std::vector<std::vector<Tensor>> results;
  for (int n : {1, 2, 3}) {
    const test::ThreadsScope scope(n);
    results.push_back(f());
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    CAPTURE(i);
    CHECK(identical(results[0][i], results[1][i]));
    CHECK(identical(results[0][i], results[2][i]));
  }
}

}  // namespace

TEST_CASE("Threads: inside a tile their number can be read, but not changed") {
  const test::ThreadsScope scope(2);
  std::atomic<int> right{0}, refused{0};
  parallel_for(8, [&](Index) {
    right += threads() == 2;
    try {
      set_threads(3);
    } catch (const Error&) {
      ++refused;
    }
  });
  CHECK(right == 8);
  CHECK(refused == 8);
}

TEST_CASE("Threads: every tile runs exactly once") {
  for (int n : {1, 2, 3, 5}) {
    CAPTURE(n);
    const test::ThreadsScope scope(n);
    for (Index tiles : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tiles));
      parallel_for(tiles, [&](Index tile) { ++runs[static_cast<std::size_t>(tile)]; });
      CHECK(std::ranges::all_of(runs, [](const auto& count) { return count == 1; }));
    }
  }
}

TEST_CASE("Threads: loops run after a pause in which the workers sleep") {
  const test::ThreadsScope scope(3);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> total = 0;
    parallel_for(10, [&](Index) { ++total; });
    CHECK(total == 10);
  }
}

TEST_CASE("Threads: ranges cover every element once; the last one is shorter") {
  for (Index n : {0, 1, 9, 10, 11, 95}) {
    CAPTURE(n);
    std::vector<std::atomic<int>> runs(static_cast<std::size_t>(n));
    parallel_ranges(n, 10, [&](Index begin, Index end) {
      CHECK(begin % 10 == 0);
      CHECK(end - begin <= 10);
      for (Index i = begin; i < end; ++i) ++runs[static_cast<std::size_t>(i)];
    });
    CHECK(std::ranges::all_of(runs, [](const auto& count) { return count == 1; }));
  }
}

TEST_CASE("Threads: a loop inside a tile runs in that tile's thread") {
  for (int n : {1, 3}) {
    const test::ThreadsScope scope(n);
    std::atomic<int> total = 0, elsewhere = 0;
    parallel_for(8, [&](Index) {
      const auto self = std::this_thread::get_id();
      parallel_for(5, [&](Index) {
        ++total;
        if (std::this_thread::get_id() != self) ++elsewhere;
      });
    });
    CHECK(total == 40);
    CHECK(elsewhere == 0);
  }
}

TEST_CASE(
    "Threads: the exception of the first tile that throws is rethrown, and the pool remains "
    "usable") {
  for (int n : {1, 2, 3}) {
    CAPTURE(n);
    const test::ThreadsScope scope(n);
    for (Index tiles : {1, 20}) {
      const auto all_throw = [&](Index tile) {
        if (tile == 0 && n > 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        throw std::range_error(fmt::format("tile {}", tile));
      };
      CHECK_THROWS_WITH_AS(parallel_for(tiles, all_throw), "tile 0", std::range_error);
    }
    std::atomic<int> total = 0;
    parallel_for(20, [&](Index) { ++total; });
    CHECK(total == 20);
  }
}

TEST_CASE("Threads: concurrent callers each get all of their tiles run") {
  const test::ThreadsScope scope(2);
  std::array<std::atomic<int>, 3> totals{};
  std::vector<std::thread> callers;
  for (std::atomic<int>& total : totals) {
    callers.emplace_back([&total] {
      for (int i = 0; i < 300; ++i) parallel_for(7, [&](Index) { ++total; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const auto& total : totals) CHECK(total == 2100);
}

TEST_CASE("Threads: set_threads sets their number and refuses invalid numbers") {
  const test::ThreadsScope scope(3);
  CHECK(threads() == 3);
  set_threads(1);
  CHECK(threads() == 1);
  CHECK_ERROR("set_threads: 0 is not in 1 to 1024", set_threads(0));
  CHECK_THROWS_AS(set_threads(-2), Error);
  CHECK(threads() == 1);
}

TEST_CASE("Threads: sums, softmax and cross-entropy do not depend on their number") {
  check_thread_independence([] {
    const Tensor x = randn({70, 1003});
    const Tensor targets = zeros({70}, DType::i32);
    const CrossEntropy loss = cross_entropy_forward(x, targets);
    return std::vector<Tensor>{
        sum(x),        sum(x, {0}),   sum(x, {1}), scalar(sum_of_squares(x), DType::f64),
        softmax(x, 0), softmax(x, 1), loss.loss,   sum(loss.loss)};
  });
}

TEST_CASE("Threads: normalisation, batched_matmul and permute do not depend on their number") {
  check_thread_independence([] {
    const Tensor x = randn({300, 257}), g = randn({257}, DType::f32, 2);
    const LayerNormForward forward = layer_norm_forward(x, g, g, 1e-5);
    const LayerNormBackward backward = layer_norm_backward(x, g, forward, x);
    const Tensor p = sparsemax(x, 0), a = randn({40, 31, 50}, DType::f32, 3);
    return std::vector<Tensor>{forward.y,
                               backward.dx,
                               backward.dgain,
                               backward.dbias,
                               p,
                               sparsemax_backward(p, x, 0),
                               norm(x, 0),
                               norm(x, 1),
                               log_sum_exp(x, 1),
                               max_forward(x, 0).indices.to(DType::f32),
                               batched_matmul(a, a, {.b = true}),
                               transpose(a, 0, 2),
                               where(greater(g, 0), x, g)};
  });
}

TEST_CASE("Threads: tiles use the caller's floating-point mode and do not change other threads'") {
  const Tensor x = randn({60, 5003}), y = randn({60, 5003}, DType::f32, 2);
  const auto compute = [&] { return std::vector<Tensor>{x * y, sum(x), sum(x, {0})}; };
  const int before = std::fegetround();
  for (const int rounding : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    CAPTURE(rounding);
    const auto in_mode = [&](int n) {
      const test::ThreadsScope scope(n);
      std::fesetround(rounding);
      std::vector<std::vector<Tensor>> all;
      for (int i = 0; i < 40; ++i) all.push_back(compute());
      const auto tiles_not_in = [](int mode) {
        std::atomic<int> others{0};
        parallel_for(1000, [&](Index) { others += std::fegetround() != mode; });
        return others.load();
      };
      CHECK(tiles_not_in(rounding) == 0);
      CHECK(std::fegetround() == rounding);
      std::fesetround(before);
      CHECK(tiles_not_in(before) == 0);
      for (const auto& results : all) {
        for (std::size_t i = 0; i < results.size(); ++i) CHECK(identical(results[i], all[0][i]));
      }
      return all[0];
    };
    const std::vector<Tensor> alone = in_mode(1), together = in_mode(4), nearest = compute();
    for (std::size_t i = 0; i < alone.size(); ++i) CHECK(identical(alone[i], together[i]));
    CHECK(!identical(alone[0], nearest[0]));
  }
}

#if defined(__x86_64__)
TEST_CASE("Threads: tiles flush subnormals to zero if the caller does") {
  constexpr unsigned to_zero = 0x8040;  // FTZ and DAZ
  const test::ThreadsScope scope(4);
  const unsigned before = __builtin_ia32_stmxcsr();
  for (const unsigned mode : {before | to_zero, before}) {
    __builtin_ia32_ldmxcsr(mode);
    std::atomic<int> wrong{0};
    for (int i = 0; i < 40; ++i) {
      parallel_for(100, [&](Index) {
        wrong += (__builtin_ia32_stmxcsr() & to_zero) != (mode & to_zero);
        std::this_thread::yield();
      });
    }
    CHECK((__builtin_ia32_stmxcsr() & to_zero) == (mode & to_zero));
    CHECK(wrong.load() == 0);
  }
}
#endif

TEST_CASE("Threads: the child that exits in a tile" * doctest::skip()) {
  set_threads(3);
  const auto caller = std::this_thread::get_id();
  const bool by_caller = std::getenv("ATTUNE_TEST_EXIT") == std::string("caller");
  std::atomic<bool> another{false}, exits{false};
  parallel_for(100, [&](Index) {
    if ((std::this_thread::get_id() == caller) == by_caller && !exits.exchange(true)) {
      while (!another) std::this_thread::yield();
      std::exit(7);
    }
    another = true;
    std::this_thread::sleep_for(std::chrono::minutes(2));
  });
}

TEST_CASE("Threads: exit in a tile of the caller or of a worker ends the process at once") {
  for (const std::string thread : {"caller", "worker"}) {
    CAPTURE(thread);
    const auto child = test::run_test_case(
        "Threads: the child that exits in a tile",
        {.environment = {{"ATTUNE_TEST_EXIT", thread}}, .limit = std::chrono::seconds(30)});
    CHECK(!child.timed_out);
    CHECK(child.status == 7);
  }
}

TEST_CASE("Threads: the child of another test" * doctest::skip()) {
  const std::string wanted = std::getenv("ATTUNE_THREADS");
  if (wanted == "3") {
    CHECK(threads() == 3);
  } else {
    CHECK_ERROR(
        fmt::format("ATTUNE_THREADS: '{}' is not a number of threads from 1 to 1024", wanted),
        threads());
    CHECK_THROWS_AS(parallel_for(2, [](Index) {}), Error);
  }
}

TEST_CASE("Threads: ATTUNE_THREADS sets their number; an invalid value is an error") {
  for (const std::string text :
       {"3", "abc", "0", "-1", "2x", "1.5", " 2", "99999999999999", "1025"}) {
    CAPTURE(text);
    const auto child = test::run_test_case("Threads: the child of another test",
                                           {.environment = {{"ATTUNE_THREADS", text}}});
    CHECK(child.status == 0);
  }
}

}  // namespace attune
