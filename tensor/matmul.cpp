#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <type_traits>
#include <vector>

#include <fmt/format.h>
#ifdef ATTUNE_BLAS
#include <dlfcn.h>
#include <sys/mman.h>
#endif

#include <attune/tensor/check.hpp>
#include <attune/tensor/elementwise.hpp>
#include <attune/tensor/matmul.hpp>
#include <attune/tensor/precision.hpp>
#include <attune/tensor/product_sizes.hpp>
#include <attune/tensor/simd/dispatch.hpp>
#include <attune/tensor/threads.hpp>

namespace attune {
namespace {

using namespace detail;
using namespace sizes;

// OpenBLAS

#ifdef ATTUNE_BLAS

/// A product in BLAS's interface for C.
template <class T>
using Gemm = void(int order, int transpose_a, int transpose_b, int m, int n, int k, T alpha,
                  const T* a, int stride_a, const T* b, int stride_b, T beta, T* c, int stride_c);

struct OpenBlas {
  Gemm<float>* sgemm = nullptr;
  Gemm<double>* dgemm = nullptr;
  void* (*take_buffer)(int) = nullptr;
  void (*give_buffer)(void*) = nullptr;
  std::string kernels;
  /// Whether several threads may call it at once. Of its variants only the pthread one locks its
  /// table of buffers; in the serial and OpenMP ones, two threads can take the same buffer, and
  /// their products are wrong.
  bool thread_safe = false;
  std::string error;  // why it is not loaded
};

/// Loads it with OPENBLAS_NUM_THREADS=1. The pthread variant otherwise starts threads at once.
/// attune calls it with one thread per call and needs none of them; but in a process that has
/// threads every allocation takes a lock and every count of references is an atomic (8 % of the
/// smallest models' training), and theirs never end where the address space is limited.
OpenBlas load_openblas() {
  const char* const variable = "OPENBLAS_NUM_THREADS";
  const char* const value = std::getenv(variable);
  const std::string before = value ? value : "";
  setenv(variable, "1", /*overwrite=*/1);
  void* const library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  value ? setenv(variable, before.c_str(), 1) : unsetenv(variable);

  OpenBlas blas;
  if (!library) {
    blas.error = dlerror();
    return blas;
  }
  const auto find = [&]<class F>(F*& function, const char* name) {
    function = reinterpret_cast<F*>(dlsym(library, name));
    if (!function) blas.error = fmt::format("libopenblas.so.0 has no {}", name);
  };
  void (*set_num_threads)(int);
  const char* (*get_corename)();
  int (*get_parallel)();
  find(blas.sgemm, "cblas_sgemm");
  find(blas.dgemm, "cblas_dgemm");
  find(blas.take_buffer, "blas_memory_alloc");
  find(blas.give_buffer, "blas_memory_free");
  find(set_num_threads, "openblas_set_num_threads");
  find(get_corename, "openblas_get_corename");
  find(get_parallel, "openblas_get_parallel");
  if (!blas.error.empty()) return blas;
  set_num_threads(1);  // where the process had loaded it before
  blas.kernels = get_corename();
  blas.thread_safe = get_parallel() == 1;
  return blas;
}

const OpenBlas& openblas() {
  static const OpenBlas loaded = load_openblas();
  return loaded;
}

/// A call to OpenBLAS, which takes a buffer for as long as it runs. OpenBLAS keeps the buffers of
/// calls that have ended, and maps another where more calls run at once than ever before; if that
/// fails, it retries for ever. Hence such a call maps the buffer first, and throws OutOfMemory
/// where there is no room for it.
class Call {
 public:
  Call() {
    ++running;
    try {
      if (running > mapped) map_buffers();
    } catch (...) {
      --running;
      throw;
    }
  }
  ~Call() { --running; }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  static void map_buffers() {
    constexpr std::size_t bytes = std::size_t{128} << 20;
    static std::mutex mutex;
    static std::set<void*> buffers;
    const std::lock_guard lock(mutex);
    std::vector<std::unique_ptr<void, void (*)(void*)>> held;
    for (; std::ssize(buffers) < running; mapped = static_cast<int>(buffers.size())) {
      void* const room = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                              /*fd=*/-1, /*offset=*/0);
      if (room == MAP_FAILED) throw OutOfMemory("", "a buffer of OpenBLAS", bytes);
      munmap(room, bytes);
      held.emplace_back(openblas().take_buffer(0), openblas().give_buffer);
      buffers.insert(held.back().get());
    }
  }

  static inline std::atomic<int> running = 0, mapped = 0;
};

template <class T>
void blas_call(const MatrixView<const T>& a, const MatrixView<const T>& b, const MatrixView<T>& c,
               Into into) {
  constexpr int row_major = 101, as_it_is = 111, transposed = 112;  // of BLAS's interface for C
  const auto transpose = [](const auto& x) { return x.transposed ? transposed : as_it_is; };
  const auto size = [](Index n) { return static_cast<int>(n); };
  Gemm<T>* gemm;
  if constexpr (std::is_same_v<T, float>) {
    gemm = openblas().sgemm;
  } else {
    gemm = openblas().dgemm;
  }
  const Call call;
  gemm(row_major, transpose(a), transpose(b), size(c.rows), size(c.cols), size(a.cols), T(1),
       a.data, size(a.stride), b.data, size(b.stride), into == Into::add ? T(1) : T(0), c.data,
       size(c.stride));
}

/// Whether the kernels of OpenBLAS use all of the registers that ours use.
bool openblas_is_as_wide() {
  const std::string_view kernels = openblas().kernels, ours = simd::target();
  const bool avx512 =
      kernels == "SkylakeX" || kernels == "Cooperlake" || kernels == "SapphireRapids";
  if (ours.starts_with("AVX3")) return avx512;
  return ours != "AVX2" || avx512 || kernels == "Haswell" || kernels == "Zen";
}

#else

struct OpenBlas {
  std::string kernels, error = "attune was built without it";
  bool thread_safe = false;
};

OpenBlas openblas() { return {}; }
constexpr bool openblas_is_as_wide() { return false; }

#endif

// Who multiplies

std::string_view environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool choose_blas() {
  const std::string_view wanted = environment("ATTUNE_PRODUCTS");
  if (wanted == "attune") return false;
  if (wanted.empty()) {
    return environment("ATTUNE_TARGET").empty() && openblas().thread_safe && openblas_is_as_wide();
  }
  if (wanted != "openblas") {
    fail("ATTUNE_PRODUCTS", in_quotes(wanted) + " is neither openblas nor attune");
  }
  if (!openblas().error.empty()) fail("ATTUNE_PRODUCTS", "OpenBLAS: " + openblas().error);
  if (!openblas().thread_safe) {
    fail("ATTUNE_PRODUCTS", "only OpenBLAS's pthread variant can be called by several threads");
  }
  return true;
}

bool uses_blas() {
  static const bool chosen = choose_blas();
  return chosen;
}

// Packed matrices that are kept with the buffer they were packed from

/// Forms of one buffer: of a weight's two parts and of their transposes, and some to spare.
constexpr std::size_t most_forms = 8;

/// The packed forms of one buffer's contents.
template <class T>
class PackedForms final : public Attachment {
 public:
  /// `modified_at` says of which contents.
  PackedMatrix<T> get(const MatrixView<const T>& b, std::uint64_t modified_at, Uses uses) {
    {
      std::lock_guard lock(mutex_);
      Form* form = find(b);
      if (!form && forms_.size() == most_forms) return {};
      if (!form) form = &forms_.emplace_back(Form{b, 0, {}});
      if (form->packed.bf16() != in_bf16<T>()) form->packed = {};
      if (form->modified_at == modified_at && form->packed.defined()) return form->packed;
      // What paid for the contents before will pay again.
      const bool pays =
          uses == Uses::many || form->modified_at == modified_at || form->packed.defined();
      form->modified_at = modified_at;
      observe();          // a later write gets another number
      form->packed = {};  // its memory serves the next one
      if (!pays) return {};
    }
    // Another thread may be packing the same matrix: both copies are right, and one is kept. The
    // matrix does not change meanwhile: writing to it during a product is a data race of the
    // caller.
    PackedMatrix<T> packed(b);
    std::lock_guard lock(mutex_);
    Form* form = find(b);
    if (form->modified_at == modified_at) form->packed = packed;
    return packed;
  }

 private:
  struct Form {
    MatrixView<const T> of;
    std::uint64_t modified_at;
    PackedMatrix<T> packed;
  };

  Form* find(const MatrixView<const T>& b) {
    const auto form = std::ranges::find_if(forms_, [&](const Form& f) { return f.of == b; });
    return form == forms_.end() ? nullptr : &*form;
  }

  std::mutex mutex_;
  std::vector<Form> forms_;
};

}  // namespace

namespace detail {

std::string blas_name() {
  return openblas().kernels.empty() ? "" : "OpenBLAS (" + openblas().kernels + ")";
}

#ifdef ATTUNE_BLAS

template <class T>
void blas_gemm(const MatrixView<const T>& a, const MatrixView<const T>& b, const MatrixView<T>& c,
               Into into) {
  product_of_this_cpu.store(true, std::memory_order_relaxed);
  // A power of two, which any usual number of threads shares evenly.
  const auto wanted = static_cast<std::uint64_t>(c.rows * c.cols * a.cols / blas_call_work);
  const Index calls =
      std::clamp<Index>(static_cast<Index>(std::bit_floor(wanted)), 1, most_blas_calls);
  // BLAS's kernels take 48 rows or columns at a time, or a divisor of 48. Calls differ by 48 at
  // most, so that threads end together.
  const Index longest = std::max(c.rows, c.cols), pieces = (longest + 47) / 48;
  parallel_for(calls, [&](Index i) {
    const Index begin = i * pieces / calls * 48,
                end = std::min(longest, (i + 1) * pieces / calls * 48);
    if (c.rows > c.cols) {
      blas_call(a.row_range(begin, end), b, c.row_range(begin, end), into);
    } else {
      blas_call(a, b.column_range(begin, end), c.column_range(begin, end), into);
    }
  });
}

#else

template <class T>
void blas_gemm(const MatrixView<const T>& a, const MatrixView<const T>& b, const MatrixView<T>& c,
               Into into) {
  gemm<T>(a, b, c, into);
}

#endif

template void blas_gemm(const MatrixView<const float>&, const MatrixView<const float>&,
                        const MatrixView<float>&, Into);
template void blas_gemm(const MatrixView<const double>&, const MatrixView<const double>&,
                        const MatrixView<double>&, Into);

template <class T>
bool made_by_blas(const MatrixView<const T>& a, const MatrixView<const T>& b, Rows rows) {
  const Index fewest_rows = a.transposed ? blas_rows : blas_batch_rows;
  return rows == Rows::together && a.rows >= fewest_rows && b.cols >= blas_columns &&
         a.cols >= blas_depth && a.rows * a.cols * b.cols >= blas_work &&
         std::max({a.rows, a.cols, a.stride, b.cols, b.stride}) <=
             std::numeric_limits<int>::max() &&
         !in_bf16<T>() && uses_blas();
}
template bool made_by_blas(const MatrixView<const float>&, const MatrixView<const float>&, Rows);
template bool made_by_blas(const MatrixView<const double>&, const MatrixView<const double>&, Rows);

template <class T>
PackedMatrix<T> kept_packed(const Tensor& owner, const MatrixView<const T>& b, Uses uses) {
  if (uses == Uses::one && b.rows * b.cols < few_elements) return {};
  Buffer& buffer = buffer_of(owner);
  const std::uint64_t modified_at = buffer.modified_at.load(std::memory_order_relaxed);
  // The packed forms are made when they are first asked for. If several threads make them at once,
  // one of them sets the pointer (release), and the others use its object (acquire), which exists
  // until the buffer is freed. The elements of a buffer never change their type T.
  Attachment* forms = buffer.attachment.load(std::memory_order_acquire);
  if (!forms) {
    auto made = std::make_unique<PackedForms<T>>();
    if (buffer.attachment.compare_exchange_strong(forms, made.get(), std::memory_order_acq_rel)) {
      forms = made.release();
    }
  }
  return static_cast<PackedForms<T>&>(*forms).get(b, modified_at, uses);
}
template PackedMatrix<float> kept_packed(const Tensor&, const MatrixView<const float>&, Uses);
template PackedMatrix<double> kept_packed(const Tensor&, const MatrixView<const double>&, Uses);

}  // namespace detail

std::string products() {
  const std::string own = "attune (" + simd_target() + ")";
  return uses_blas() ? blas_name() + " and " + own : own;
}

std::string products_used() {
  const std::string target = simd_target();
  const bool has_fma = target.starts_with("avx") || target.starts_with("neon");
  return has_fma && !detail::product_of_this_cpu ? products_of_any_cpu : products();
}

// Products of tensors

namespace {

template <class T>
MatrixView<const T> matrix(const Tensor& x, bool transposed) {
  const Index cols = x.dim(-1), rows = x.shape().product(0, x.rank() - 1);
  const MatrixView<const T> view{x.data<T>(), rows, cols, cols};
  return transposed ? view.transpose() : view;
}

/// C = A·B or C += A·B for columns of c from `column` on, or C = start + A·B. B may be used again, as
/// a weight is at the steps of a decoder: a packed form of it is kept where that pays.
void multiply(const char* operation, const Tensor& a, const Tensor& b, Transpose transpose,
              Tensor& c, Into into, Rows rows, Index column = 0, const Tensor& start = {}) {
  visit_floating(operation, a, [&](auto zero) {
    using T = decltype(zero);
    const MatrixView<const T> x = matrix<T>(a, transpose.a), y = matrix<T>(b, transpose.b);
    const MatrixView<T> to{c.mutable_data<T>() + column, x.rows, y.cols, c.dim(-1)};
    const bool by_blas = made_by_blas(x, y, rows) && to.stride <= std::numeric_limits<int>::max();
    if (start.defined() && (by_blas || x.rows <= few_rows)) {
      copy(broadcast_to(start, c.shape()), c);
      return multiply(operation, a, b, transpose, c, Into::add, rows);
    }
    if (by_blas) return blas_gemm(x, y, to, into);
    // One row reads B as it is just as fast, unless it is transposed.
    const bool may_keep = !x.transposed && x.rows < many_rows && (x.rows > 1 || y.transposed) &&
                          y.cols >= few_columns;
    PackedMatrix<T> packed = may_keep ? kept_packed(b, y, Uses::one) : PackedMatrix<T>();
    if (start.defined()) {
      if (!packed.defined()) packed.pack(y);
      return gemm<T>(x, packed, to,
                     {start.data<T>(), x.rows, y.cols, start.rank() == 1 ? 0 : y.cols});
    }
    packed.defined() ? gemm<T>(x, packed, to, into) : gemm<T>(x, y, to, into);
  });
}

[[noreturn]] void fail_product(const char* operation, const Tensor& a, const Tensor& b,
                               Transpose transpose) {
  fail(operation,
       fmt::format("shapes do not fit: {}{} x {}{}", to_string(a.shape()), transpose.a ? "ᵀ" : "",
                   to_string(b.shape()), transpose.b ? "ᵀ" : ""));
}

}  // namespace

Tensor add_matmul(const Tensor& y, const Tensor& a, const Tensor& b, Transpose transpose,
                  Rows rows) {
  const char* const operation = y.defined() ? "add_matmul" : "matmul";
  require_same_dtype(operation, a, b);
  const bool fits = a.rank() >= 1 && b.rank() == 2 && (!transpose.a || a.rank() == 2) &&
                    a.dim(transpose.a ? 0 : -1) == b.dim(transpose.b ? 1 : 0);
  if (!fits) fail_product(operation, a, b, transpose);
  const Index n = b.dim(transpose.b ? 0 : 1);
  const Shape shape = transpose.a ? Shape{a.dim(1), n} : a.shape().with(-1, n);
  if (y.defined()) require_same_dtype(operation, a, y);
  if (y.defined() && y.shape() != shape && y.shape() != Shape{n}) {
    fail(operation, fmt::format("{} cannot be added to the product {}", to_string(y.shape()),
                                to_string(shape)));
  }
  Tensor c = Tensor::uninitialized(shape, a.dtype(), operation);
  multiply(operation, a, b, transpose, c, Into::overwrite, rows, 0, y);
  return c;
}

Tensor batched_matmul(const Tensor& a, const Tensor& b, Transpose transpose) {
  require_same_dtype("batched_matmul", a, b);
  const bool fits = a.rank() >= 2 && a.rank() == b.rank() &&
                    std::equal(a.shape().begin(), a.shape().end() - 2, b.shape().begin()) &&
                    a.dim(transpose.a ? -2 : -1) == b.dim(transpose.b ? -1 : -2);
  if (!fits) fail_product("batched_matmul", a, b, transpose);
  const Index rows = a.dim(-2), cols = a.dim(-1), m = a.dim(transpose.a ? -1 : -2);
  const Index b_rows = b.dim(-2), b_cols = b.dim(-1), n = b.dim(transpose.b ? -2 : -1);
  Tensor c = Tensor::uninitialized(a.shape().with(-2, m).with(-1, n), a.dtype(), "batched_matmul");
  const auto compute = [&]<class T>(const T* from_a, const T* from_b, T* to) {
    const Index work = std::max<Index>(1, rows * cols * n);
    parallel_ranges(
        a.shape().product(0, a.rank() - 2), std::max<Index>(1, small_product / work),
        [&](Index begin, Index end) {
          PackedMatrix<T> room;
          for (Index i = begin; i < end; ++i) {
            const MatrixView<const T> x{from_a + i * rows * cols, rows, cols, cols};
            const MatrixView<const T> y{from_b + i * b_rows * b_cols, b_rows, b_cols, b_cols};
            gemm<T>(transpose.a ? x.transpose() : x, transpose.b ? y.transpose() : y,
                    {to + i * m * n, m, n, n}, Into::overwrite, &room);
          }
        });
  };
  visit_elements("batched_matmul", std::tie(a, b, c), compute);
  return c;
}

void add_product(const Tensor& a, const Tensor& b, Tensor& c, Index column) {
  require_same_dtype("add_product", a, b);
  require_same_dtype("add_product", a, c);
  ShapeCheck check("add_product");
  check("a", a.shape(), "M K")("b", b.shape(), "M N")("c", c.shape(), "K C");
  if (are_same_or_apart("add_product", a, c) || are_same_or_apart("add_product", b, c)) {
    fail("add_product", "c is also a factor");
  }
  if (column < 0 || column > check['C'] - check['N']) {
    fail("add_product", fmt::format("columns {} to {} of {} do not exist", column,
                                    column + check['N'], to_string(c.shape())));
  }
  multiply("add_product", a, b, {.a = true}, c, Into::add, Rows::together, column);
}

}  // namespace attune
