#include <algorithm>
#include <bit>
#include <string_view>
#include <type_traits>

#include <sys/mman.h>

#include <attune/tensor/blas.hpp>
#include <attune/tensor/check.hpp>
#include <attune/tensor/product_sizes.hpp>
#include <attune/tensor/simd/dispatch.hpp>
#include <attune/tensor/threads.hpp>

// BLAS's interface for C is the same in every library, but the name of its header is not.
extern "C" {
void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                 const float* a, int stride_a, const float* b, int stride_b, float beta, float* c,
                 int stride_c);
void cblas_dgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha,
                 const double* a, int stride_a, const double* b, int stride_b, double beta,
                 double* c, int stride_c);
// Null in any other library.
[[gnu::weak]] void openblas_set_num_threads(int threads);
[[gnu::weak]] const char* openblas_get_corename();
}

namespace attune::detail {
namespace {

/// OpenBLAS maps a buffer of this size for each running call. If that fails, it retries for ever.
constexpr std::size_t buffer_bytes = std::size_t{128} << 20;

/// Before a thread's first call: limits OpenBLAS to one thread per call, and throws OutOfMemory
/// unless a buffer can be mapped.
void prepare() {
  static const bool alone = (openblas_set_num_threads(1), true);
  thread_local bool has_room = false;
  if (has_room) return;
  void* room = mmap(nullptr, buffer_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                    /*fd=*/-1, /*offset=*/0);
  if (room == MAP_FAILED) throw OutOfMemory("", "a buffer of OpenBLAS", buffer_bytes);
  munmap(room, buffer_bytes);
  has_room = alone;
}

template <class T>
void call(const MatrixView<const T>& a, const MatrixView<const T>& b, const MatrixView<T>& c,
          Into into) {
  if (openblas_set_num_threads) prepare();
  constexpr int row_major = 101, as_it_is = 111, transposed = 112;  // of BLAS's interface for C
  const auto transpose = [](const auto& x) { return x.transposed ? transposed : as_it_is; };
  const auto size = [](Index n) { return static_cast<int>(n); };
  const auto product = [&](auto gemm) {
    gemm(row_major, transpose(a), transpose(b), size(c.rows), size(c.cols), size(a.cols), T(1),
         a.data, size(a.stride), b.data, size(b.stride), into == Into::add ? T(1) : T(0), c.data,
         size(c.stride));
  };
  if constexpr (std::is_same_v<T, float>) {
    product(cblas_sgemm);
  } else {
    product(cblas_dgemm);
  }
}

}  // namespace

std::string blas_name() {
  if (!openblas_get_corename) return ATTUNE_BLAS;
  return std::string("OpenBLAS (") + openblas_get_corename() + ")";
}

bool blas_is_as_wide() {
  if (!openblas_get_corename) return true;
  const std::string_view kernels = openblas_get_corename(), ours = simd::target();
  const bool avx512 =
      kernels == "SkylakeX" || kernels == "Cooperlake" || kernels == "SapphireRapids";
  if (ours.starts_with("AVX3")) return avx512;
  return ours != "AVX2" || avx512 || kernels == "Haswell" || kernels == "Zen";
}

template <class T>
void blas_gemm(const MatrixView<const T>& a, const MatrixView<const T>& b, const MatrixView<T>& c,
               Into into) {
  // A power of two, which any usual number of threads shares evenly.
  const auto wanted = static_cast<std::uint64_t>(c.rows * c.cols * a.cols / sizes::blas_call_work);
  const Index calls =
      std::clamp<Index>(static_cast<Index>(std::bit_floor(wanted)), 1, sizes::most_blas_calls);
  // BLAS's kernels take 48 rows or columns at a time, or a divisor of 48. Calls differ by 48 at
  // most, so that threads end together.
  const Index longest = std::max(c.rows, c.cols), pieces = (longest + 47) / 48;
  parallel_for(calls, [&](Index i) {
    const Index begin = i * pieces / calls * 48,
                end = std::min(longest, (i + 1) * pieces / calls * 48);
    if (c.rows > c.cols) {
      call(a.row_range(begin, end), b, c.row_range(begin, end), into);
    } else {
      call(a, b.column_range(begin, end), c.column_range(begin, end), into);
    }
  });
}
template void blas_gemm(const MatrixView<const float>&, const MatrixView<const float>&,
                        const MatrixView<float>&, Into);
template void blas_gemm(const MatrixView<const double>&, const MatrixView<const double>&,
                        const MatrixView<double>&, Into);

}  // namespace attune::detail
