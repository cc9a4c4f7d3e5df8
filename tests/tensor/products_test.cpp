// Who makes a product, and what may be relied on whoever does.

#include <barrier>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <attune/tensor/matmul.hpp>
#include <attune/tensor/precision.hpp>

#include "support/naive.hpp"
#include "support/process.hpp"
#include "support/threads_scope.hpp"

namespace attune {
namespace {

constexpr const char* variables[] = {"ATTUNE_PRODUCTS", "ATTUNE_TARGET", "OPENBLAS_CORETYPE"};

/// A product of those sizes that is large enough for BLAS.
constexpr Index m = 600, k = 800, n = 1200;

bool by_blas(Index rows, Index depth, Index columns, Rows of, bool transposed = false) {
  const float* none = nullptr;
  return detail::made_by_blas<float>({none, rows, depth, transposed ? rows : depth, transposed},
                                     {none, depth, columns, columns}, of);
}

/// What products() is, or the message of its error, in a process with these variables alone.
std::string products_with(std::map<std::string, std::string> environment) {
  for (const char* name : variables) environment.try_emplace(name, "");
  const auto child =
      test::run_test_case("products: the child of *", {.environment = std::move(environment)});
  REQUIRE_MESSAGE(child.status == 0, child.out);
  const std::size_t begin = child.out.find("products=") + 9;
  return child.out.substr(begin, child.out.find('\n', begin) - begin);
}

/// Prints the errors of two threads that make a large product each, at once, where the address space
/// has room for so many megabytes more.
void multiply_in(int megabytes) {
  set_threads(1);
  const Tensor a = zeros({m, k}), b = zeros({k, n});
  products();  // loads OpenBLAS
  std::barrier both(3);
  std::string errors[2];
  const auto multiply = [&](std::string& error) {
    matmul(a, b);  // takes the thread's own memory
    both.arrive_and_wait();
    both.arrive_and_wait();
    error = error_of([&] { matmul(a, b, {}, Rows::together); });
  };
  std::thread first(multiply, std::ref(errors[0])), second(multiply, std::ref(errors[1]));
  both.arrive_and_wait();
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const std::size_t limit = pages * 4096 + (static_cast<std::size_t>(megabytes) << 20);
  const rlimit address_space{limit, limit};
  REQUIRE(setrlimit(RLIMIT_AS, &address_space) == 0);
  both.arrive_and_wait();
  first.join();
  second.join();
  fmt::print("products={}; {}\n", errors[0], errors[1]);
}

bool blas_is_chosen() { return products().find(" and ") != std::string::npos; }

}  // namespace

TEST_CASE("products: the child of another test" * doctest::skip()) {
  if (std::getenv("ATTUNE_TEST_THREADS")) {
    set_threads(1);
    matmul(zeros({m, k}), zeros({k, n}), {}, Rows::together);
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    const auto threads = std::distance(begin(tasks), end(tasks));
    return fmt::print("products={} {}\n", threads, std::getenv("OPENBLAS_NUM_THREADS"));
  }
  if (const char* room = std::getenv("ATTUNE_TEST_ROOM")) return multiply_in(std::atoi(room));
  std::string text;
  try {
    text = products();
    CHECK(by_blas(m, k, n, Rows::together) == blas_is_chosen());
    matmul(zeros({m, k}), zeros({k, n}));
    const bool fuses = simd_target().starts_with("avx") || simd_target().starts_with("neon");
    CHECK(products_used() == (fuses ? products_of_any_cpu : text));
    matmul(zeros({m, k}), zeros({k, n}), {}, Rows::together);
    CHECK((products_used() == text) == (!fuses || blas_is_chosen()));
  } catch (const Error& error) {
    text = error.what();
    CHECK_THROWS_WITH(matmul(zeros({m, k}), zeros({k, n}), {}, Rows::together), error.what());
  }
  fmt::print("products={}\n", text);
}

TEST_CASE("products: the environment chooses, and results of one instruction set are attune's") {
  CHECK(products_with({{"ATTUNE_TARGET", simd_target()}}) == "attune (" + simd_target() + ")");
  const std::string own = products_with({{"ATTUNE_PRODUCTS", "attune"}});
  CHECK(own.starts_with("attune ("));
  CHECK(products_with({{"ATTUNE_PRODUCTS", "mkl"}}) ==
        "ATTUNE_PRODUCTS: 'mkl' is neither openblas nor attune");
  const std::string forced = products_with({{"ATTUNE_PRODUCTS", "openblas"}});
  if (detail::blas_name().empty()) {
    CHECK(forced.starts_with("ATTUNE_PRODUCTS: OpenBLAS: "));
  } else {
    CHECK(forced.ends_with(" and " + own));
  }
}

TEST_CASE("products: a variant of OpenBLAS that does not lock its buffers is not used") {
  const char* const serial = "/usr/lib/x86_64-linux-gnu/openblas-serial";
  if (detail::blas_name().empty() || !std::filesystem::exists(serial)) return;
  const std::string directory = serial;
  CHECK(products_with({{"LD_LIBRARY_PATH", directory}}) ==
        products_with({{"ATTUNE_PRODUCTS", "attune"}}));
  CHECK(products_with({{"LD_LIBRARY_PATH", directory}, {"ATTUNE_PRODUCTS", "openblas"}}) ==
        "ATTUNE_PRODUCTS: only OpenBLAS's pthread variant can be called by several threads");
}

TEST_CASE("products: OpenBLAS is not used with kernels narrower than attune's, unless it must") {
  if (detail::blas_name().empty() || !simd_target().starts_with("avx3")) return;
  const std::string own = "attune (avx3)";
  CHECK(products_with({{"OPENBLAS_CORETYPE", "Haswell"}}) == own);
  CHECK(products_with({{"OPENBLAS_CORETYPE", "SkylakeX"}}) == "OpenBLAS (SkylakeX) and " + own);
  CHECK(products_with({{"OPENBLAS_CORETYPE", "Haswell"}, {"ATTUNE_PRODUCTS", "openblas"}}) ==
        "OpenBLAS (Haswell) and " + own);
}

TEST_CASE("products: BLAS makes large ones whose rows need not be alike, in f32 and f64") {
  if (!blas_is_chosen()) return;
  CHECK(by_blas(m, k, n, Rows::together));
  CHECK_FALSE(by_blas(m, k, n, Rows::apart));
  CHECK_FALSE(by_blas(m, k, 900, Rows::together));             // too few columns
  CHECK_FALSE(by_blas(400, 2 * k, n, Rows::together));         // too few rows of a batch,
  CHECK(by_blas(400, 2 * k, n, Rows::together, true));         // but enough for a sum over them
  CHECK_FALSE(by_blas(m, 200, 10 * n, Rows::together));        // too short sums
  CHECK_FALSE(by_blas(m, k / 2, n, Rows::together));           // too little work
  CHECK_FALSE(by_blas(m, k, Index{1} << 32, Rows::together));  // more than BLAS can count
  if (!bf16_available()) return;
  const InPrecision bf16(Precision::bf16);
  CHECK_FALSE(by_blas(m, k, n, Rows::together));
}

TEST_CASE("products: of whatever rows and threads, a row that is apart has the same bits") {
  const test::ThreadsScope scope(1);
  const Tensor a = randn({m, k}), b = randn({k, n}, DType::f32, 2);
  const Tensor all = matmul(a, b), one = matmul(a.slice(7, 8), b);
  CHECK(identical(all.slice(7, 8), one));
  const Tensor together = matmul(a, b, {}, Rows::together);
  const Tensor sums = matmul(a, all, {.a = true}, Rows::together);
  for (int threads : {2, 3}) {
    set_threads(threads);
    CHECK(identical(matmul(a, b), all));
    CHECK(identical(matmul(a, b, {}, Rows::together), together));
    CHECK(identical(matmul(a, all, {.a = true}, Rows::together), sums));
  }
}

TEST_CASE("products: where OpenBLAS would wait for memory for ever, there is an error") {
  if (!blas_is_chosen()) return;
  const std::string error = "matmul: there is no memory for a buffer of OpenBLAS, 134 MB";
  CHECK(products_with({{"ATTUNE_TEST_ROOM", "64"}}) == error + "; " + error);
  const std::string one = products_with({{"ATTUNE_TEST_ROOM", "200"}});
  CHECK_MESSAGE(one.find("no error") != one.npos, one);
  CHECK(products_with({{"ATTUNE_TEST_ROOM", "600"}}) == "no error; no error");
}

TEST_CASE("products: OpenBLAS starts no thread, and its setting for other users is kept") {
  if (!blas_is_chosen()) return;
  CHECK(products_with({{"ATTUNE_TEST_THREADS", "1"}, {"OPENBLAS_NUM_THREADS", "3"}}) == "1 3");
}

}  // namespace attune
