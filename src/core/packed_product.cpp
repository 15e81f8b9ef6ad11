// SPDX-License-Identifier: Apache-2.0
#include "core/packed_product.h"

#include <algorithm>
#include <memory>
#include <new>

#include <ATen/Context.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/empty.h>

#include "core/pack_matrix.h"

namespace duoka {

namespace {

// A block of `a` and a panel of `b` stay in a core's second cache, with the block's part of c.
constexpr int64_t block_rows = 128, block_depth = 256, panel_columns = 192;
/// Rows of c that a panel of `b` is used for before the next one is packed; what c's sums in f32 take.
constexpr int64_t most_rows = 2048;

template <class T>
struct Matrix {
  T* data;
  int64_t rows, columns, row_stride, column_stride;

  Matrix part(int64_t row, int64_t num_rows, int64_t column, int64_t num_columns) const {
    return {data + row * row_stride + column * column_stride, num_rows, num_columns, row_stride,
            column_stride};
  }
  bool is_turned() const { return column_stride != 1; }
};

template <class T>
Matrix<T> matrix(const at::Tensor& x) {
  return {x.data_ptr<std::remove_const_t<T>>(), x.size(0), x.size(1), x.stride(0),
          x.size(1) == 1 && x.stride(0) != 1 ? 1 : x.stride(1)};
}

/// A thread's memory for packed numbers; kept for the next product.
class Scratch {
 public:
  float* of(int64_t count) {
    if (count > size_) {
      data_.reset(static_cast<float*>(::operator new(sizeof(float) * static_cast<size_t>(count), alignment)));
      size_ = count;
    }
    return data_.get();
  }

 private:
  static constexpr std::align_val_t alignment{64};
  struct Free {
    void operator()(float* data) const { ::operator delete(data, alignment); }
  };
  std::unique_ptr<float, Free> data_;
  int64_t size_ = 0;
};

/// f32 numbers, rows `stride` apart.
struct Packed {
  const float* data;
  int64_t stride;
};

template <class T>
Packed pack(const Matrix<const T>& x, Scratch& scratch) {
  if constexpr (std::is_same_v<T, float>)
    if (!x.is_turned()) return {x.data, x.row_stride};
  float* out = scratch.of(x.rows * x.columns);
  if (x.is_turned())
    pack_turned_matrix<T>(x.data, x.column_stride, x.rows, x.columns, out);
  else
    pack_matrix<T>(x.data, x.row_stride, x.rows, x.columns, out);
  return {out, x.columns};
}

/// The next piece of `left` numbers: whole ones, then sixteens, then the rest. oneDNN makes a kernel for each
/// size it is asked for, so there must not be one for each number of tokens.
int64_t next_piece(int64_t left, int64_t whole) {
  constexpr int64_t unit = 16;
  return left >= whole ? whole : std::max(left / unit * unit, std::min(left, unit));
}

template <class Body>
void for_pieces(int64_t count, int64_t whole, const Body& body) {
  for (int64_t begin = 0; begin < count;) {
    const int64_t size = next_piece(count - begin, whole);
    body(begin, size);
    begin += size;
  }
}

/// Calls body(begin, size) on parts of [0, count), as equal as multiples of 16 can be, none above `most`.
template <class Body>
void for_equal_parts(int64_t count, int64_t most, const Body& body) {
  const int64_t parts = (count + most - 1) / most, size = ((count + parts - 1) / parts + 15) / 16 * 16;
  for (int64_t begin = 0; begin < count; begin += size) body(begin, std::min(size, count - begin));
}

/// A thread's share of a product.
template <class T>
class Share {
 public:
  Share(bool adds, double alpha) : adds_(adds), alpha_(static_cast<float>(alpha)) {}

  void run(const Matrix<T>& c, const Matrix<const T>& a, const Matrix<const T>& b) {
    for_equal_parts(c.rows, most_rows, [&](int64_t row, int64_t rows) {
      for_equal_parts(c.columns, panel_columns, [&](int64_t column, int64_t columns) {
        run_panel(c.part(row, rows, column, columns), a.part(row, rows, 0, a.columns),
                  b.part(0, b.rows, column, columns));
      });
    });
  }

 private:
  void run_panel(const Matrix<T>& c, const Matrix<const T>& a, const Matrix<const T>& b) {
    constexpr bool is_wide = std::is_same_v<T, float>;
    static thread_local Scratch sums_scratch, block_scratch;
    float* sums;
    if constexpr (is_wide)
      sums = c.data;
    else
      sums = sums_scratch.of(c.rows * c.columns);
    const int64_t stride = is_wide ? c.row_stride : c.columns;
    for_pieces(a.columns, block_depth, [&](int64_t k, int64_t depth) {
      const Packed panel = panel_of(b.part(k, depth, 0, b.columns), c.rows);
      for_pieces(c.rows, block_rows, [&](int64_t row, int64_t rows) {
        const Packed block = pack(a.part(row, rows, k, depth), block_scratch);
        at::native::cpublas::brgemm(rows, c.columns, depth, block.stride, panel.stride, stride,
                                    k > 0 || (is_wide && adds_), block.data, panel.data, sums + row * stride);
      });
    });
    if constexpr (!is_wide) unpack_matrix<T>(sums, c.rows, c.columns, adds_, c.data, c.row_stride);
  }

  /// alpha b, packed even where it could be read as it lies if that is for more than a few rows.
  Packed panel_of(const Matrix<const T>& b, int64_t num_rows) const {
    constexpr int64_t few_rows = 64;
    static thread_local Scratch scratch;
    if (alpha_ == 1 && (b.is_turned() || num_rows < few_rows)) return pack(b, scratch);
    float* out = scratch.of(b.rows * b.columns);
    if (b.is_turned())
      pack_turned_matrix<T>(b.data, b.column_stride, b.rows, b.columns, out);
    else
      pack_matrix<T>(b.data, b.row_stride, b.rows, b.columns, out);
    if (alpha_ != 1)
      for (int64_t i = 0; i < b.rows * b.columns; ++i) out[i] *= alpha_;
    return {out, b.columns};
  }

  const bool adds_;
  const float alpha_;
};

/// How many parts the rows and the columns of c [m, n] are cut into, one for each thread.
struct Grid {
  int64_t rows = 1, columns = 1;
};

Grid grid_of(int64_t m, int64_t n, int64_t k) {
  constexpr double least_flops = 2e6;  // of a thread: several times what waking it costs
  const auto worth = static_cast<int64_t>(2.0 * static_cast<double>(m) * static_cast<double>(n) *
                                          static_cast<double>(k) / least_flops);
  const int64_t threads = std::clamp<int64_t>(worth, 1, at::get_num_threads());
  // Each part packs its rows of a and its columns of b: the squarer, the less is packed twice.
  Grid best{threads, 1};
  for (int64_t rows = 1; rows <= threads; ++rows) {
    if (threads % rows != 0) continue;
    const Grid grid{rows, threads / rows};
    if (m / grid.rows + n / grid.columns < m / best.rows + n / best.columns) best = grid;
  }
  return best;
}

template <class T>
void multiply(const Matrix<T>& c, const Matrix<const T>& a, const Matrix<const T>& b, bool adds,
              double alpha) {
  const Grid grid = grid_of(c.rows, c.columns, a.columns);
  const auto part_size = [](int64_t count, int64_t parts) {
    return ((count + parts - 1) / parts + 15) / 16 * 16;
  };
  const int64_t rows = part_size(c.rows, grid.rows), columns = part_size(c.columns, grid.columns);
  at::parallel_for(0, grid.rows * grid.columns, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t row = part / grid.columns * rows, column = part % grid.columns * columns,
                    num_rows = std::min(rows, c.rows - row),
                    num_columns = std::min(columns, c.columns - column);
      if (num_rows <= 0 || num_columns <= 0) continue;
      Share<T>(adds, alpha)
          .run(c.part(row, num_rows, column, num_columns), a.part(row, num_rows, 0, a.columns),
               b.part(0, b.rows, column, num_columns));
    }
  });
}

/// Whether c^T = b^T a^T turns fewer numbers around: there a^T and b^T lie the other way.
template <class T>
bool is_better_turned(const Matrix<const T>& a, const Matrix<const T>& b) {
  const int64_t m = a.rows, n = b.columns, k = a.columns,
                as_it_is = (a.is_turned() ? m * k : 0) + (b.is_turned() ? k * n : 0),
                turned = (a.is_turned() ? 0 : m * k) + (b.is_turned() ? 0 : k * n) + m * n;
  return turned < as_it_is;
}

template <class T>
void product_of(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, bool adds, double alpha) {
  const auto ma = matrix<const T>(a), mb = matrix<const T>(b);
  if (!is_better_turned(ma, mb)) return multiply(matrix<T>(c), ma, mb, adds, alpha);
  const at::Tensor turned = at::empty({c.size(1), c.size(0)}, c.options());
  multiply(matrix<T>(turned), matrix<const T>(b.t()), matrix<const T>(a.t()), false, alpha);
  at::Tensor out = c;  // the same memory
  adds ? out.add_(turned.t()) : out.copy_(turned.t());
}

}  // namespace

void packed_product(const at::Tensor& c, const at::Tensor& a, const at::Tensor& b, bool adds, double alpha) {
  AT_DISPATCH_SWITCH(c.scalar_type(), "a product", AT_DISPATCH_CASE(at::kFloat, [&] {
                       product_of<scalar_t>(c, a, b, adds, alpha);
                     }) AT_DISPATCH_CASE(at::kBFloat16, [&] {
                       product_of<scalar_t>(c, a, b, adds, alpha);
                     }) AT_DISPATCH_CASE(at::kHalf, [&] { product_of<scalar_t>(c, a, b, adds, alpha); }));
}

bool has_packed_product() {
#if defined(__x86_64__) && defined(__GNUC__)
  static const bool has =
      __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 && at::hasMKLDNN();
  return has;
#else
  return false;
#endif
}

}  // namespace duoka
