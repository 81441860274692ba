#include <cmath>
#include <vector>

#include "ops/channel_norm/channel_norm_impl.h"
#include "ops/op_helpers.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/channel_norm/channel_norm_cpu.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_rows.h"
#include "ops/activation_simd.h"
HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = cpu::HWY_NAMESPACE;

void channel_norm_rows(const ChannelNormArgs& a, int64_t begin, int64_t end) {
  const int64_t c = a.x.dims[1];
  const float* gamma = row_ptr(a.gamma, 0);
  const bool codes = is_code(a.y.dtype);
  std::vector<float> wide(codes ? static_cast<size_t>(c) : 0);  // for one row
  simd::RowWriter writer(!codes && past_caches(a.x, a.y, c), c);
  const float root = std::sqrt(static_cast<float>(c));
  with_activation(a.silu ? Activation::silu : Activation::none, [&]<Activation K>() HWY_ATTR {
    for (int64_t i = begin; i < end; ++i) {
      const float* x = row_ptr(a.x, i);
      float* const out = codes ? wide.data() : static_cast<float*>(a.y.data) + i * c;
      float* const y = writer.begin(out);
      const float norm = std::sqrt(simd::sum_squares(x, c));
      const float factor = root / (norm > 1e-12f ? norm : 1e-12f);
      simd::for_lanes(c, [&](auto d, int64_t j) HWY_ATTR {
        const auto n = hn::Mul(hn::Mul(hn::LoadU(d, x + j), hn::Set(d, factor)), hn::LoadU(d, gamma + j));
        hn::StoreU(activate<K>(d, n), d, y + j);
      });
      writer.end(out);
      for (int64_t j = 0; codes && j < c; ++j)
        static_cast<uint8_t*>(a.y.data)[i * c + j] = code_of(out[j] / a.y_scale, a.y.dtype);
    }
  });
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::ops {

HWY_EXPORT(channel_norm_rows);

void channel_norm_cpu(const ChannelNormArgs& args, Stream& stream) {
  parallel_ranges(stream, args.x.dim(0), rows_per_tile(args.x.dim(1)), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(channel_norm_rows)(args, begin, end);
  });
}

}  // namespace tachy::ops
#endif
