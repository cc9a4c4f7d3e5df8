#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

#include <fmt/format.h>

#include <attune/tensor/kernels/gemm.hpp>
#include <attune/tensor/kernels/product_sizes.hpp>
#include <attune/tensor/kernels/simd/gemm.hpp>
#include <attune/tensor/kernels/simd/tiles.hpp>
#include <attune/tensor/threads.hpp>

namespace attune {
namespace {

using namespace detail::sizes;

Index rounded_up(Index n, Index step) { return ceil_div(n, step) * step; }

constexpr Index widest = std::numeric_limits<Index>::max();

struct Tile {
  Index row, rows, column, columns;
};

template <class T>
simd::Strided<T> strided(const MatrixView<const T>& x) {
  return {x.data, x.transposed ? 1 : x.stride, x.transposed ? x.stride : 1};
}

/// Initialises C with the values before the first multiply-add.
template <class T>
void begin(const MatrixView<T>& c, simd::Start<T> start) {
  if (start.data == c.data) return;
  for (Index i = 0; i < c.rows; ++i) {
    T* row = c.data + i * c.stride;
    start.data ? std::copy_n(start.data + i * start.stride, c.cols, row)
               : std::fill_n(row, c.cols, T(0));
  }
}

template <class T>
T* scratch(Tensor& storage, Index size) {
  storage = Tensor::uninitialized({size}, dtype_of<T>);
  return storage.template mutable_data<T>();
}

/// simd::to_pairs in parallel.
simd::Strided<float> paired(const simd::Strided<float>& x, Index rows, Index depth, float* to) {
  const Index steps = simd::pairs(depth);
  if (x.column == 1) {
    parallel_ranges(rows, std::max<Index>(1, conversion_work / std::max<Index>(1, depth)),
                    [&](Index begin, Index end) {
                      simd::to_pairs(x.from(begin, 0), end - begin, depth, to + begin * steps);
                    });
    return {to, steps, 1};
  }
  parallel_ranges(steps, std::max<Index>(1, conversion_work / std::max<Index>(1, rows)),
                  [&](Index begin, Index end) {
                    simd::to_pairs(x.from(0, 2 * begin), rows, std::min(2 * end, depth) - 2 * begin,
                                   to + begin * rows);
                  });
  return {to, 1, rows};
}

/// Converts x to the format of tiles, in parallel and in the order in which x is stored.
simd::Strided<float> tiled(const simd::Strided<float>& x, Index rows, Index depth,
                           const simd::TileForm& form, float* to) {
  const Index steps = form.steps(depth), blocks = ceil_div(depth, tile_width),
              height = x.row == 1 ? std::clamp(rows, tile_width, conversion_work / tile_width)
                                  : tile_width;
  parallel_each(
      ceil_div(rows, height) * blocks, conversion_work / (height * tile_width), [&](Index i) {
        const Index row = i / blocks * height, k = i % blocks * tile_width;
        simd::to_tiles(
            x.from(row, k), std::min(height, rows - row), depth - k, form, steps,
            to + row * steps + form.steps(k) * (form.panels ? tile_width : tile_width / 2));
      });
  return {to, steps, tile_width / 2};
}

/// How products of two T are computed: in T, or in bf16 by AMX tiles or by vectors (simd/gemm.hpp).
template <class T>
struct Arithmetic {
  Precision precision;
  bool split = precision == Precision::bf16x3, f32 = precision == Precision::f32,
       tiles = !f32 && simd::has_tiles();

  /// Width of a panel of B, if B has `columns` columns; and the granularity of rows (`height`).
  Index width(Index columns) const {
    return tiles ? tile_width : simd::panel_width<T>(f32 ? columns : widest);
  }
  Index height() const { return tiles ? tile_width : 1; }
  /// Elements of T that hold `depth` steps of k of one column of B, or of one row of A.
  Index steps(Index depth) const {
    return f32 ? depth : tiles ? simd::TileForm{split, false}.steps(depth) : simd::pairs(depth);
  }
  Index block() const { return tiles ? tile_depth_block : depth_block; }

  /// A in the format that the kernel reads; converted copies are stored in `storage`.
  simd::Strided<T> prepare(const simd::Strided<T>& a, Index rows, Index depth,
                           Tensor& storage) const {
    if constexpr (std::is_same_v<T, float>) {
      if (f32) return a;
      T* to = scratch<T>(storage, rounded_up(rows, height()) * steps(depth));
      return tiles ? tiled(a, rows, depth, {split, /*panels=*/false}, to)
                   : paired(a, rows, depth, to);
    }
    return a;
  }

  /// Packs B into panels.
  void pack(const MatrixView<const T>& b, T* panels) const {
    const Index panel = width(b.cols), n = steps(b.rows);
    if constexpr (std::is_same_v<T, float>) {
      if (tiles) return void(tiled(strided(b.transpose()), b.cols, b.rows, {split, true}, panels));
    }
    parallel_ranges(b.cols, 4 * panel, [&](Index begin, Index end) {
      Tensor storage;
      const simd::Strided<T> x =  // columns of B as rows
          prepare(strided(b.transpose().row_range(begin, end)), end - begin, b.rows, storage);
      simd::pack_panels({x.data, x.column, x.row}, n, end - begin, panel, panels + begin * n);
    });
  }

  void run(const simd::PanelProduct<T>& product) const {
    if constexpr (std::is_same_v<T, float>) {
      if (tiles) return simd::run_tiles(product, split);
      if (!f32) return simd::run_pairs(product);
    }
    simd::run(product);
  }
};

template <class T>
void check_shapes(const MatrixView<const T>& a, Index b_rows, Index b_cols,
                  const MatrixView<T>& c) {
  if (a.cols != b_rows || a.rows != c.rows || b_cols != c.cols || c.transposed) {
    fail("gemm", fmt::format("shapes do not fit: ({}, {}) x ({}, {}) -> ({}, {})", a.rows, a.cols,
                             b_rows, b_cols, c.rows, c.cols));
  }
}

template <class T>
bool is_large(const MatrixView<const T>& b) {
  return b.rows * b.cols > packed_before;
}
/// True if B is read as fast without packing.
template <class T>
bool is_close(const MatrixView<const T>& b) {
  return !b.transposed && b.stride <= read_directly;
}

/// State that the tiles of a product share.
template <class T>
class Product {
 public:
  Product(const MatrixView<const T>& a, const MatrixView<T>& c, simd::Start<T> start,
          Arithmetic<T> arithmetic)
      : a_(strided(a)), depth_(a.cols), c_(c), start_(start), arithmetic_(arithmetic) {
    if (depth_ == 0) begin(c, start);
    if (!empty()) a_ = arithmetic.prepare(a_, a.rows, depth_, storage_);
  }

  bool empty() const { return c_.rows == 0 || c_.cols == 0 || depth_ == 0; }

  /// C += A·B for few rows of A, with B (K, N) not packed, its rows `stride` apart.
  void multiply_rows(const T* b, Index stride) const {
    for_tiles(Cut(*this, max_unpacked_cols), [&](const Tile& tile) {
      const auto add = [&](Index k, Index steps, T* c, simd::Start<T> start) {
        begin({c, c_.rows, tile.columns, c_.stride}, start);
        simd::run(simd::RowProduct<T>{c_.rows, steps, tile.columns, a_.from(0, k),
                                      b + k * stride + tile.column, stride, c, c_.stride});
      };
      for_blocks(tile, chain_depth, add);
    });
  }

  /// The product with B in panels, one block of k after another.
  void multiply_panels(const T* panels) {
    const Cut cut(*this, max_cols);
    const bool packed = arrange_rows(cut);
    for_tiles(cut, [&](const Tile& tile) {
      const auto add = [&](Index step, Index steps, T* c, simd::Start<T> start) {
        const T* first = panels + tile.column * steps_ + step * width_;
        const T* next = step + steps < steps_ ? first + steps * width_ : nullptr;
        arithmetic_.run({tile.rows, steps, tile.columns, width_, rows_of(tile, step, packed), first,
                         steps_ * width_, c, c_.stride, start, packed, next});
      };
      for_blocks(tile, arithmetic_.block(), add);
    });
  }

  /// The same with B not packed: each panel is packed just before it is read, into the same memory,
  /// or is read directly if its rows are close; the next one is prefetched. A large B has one row of
  /// tiles, so that it is packed once.
  void multiply_packing(const MatrixView<const T>& b) {
    const Cut cut(*this, max_cols, is_large(b) ? c_.rows : least_rows);
    const bool packed = arrange_rows(cut);
    for_tiles(cut, [&](const Tile& tile) {
      Tensor storage;
      T* panel = scratch<T>(storage, std::min(depth_block, depth_) * width_);
      const auto add = [&](Index step, Index steps, T* c, simd::Start<T> start) {
        for (Index column = 0; column < tile.columns; column += width_) {
          const Index columns = std::min(width_, tile.columns - column);
          const simd::Strided<T> from = strided(b).from(step, tile.column + column);
          const bool ahead = from.column == 1 && column + 2 * width_ <= tile.columns;
          const bool direct = columns == width_ && is_close(b);
          if (!direct) simd::pack_panels(from, steps, columns, width_, panel);
          simd::run(simd::PanelProduct<T>{
              tile.rows, steps, columns, width_, rows_of(tile, step, packed),
              direct ? from.data : panel, steps * width_, c + column, c_.stride,
              start.from(0, column), packed, ahead ? from.data + width_ : nullptr, from.row,
              direct ? from.row : width_});
        }
      };
      for_blocks(tile, depth_block, add);
    });
  }

 private:
  /// Rows and columns of a tile of C. They depend on the shape only. With `across` x `down` tiles,
  /// A is read `across` times and B `down` times: memory traffic is least if across / down = N / M.
  struct Cut {
    Cut(const Product& p, Index columns_at_most, Index rows_at_least = least_rows) {
      const Index m = p.c_.rows, n = p.c_.cols;
      const Index wanted = std::clamp<Index>(m * n * p.depth_ / min_work, 1, enough_tiles);
      const Index best_down = std::lround(std::sqrt(static_cast<double>(wanted * m) / n));
      const Index down =
          std::max({ceil_div(m, max_rows), std::min(best_down, m / rows_at_least), Index{1}});
      const Index across = std::max(ceil_div(n, columns_at_most),
                                    std::min(ceil_div(wanted, down), ceil_div(n, p.width_)));
      rows = rounded_up(ceil_div(m, down), p.arithmetic_.height());
      columns = rounded_up(ceil_div(n, across), p.width_);
    }
    Index rows, columns;
  };

  /// Calls body(tile) for all tiles of C, in parallel.
  template <class Body>
  void for_tiles(const Cut& cut, Body body) const {
    const Index row_tiles = ceil_div(c_.rows, cut.rows),
                column_tiles = ceil_div(c_.cols, cut.columns);
    parallel_for(row_tiles * column_tiles, [&](Index tile) {
      const Index row = tile / column_tiles * cut.rows, column = tile % column_tiles * cut.columns;
      body(Tile{row, std::min(cut.rows, c_.rows - row), column,
                std::min(cut.columns, c_.cols - column)});
    });
  }

  /// Computes a tile block by block of k: body(k, steps, c, start) computes C = start + A·B.
  template <class Body>
  void for_blocks(const Tile& tile, Index block, const Body& body) const {
    T* const c = c_.data + tile.row * c_.stride + tile.column;
    simd::Start<T> start = start_.from(tile.row, tile.column);
    const bool in_chains = depth_ > most_chained;
    std::vector<double> total(in_chains ? tile.rows * tile.columns : 0);
    for (Index step = 0, end; step < steps_; step = end) {
      end = std::min(step + block, steps_);
      body(step, end - step, c, start);
      start = {c, c_.stride};
      if (!in_chains || (end % chain_depth != 0 && end < steps_)) continue;
      for (Index i = 0; i < tile.rows; ++i) {
        for (Index j = 0; j < tile.columns; ++j) {
          double& sum = total[i * tile.columns + j];
          sum += c[i * c_.stride + j];
          if (end == steps_) c[i * c_.stride + j] = static_cast<T>(sum);
        }
      }
      start = {};
    }
  }

  /// Copies A if it is read faster then. Returns true if its rows are packed.
  bool arrange_rows(const Cut& cut) {
    if (a_.row == 1 && a_.column >= packed_panels * width_) {
      pack_rows(cut);
      return true;
    }
    if (!arithmetic_.tiles && a_.row * Index{sizeof(T)} % 4096 == 0 && c_.cols >= gathered_columns)
      gather_rows();
    return false;
  }
  /// The rows of A for a tile, from this step of k on.
  simd::Strided<T> rows_of(const Tile& tile, Index step, bool packed) const {
    if (!packed) return a_.from(tile.row, step);
    return {a_.data + tile.row * steps_ + tile.rows * step, a_.row, a_.column};
  }

  /// Packs a transposed A, for each tile's rows and each block of k, in the order of the kernel.
  void pack_rows(const Cut& cut) {
    Tensor storage;
    T* to = scratch<T>(storage, c_.rows * steps_);
    const Index blocks = ceil_div(steps_, depth_block);
    parallel_for(ceil_div(c_.rows, cut.rows) * blocks, [&](Index i) {
      const Index row = i / blocks * cut.rows, step = i % blocks * depth_block;
      const Index rows = std::min(cut.rows, c_.rows - row);
      simd::pack_rows(a_.from(row, step), rows, std::min(depth_block, steps_ - step),
                      to + row * steps_ + rows * step);
    });
    a_.data = to;
    storage_ = std::move(storage);
  }

  /// Copies A to rows an odd number of cache lines apart: rows a multiple of 4096 bytes apart evict
  /// each other.
  void gather_rows() {
    Tensor storage;
    constexpr Index line = 64 / sizeof(T);
    const Index stride = (ceil_div(steps_, line) | 1) * line;
    T* to = scratch<T>(storage, c_.rows * stride);
    parallel_each(c_.rows, std::max<Index>(1, conversion_work / steps_),
                  [&](Index i) { std::copy_n(a_.data + i * a_.row, steps_, to + i * stride); });
    a_ = {to, stride, 1};
    storage_ = std::move(storage);
  }

  Tensor storage_;  // packed or converted A, if A is not read directly
  simd::Strided<T> a_;
  Index depth_;
  MatrixView<T> c_;
  simd::Start<T> start_;
  Arithmetic<T> arithmetic_;
  Index steps_ = arithmetic_.steps(depth_);
  Index width_ = arithmetic_.width(c_.cols);
};

/// A product of one tile with B packed on the stack, without the set-up of larger ones. Returns false
/// if it is too large.
template <class T>
bool multiply_small(const MatrixView<const T>& a, const MatrixView<const T>& b,
                    const MatrixView<T>& c, simd::Start<T> start) {
  const Index width = simd::panel_width<T>(b.cols), panels = rounded_up(b.cols, width);
  const Index work = a.rows * b.rows * b.cols;
  if (work == 0 || work > small_product || a.rows > max_rows || b.rows * panels > small_factor)
    return false;
  alignas(64) T packed[small_factor];
  simd::pack_panels(strided(b), b.rows, b.cols, width, packed);
  simd::run(simd::PanelProduct<T>{a.rows, b.rows, b.cols, width, strided(a), packed, b.rows * width,
                                  c.data, c.stride, start});
  return true;
}

}  // namespace

template <class T>
void gemm(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c, Into into,
          PackedMatrix<T>* workspace) {
  check_shapes(a, b.rows, b.cols, c);
  if (c.cols == 1 && c.rows > 1 && c.stride == 1) {
    // One column is computed as one row of the transposed product.
    return gemm<T>(b.transpose(), a.transpose(), {c.data, 1, c.rows, c.rows}, into, workspace);
  }
  const bool in_f32 = precision_of<T>() == Precision::f32;
  const simd::Start<T> start{into == Into::add ? c.data : nullptr, c.stride};
  if (in_f32 && multiply_small(a, b, c, start)) return;
  const Index width = simd::panel_width<T>(widest);
  const bool packing = is_large(b)
                           ? a.rows <= max_rows
                           : is_close(b) && b.cols >= width && a.rows <= direct_rows * width;
  if (in_f32 && a.rows > few_rows && packing) {
    Product<T> product(a, c, start, Arithmetic<T>{Precision::f32});
    if (!product.empty()) product.multiply_packing(b);
    return;
  }
  if (a.rows > few_rows || b.transposed || !in_f32) {
    PackedMatrix<T> own;
    if (!workspace) workspace = &own;
    workspace->pack(b);
    return gemm(a, *workspace, c, into);
  }
  const Product<T> product(a, c, start, Arithmetic<T>{Precision::f32});
  if (!product.empty()) product.multiply_rows(b.data, b.stride);
}
template void gemm(MatrixView<const float>, MatrixView<const float>, MatrixView<float>, Into,
                   PackedMatrix<float>*);
template void gemm(MatrixView<const double>, MatrixView<const double>, MatrixView<double>, Into,
                   PackedMatrix<double>*);

template <class T>
void PackedMatrix<T>::pack(const MatrixView<const T>& b) {
  rows_ = b.rows, cols_ = b.cols, precision_ = precision_of<T>();
  const Arithmetic<T> arithmetic{precision_};
  if (precision_ > detail::least_precision.load(std::memory_order_relaxed))
    detail::least_precision.store(precision_, std::memory_order_relaxed);
  const Index width = arithmetic.width(cols_), steps = arithmetic.steps(rows_);
  const Index size = steps * rounded_up(cols_, width);
  if (!storage_.unique() || storage_.size() < size) scratch<T>(storage_, size);
  T* panels = storage_.template mutable_data<T>();
  arithmetic.pack(b, panels);
  panels_ = panels;
}
template class PackedMatrix<float>;
template class PackedMatrix<double>;

template <class T>
void gemm(MatrixView<const T> a, const PackedMatrix<T>& b, MatrixView<T> c,
          MatrixView<const T> start) {
  check_shapes(a, b.rows(), b.cols(), c);
  Product<T> product(a, c, {start.data, start.stride}, Arithmetic<T>{b.precision()});
  if (!product.empty()) product.multiply_panels(b.panels());
}
template void gemm(MatrixView<const float>, const PackedMatrix<float>&, MatrixView<float>,
                   MatrixView<const float>);
template void gemm(MatrixView<const double>, const PackedMatrix<double>&, MatrixView<double>,
                   MatrixView<const double>);

namespace detail {
namespace {

/// Maximum number of packed forms of one buffer: parts of a weight and their transposes.
constexpr std::size_t max_forms = 8;

/// The packed forms of one buffer's contents.
template <class T>
class PackedForms final : public Attachment {
 public:
  /// `modified_at` is the buffer's time of modification, which identifies its contents.
  PackedMatrix<T> get(const MatrixView<const T>& b, std::uint64_t modified_at, Uses uses) {
    {
      std::lock_guard lock(mutex_);
      Form* form = find(b);
      if (!form && forms_.size() == max_forms) return {};
      if (!form) form = &forms_.emplace_back(Form{b, 0, {}});
      if (form->packed.precision() != precision_of<T>()) form->packed = {};
      if (form->modified_at == modified_at && form->packed.defined()) return form->packed;
      // If packing paid for the previous contents, it is assumed to pay again.
      const bool pays =
          uses == Uses::many || form->modified_at == modified_at || form->packed.defined();
      form->modified_at = modified_at;
      observe();          // a later write gets a larger stamp
      form->packed = {};  // releases its memory for the next packed form
      if (!pays) return {};
    }
    // Another thread may pack the same matrix at the same time. Both copies are correct, and one is
    // cached. Writing to the matrix meanwhile is a data race of the caller.
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

template <class T>
PackedMatrix<T> cached_packed(const Tensor& owner, const MatrixView<const T>& b, Uses uses) {
  if (uses == Uses::one && b.rows * b.cols < few_elements) return {};
  Buffer& buffer = buffer_of(owner);
  const std::uint64_t modified_at = buffer.modified_at.load(std::memory_order_relaxed);
  // PackedForms is created at the first request. If several threads create one at once, one of them
  // sets the pointer (release), and the others use its object (acquire), which exists until the
  // buffer is freed. The elements of a buffer never change their type T.
  Attachment* forms = buffer.attachment.load(std::memory_order_acquire);
  if (!forms) {
    auto made = std::make_unique<PackedForms<T>>();
    if (buffer.attachment.compare_exchange_strong(forms, made.get(), std::memory_order_acq_rel)) {
      forms = made.release();
    }
  }
  return static_cast<PackedForms<T>&>(*forms).get(b, modified_at, uses);
}
template PackedMatrix<float> cached_packed(const Tensor&, const MatrixView<const float>&, Uses);
template PackedMatrix<double> cached_packed(const Tensor&, const MatrixView<const double>&, Uses);

}  // namespace detail
}  // namespace attune
