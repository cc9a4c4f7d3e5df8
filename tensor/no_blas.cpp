// In the place of blas.cpp where attune is built without BLAS.
#include <attune/tensor/blas.hpp>

namespace attune::detail {

std::string blas_name() { return {}; }
bool blas_is_as_wide() { return false; }

template <class T>
void blas_gemm(const MatrixView<const T>& a, const MatrixView<const T>& b, const MatrixView<T>& c,
               Into into) {
  gemm<T>(a, b, c, into);
}
template void blas_gemm(const MatrixView<const float>&, const MatrixView<const float>&,
                        const MatrixView<float>&, Into);
template void blas_gemm(const MatrixView<const double>&, const MatrixView<const double>&,
                        const MatrixView<double>&, Into);

}  // namespace attune::detail
