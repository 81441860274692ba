#include "ops/op_helpers.h"
#include "ops/position_bias/position_bias_impl.h"

namespace tachy::ops {

void position_bias_ref(const PositionBiasArgs& a, Stream& stream) {
  const int64_t heads = a.y.dim(0), length = a.y.dim(1);
  const auto* table = a.table.as<float>();
  const auto* bucket = a.bucket.as<int32_t>();
  stream.pool->run(heads, [&](int64_t head, int) {
    float* out = a.y.as<float>() + head * length * length;
    for (int64_t query = 0; query < length; ++query)
      for (int64_t key = 0; key < length; ++key)
        *out++ = table[bucket[key - query + length - 1] * heads + head];
  });
}

}  // namespace tachy::ops
