// The inner loops of matrix products, vectorised, with the instruction set chosen at run time.
//
// Every element of C is one chain of multiply-adds in ascending k, c <- a_ik b_kj + c, which begins
// with 0 or with what C holds. It depends neither on the other rows and columns nor on how the
// product is cut: a row alone and the same row in a batch give the same bits.
//
// B is first packed into panels as wide as two registers, or one: panel p holds columns [p width,
// (p + 1) width) of B one row after another, and columns that B does not have are zero. The kernel
// then reads B as one stream, and keeps its block of C, all of whose columns are of one panel, in
// registers.
#pragma once

#include <attune/tensor/shape.hpp>

namespace attune::simd {

/// A matrix in memory: element (i, j) is data[i * row + j * column].
template <class T>
struct Strided {
  const T* data;
  Index row, column;

  /// Without the rows before i and the columns before j.
  Strided from(Index i, Index j) const { return {data + i * row + j * column, row, column}; }
};

/// Columns of a panel of a matrix with `columns` columns: those that two registers hold, or those
/// of one register if all columns fit into it.
template <class T>
Index panel_width(Index columns);

/// Packs B (depth, columns), one of whose strides is 1, into depth x width elements for each panel.
/// The panels are 64-byte aligned.
template <class T>
void pack_panels(Strided<T> b, Index depth, Index columns, Index width, T* panels);

/// C = A·B, or C += A·B when `add`, for A (rows, depth) and B (depth, columns) in panels that
/// begin `panel_stride` elements apart. Rows of C are `stride_c` apart.
template <class T>
struct PanelProduct {
  Index rows, depth, columns;
  Index width;  // of a panel
  Strided<T> a;
  const T* panels;
  Index panel_stride;
  T* c;
  Index stride_c;
  bool add;
  const T* next = nullptr;  // the panel that is read after these, if any: it is fetched meanwhile
};
template <class T>
void run(const PanelProduct<T>& product);

/// C += A·B for a few rows, with B (depth, columns) as it is, its rows `stride_b` apart: B is read
/// once, in its order.
template <class T>
struct RowProduct {
  Index rows, depth, columns;
  Strided<T> a;
  const T* b;
  Index stride_b;
  T* c;
  Index stride_c;
};
template <class T>
void run(const RowProduct<T>& product);

}  // namespace attune::simd
