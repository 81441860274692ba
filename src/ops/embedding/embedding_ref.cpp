// A lookup takes a few hundred rows, once per prompt, so the plain loop is also the fast path.
#include "ops/dtype_switch.h"
#include "ops/embedding/embedding_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

void embedding_ref(const EmbeddingArgs& a, Stream& stream) {
  const int64_t m = a.ids.dim(0), c = a.table.dim(1);
  const int64_t* ids = a.ids.as<int64_t>();
  switch_float("embedding", a.table.dtype, [&]<class T>() {
    const T* table = a.table.as<T>();
    parallel_ranges(stream, m, rows_per_tile(c), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        float* y = a.y.as<float>() + i * a.y.stride(0);
        for (int64_t j = 0; j < c; ++j) y[j] = widened(table[ids[i] * c + j]);
      }
    });
  });
}

}  // namespace tachy::ops
