#include <cstdint>
#include <thread>

#include <doctest/doctest.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/matmul.hpp>

#include "support/naive.hpp"

namespace attune {
namespace {

std::size_t address(const Tensor& x) { return reinterpret_cast<std::size_t>(x.data<float>()); }

}  // namespace

TEST_CASE("Buffer: memory in use rises with a tensor and falls with its last copy") {
  const std::size_t before = buffer_statistics().in_use;
  {
    const Tensor x = Tensor::uninitialized({1000});
    const std::size_t with_one = buffer_statistics().in_use;
    CHECK(with_one >= before + 4000);
    CHECK(with_one <= before + 6000);
    {
      const Tensor copy = x, view = x.slice(10, 20);
      CHECK(buffer_statistics().in_use == with_one);
    }
    CHECK(buffer_statistics().in_use == with_one);
  }
  CHECK(buffer_statistics().in_use == before);
}

TEST_CASE("Buffer: a view keeps the elements alive") {
  Tensor row;
  {
    const Tensor x = reals({2, 3}, {1, 2, 3, 4, 5, 6});
    row = x[1];
  }
  const Tensor other = full({2, 3}, 9, DType::f64);
  CHECK(identical(row, reals({3}, {4, 5, 6})));
}

TEST_CASE("Buffer: a freed block is reused") {
  const Tensor keep = Tensor::uninitialized({3000});
  std::size_t first;
  {
    const Tensor x = Tensor::uninitialized({3000});
    first = address(x);
  }
  CHECK(address(Tensor::uninitialized({3000})) == first);
  CHECK(address(Tensor::uninitialized({2990})) == first);  // same size class
}

TEST_CASE("Buffer: a freed block serves requests down to half its size") {
  for (Index size : {100, 1 << 12, 1 << 20}) {
    CAPTURE(size);
    release_cached_buffers();
    std::size_t first;
    {
      const Tensor x = Tensor::uninitialized({size});
      first = address(x);
    }
    const BufferStatistics before = buffer_statistics();
    {
      const Tensor smaller = Tensor::uninitialized({size * 5 / 8});
      CHECK(address(smaller) == first);
      // The idle rest of the block does not count as memory in use.
      CHECK(buffer_statistics().in_use - before.in_use < static_cast<std::size_t>(size) * 4);
    }
    CHECK(buffer_statistics().in_use == before.in_use);
    CHECK(buffer_statistics().cached == before.cached);
    { const Tensor same = Tensor::uninitialized({size}); }
    CHECK(buffer_statistics().allocations == before.allocations);
    const Tensor tiny = Tensor::uninitialized({size / 4});
    CHECK(buffer_statistics().allocations == before.allocations + 1);
  }
  release_cached_buffers();
}

TEST_CASE("Buffer: at most twice the peak is allocated from the system") {
  const auto check = [] {
    const BufferStatistics now = buffer_statistics();
    CHECK(now.in_use + now.cached <= 2 * now.peak);
  };
  // Each request is too large for the blocks of the earlier ones.
  const auto start = static_cast<Index>(buffer_statistics().peak / 4);
  for (Index n = start; n < 8 * start; n = n * 9 / 8) {
    { const Tensor x = Tensor::uninitialized({n}); }
    check();
  }
  std::vector<Tensor> alive(20);
  Random random(1);
  for (int i = 0; i < 3000; ++i) {
    alive[static_cast<std::size_t>(random.below(20))] =
        Tensor::uninitialized({Index{1} << random.below(20) | random.below(1000)});
    check();
  }
  release_cached_buffers();
}

TEST_CASE("Buffer: in steady state nothing is allocated from the system") {
  const auto step = [] {
    const Tensor a = randn({37, 41}), b = randn({41, 29}, DType::f32, 2);
    return (tanh(matmul(a, b)) + 1.0).size();
  };
  step();
  const std::size_t before = buffer_statistics().allocations;
  for (int i = 0; i < 100; ++i) step();
  CHECK(buffer_statistics().allocations == before);
}

TEST_CASE("Buffer: elements of every size are aligned to 64 bytes") {
  for (Index n : {0, 1, 3, 16, 17, 100, 1000, 4097, 3 << 20}) {
    CAPTURE(n);
    const Tensor one = Tensor::uninitialized({n}), two = Tensor::uninitialized({n});
    CHECK(address(one) % 64 == 0);
    CHECK(address(two) % 64 == 0);
  }
}

TEST_CASE("Buffer: live tensors of any sizes do not overlap") {
  std::vector<Tensor> all;
  for (Index n = 0; n < 400; ++n) all.push_back(full({n}, static_cast<double>(n)));
  for (Index n = 0; n < 400; ++n) {
    const std::vector<float> values = all[static_cast<std::size_t>(n)].to_vector<float>();
    CHECK(std::ranges::all_of(values, [n](float v) { return v == static_cast<float>(n); }));
  }
}

TEST_CASE("Buffer: release_cached_buffers frees cached blocks, but none in use") {
  release_cached_buffers();
  const Tensor kept = full({500}, 3);
  { const Tensor x = Tensor::uninitialized({50'000}); }
  CHECK(buffer_statistics().cached >= 200'000);
  const std::size_t in_use = buffer_statistics().in_use;
  release_cached_buffers();
  CHECK(buffer_statistics().cached == 0);
  CHECK(buffer_statistics().in_use == in_use);
  CHECK(kept.to_vector<float>() == std::vector<float>(500, 3));
  const std::size_t before = buffer_statistics().allocations;
  { const Tensor x = Tensor::uninitialized({50'000}); }
  CHECK(buffer_statistics().allocations == before + 1);
}

TEST_CASE("Buffer: the peak is the maximum of the memory in use") {
  const std::size_t peak = buffer_statistics().peak, in_use = buffer_statistics().in_use;
  CHECK(peak >= in_use);
  const Index n = static_cast<Index>(peak / 4 + 1000);
  { const Tensor larger = Tensor::uninitialized({n}); }
  const std::size_t higher = buffer_statistics().peak;
  CHECK(higher >= in_use + static_cast<std::size_t>(n) * 4);
  { const Tensor smaller = Tensor::uninitialized({10}); }
  CHECK(buffer_statistics().peak == higher);
  release_cached_buffers();
}

#ifdef __SANITIZE_ADDRESS__
TEST_CASE("Buffer: the address sanitizer detects accesses beyond a tensor and to a freed tensor") {
  const auto hidden = [](const float* x) { return __asan_address_is_poisoned(x) == 1; };
  for (int i = 0; i < 2; ++i) {  // first from the system, then from the cache
    for (Index n : {1, 3, 100, 1001, 5 << 20}) {
      CAPTURE(n);
      const float* data = nullptr;
      {
        const Tensor x = Tensor::uninitialized({n});
        data = x.data<float>();
        CHECK(!hidden(data));
        CHECK(!hidden(data + n - 1));
        CHECK(hidden(data + n));
      }
      CHECK(hidden(data));
      CHECK(hidden(data + n - 1));
    }
  }
}
#endif

TEST_CASE("Buffer: a failed allocation throws and does not change the statistics") {
  const BufferStatistics before = buffer_statistics();
  CHECK_ERROR("tensor: there is no memory for (2, 18014398509481984) f32, 144 PB",
              Tensor::uninitialized({2, Index{1} << 54}));
  const BufferStatistics after = buffer_statistics();
  CHECK(after.in_use == before.in_use);
  CHECK(after.peak == before.peak);
}

TEST_CASE("Buffer: threads may allocate and free concurrently, also each other's tensors") {
  const std::size_t before = buffer_statistics().in_use;
  {
    std::vector<std::vector<Tensor>> made(4);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([t, &own = made[static_cast<std::size_t>(t)]] {
        for (int i = 0; i < 2000; ++i) {
          own.push_back(full({1 + (i * 7 + t) % 300}, t));
          if (i % 3 == 0) own.erase(own.begin() + i % static_cast<int>(own.size()));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::size_t t = 0; t < 4; ++t) {
      for (const Tensor& x : made[t]) {
        CHECK(std::ranges::all_of(x.to_vector<float>(),
                                  [t](float v) { return v == static_cast<float>(t); }));
      }
    }
  }
  CHECK(buffer_statistics().in_use == before);
}

TEST_CASE("Buffer: the modification clock detects writes, but not reads") {
  Tensor x = zeros({3});
  const detail::Buffer& buffer = detail::buffer_of(x);
  const std::uint64_t seen = detail::observe();
  CHECK(buffer.modified_at <= seen);
  x.data<float>();
  x.reshape({3, 1}).slice(0, 1).to_vector<float>();
  CHECK(buffer.modified_at <= seen);
  x.mutable_data<float>();
  CHECK(buffer.modified_at > seen);
  CHECK(detail::buffer_of(zeros({3})).created_at > seen);
}

TEST_CASE("Buffer: small blocks of a finished thread are reused by other threads") {
  release_cached_buffers();
  std::thread([] { const Tensor x = Tensor::uninitialized({300}); }).join();
  const BufferStatistics before = buffer_statistics();
  CHECK(before.cached >= 1200);
  const Tensor x = Tensor::uninitialized({300});
  CHECK(buffer_statistics().allocations == before.allocations);
}

TEST_CASE("Buffer: the cache of a thread holds at most 1 MiB") {
  release_cached_buffers();
  std::atomic<int> stage{0};
  std::thread other([&] {
    std::vector<Tensor> many;
    for (int i = 0; i < 500; ++i) many.push_back(Tensor::uninitialized({1000}));
    many.clear();
    stage = 1;
    stage.notify_all();
    stage.wait(1);
  });
  stage.wait(0);
  CHECK(buffer_statistics().cached >= 2'000'000);
  release_cached_buffers();
  CHECK(buffer_statistics().cached <= 1 << 20);
  stage = 2;
  stage.notify_all();
  other.join();
  release_cached_buffers();
  CHECK(buffer_statistics().cached == 0);
}

}  // namespace attune
