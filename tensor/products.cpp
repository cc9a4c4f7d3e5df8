#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string_view>

#include <fmt/format.h>

#include <attune/tensor/blas.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/precision.hpp>
#include <attune/tensor/product_sizes.hpp>
#include <attune/tensor/products.hpp>
#include <attune/tensor/simd_target.hpp>

namespace attune {
namespace {

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool choose_blas() {
  const std::string_view wanted = environment("ATTUNE_PRODUCTS");
  if (wanted == "attune") return false;
  if (wanted.empty()) return environment("ATTUNE_TARGET").empty() && detail::blas_is_as_wide();
  if (wanted != "openblas") {
    fail("ATTUNE_PRODUCTS", fmt::format("'{}' is neither openblas nor attune", wanted));
  }
  if (detail::blas_name().empty()) fail("ATTUNE_PRODUCTS", "attune was built without BLAS");
  return true;
}

bool uses_blas() {
  static const bool chosen = choose_blas();
  return chosen;
}

}  // namespace

std::string products() {
  const std::string own = "attune (" + simd_target() + ")";
  return uses_blas() ? detail::blas_name() + " and " + own : own;
}

namespace detail {

template <class T>
bool made_by_blas(const MatrixView<const T>& a, const MatrixView<const T>& b, Rows rows) {
  const Index fewest_rows = a.transposed ? sizes::blas_rows : sizes::blas_batch_rows;
  return rows == Rows::together && a.rows >= fewest_rows && b.cols >= sizes::blas_columns &&
         a.cols >= sizes::blas_depth && a.rows * a.cols * b.cols >= sizes::blas_work &&
         std::max({a.rows, a.cols, a.stride, b.cols, b.stride}) <=
             std::numeric_limits<int>::max() &&
         !in_bf16<T>() && uses_blas();
}
template bool made_by_blas(const MatrixView<const float>&, const MatrixView<const float>&, Rows);
template bool made_by_blas(const MatrixView<const double>&, const MatrixView<const double>&, Rows);

}  // namespace detail
}  // namespace attune
