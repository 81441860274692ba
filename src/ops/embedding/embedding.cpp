#include "ops/embedding/embedding_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<EmbeddingArgs>> embedding_table() {
  // There is no entry for the GPU: the table (umT5-XXL's is 2 GB) stays in the mapped file, and only the few
  // rows that are needed are copied.
  static constexpr Impl<EmbeddingArgs> table[] = {{"ref", nullptr, embedding_ref}};
  return table;
}

void embedding(const EmbeddingArgs& a, Stream& stream) {
  const char* op = "embedding";
  expect_shape(op, "ids", a.ids, {-1});
  expect_dtype(op, "ids", a.ids, DType::i64);
  expect_contiguous(op, "ids", a.ids);
  expect_shape(op, "table", a.table, {-1, -1});
  require(is_float(a.table.dtype), "{}: expected a table of floats, got {}", op, dtype_name(a.table.dtype));
  expect_contiguous(op, "table", a.table);
  expect_f32(op, "y", a.y, {a.ids.dim(0), a.table.dim(1)});
  const auto& impl = pick<EmbeddingArgs>(op, embedding_table(), a, stream);
  if (stream.measuring()) return;
  const int64_t* ids = a.ids.as<int64_t>();
  for (int64_t i = 0; i < a.ids.dim(0); ++i)
    require(ids[i] >= 0 && ids[i] < a.table.dim(0), "{}: expected ids[{}] in [0, {}), got {}", op, i,
            a.table.dim(0), ids[i]);
  impl.run(a, stream);
}

}  // namespace tachy::ops
