#include "ops/add_rows/add_rows_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

// The definition is also what a CPU runs, since the work is small (a few hundred thousand values per step).
void add_rows_ref(const AddRowsArgs& a, Stream& stream) {
  const int64_t rows = a.rows.dim(0), c = a.table.dim(1);
  parallel_ranges(stream, a.table.dim(0) * rows, rows_per_tile(c), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const float *table = row_ptr(a.table, i / rows), *row = row_ptr(a.rows, i % rows);
      float* y = a.y.as<float>() + i * c;
      for (int64_t j = 0; j < c; ++j) y[j] = table[j] + row[j];
    }
  });
}

}  // namespace tachy::ops
