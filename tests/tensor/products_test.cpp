// Backend selection of matrix products, by the environment.

#include <map>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <hwy/base.h>

#include <attune/tensor/matmul.hpp>
#include <attune/tensor/precision.hpp>

#include "support/naive.hpp"
#include "support/process.hpp"
#include "support/threads_scope.hpp"

namespace attune {
namespace {

/// A product of this size is large enough for OpenBLAS.
constexpr Index m = 600, k = 800, n = 1200;

/// Output of a child process with these variables: the result of matmul_backends(), or its error.
std::string products_with(std::map<std::string, std::string> environment) {
  for (const char* name : {"ATTUNE_PRODUCTS", "ATTUNE_TARGET"}) environment.try_emplace(name, "");
  const auto child =
      test::run_test_case("backends: the child of *", {.environment = std::move(environment)});
  REQUIRE_MESSAGE(child.status == 0, child.out);
  const std::size_t begin = child.out.find("products=") + 9;
  return child.out.substr(begin, child.out.find('\n', begin) - begin);
}

}  // namespace

TEST_CASE("backends: the child of another test" * doctest::skip()) {
  std::string text;
  try {
    text = matmul_backends();
    const bool fuses = simd_target().starts_with("avx") || simd_target().starts_with("neon");
    CHECK(matmul_backends_used() == (fuses ? portable_matmul_backend : text));
    const Tensor a = randn({m, k}), b = randn({k, n}, DType::f32, 2), c = matmul(a, b);
    const bool blas = !text.starts_with("attune");
    CHECK((matmul_backends_used() == text) == (!fuses || blas));
    const Precision fastest = fastest_precision(Precision::bf16);
    if (const InPrecision in(fastest); fastest == Precision::bf16) {
      matmul(a, b);
      CHECK(matmul_backends().find(", bf16 by ") != matmul_backends().npos);
    }
    CHECK((matmul_backends_used() == portable_matmul_backend) ==
          (fuses && !blas && fastest == Precision::f32));
    // With our kernels a row does not depend on the others; OpenBLAS is not called for few rows.
    CHECK(difference(c.slice(0, 4), matmul(a.slice(0, 4), b)) <= (blas ? 1e-4 : 0));
  } catch (const Error& error) {
    text = error.what();
    CHECK_THROWS_WITH(matmul(zeros({m, k}), zeros({k, n})), error.what());
  }
  fmt::print("products={}\n", text);
}

TEST_CASE("backends: ATTUNE_PRODUCTS selects the backend") {
  const std::string own = "attune (" + simd_target() + ")";
  CHECK(products_with({}) == products_with({{"ATTUNE_PRODUCTS", "attune"}}));
  CHECK(products_with({{"ATTUNE_TARGET", simd_target()}}) == own);
  CHECK(products_with({{"ATTUNE_PRODUCTS", "mkl"}}) ==
        "ATTUNE_PRODUCTS: 'mkl' is neither attune, nor openblas, nor the path of a library with "
        "CBLAS "
        "(with a '/')");
  CHECK(products_with({{"ATTUNE_PRODUCTS", "/nowhere/libmkl_rt.so"}})
            .starts_with("ATTUNE_PRODUCTS: libmkl_rt.so: "));
  const std::string forced =
      products_with({{"ATTUNE_PRODUCTS", "openblas"}, {"OPENBLAS_CORETYPE", "Haswell"}});
  const std::string core = HWY_ARCH_X86_64 ? "Haswell) and attune (" : "";
  CHECK_MESSAGE((forced.starts_with("ATTUNE_PRODUCTS: OpenBLAS: ") ||
                 forced.starts_with("OpenBLAS (" + core)),
                forced);
}

TEST_CASE("backends: a row gives the same bits for any number of rows and threads") {
  const test::ThreadsScope scope(1);
  const Tensor a = randn({m, k}), b = randn({k, n}, DType::f32, 2);
  const Tensor all = matmul(a, b), one = matmul(a.slice(7, 8), b);
  CHECK(identical(all.slice(7, 8), one));
  const Tensor sums = matmul(a, all, {.a = true});
  for (int threads : {2, 3}) {
    set_threads(threads);
    CHECK(identical(matmul(a, b), all));
    CHECK(identical(matmul(a, all, {.a = true}), sums));
  }
}

}  // namespace attune
