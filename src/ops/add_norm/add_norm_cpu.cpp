// The sum is written and its statistics are computed in one pass; the row stays in the first-level cache for
// the passes after it.
#include "ops/add_norm/add_norm_impl.h"
#include "ops/op_helpers.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/add_norm/add_norm_cpu.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_rows.h"
#include "ops/norm_rows_simd.h"

HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = cpu::HWY_NAMESPACE;

void add_norm_rows(const AddNormArgs& a, int64_t begin, int64_t end) {
  const int64_t c = a.x.dims[1];
  const float *w = row_ptr(a.weight, 0), *bias = row_ptr(a.bias, 0);
  const bool modulated = a.row.defined() && (a.gate.defined() || a.scale.defined());
  const int32_t* row = modulated ? static_cast<const int32_t*>(a.row.data) : nullptr;
  const bool layer = a.kind == NormKind::layer;
  // The sum may be written past the caches, too, unless it is in place of x.
  const bool sum_past = a.sum.defined() && past_caches(a.x, a.sum, c), y_past = past_caches(a.x, a.y, c);
  simd::RowWriter sums(sum_past, c), results(y_past && (sum_past || a.sum.defined()), c);
  for (int64_t i = begin; i < end; ++i) {
    const float *x = row_ptr(a.x, i), *u = row_ptr(a.u, i);
    float* const sum_out = row_of<float>(a.sum.defined() ? a.sum : a.y, i);
    float* const out = row_of<float>(a.y, i);
    float *const h = sums.begin(sum_out), *const y = results.begin(out);
    const int64_t part = row ? row[i] : 0;
    const float *gate = row_ptr(a.gate, part), *scale = row_ptr(a.scale, part),
                *shift = row_ptr(a.shift, part);
    const float first = simd::sum_lanes(c, [&](auto d, int64_t j) HWY_ATTR {
      auto v = hn::LoadU(d, u + j);
      if (gate) v = hn::Mul(v, hn::LoadU(d, gate + j));
      v = hn::Add(hn::LoadU(d, x + j), v);
      hn::StoreU(v, d, h + j);
      return layer ? v : hn::Mul(v, v);
    });
    float mean = 0, squares = first;
    if (layer) {
      mean = first / static_cast<float>(c);
      squares = sum_squares_about(h, mean, c);
    }
    const float r = inverse_root(squares, c, a.eps);
    simd::for_lanes(c, [&](auto d, int64_t j) HWY_ATTR {
      auto n = hn::LoadU(d, h + j);
      if (layer) n = hn::Sub(n, hn::Set(d, mean));
      n = hn::Mul(n, hn::Set(d, r));
      if (w) n = hn::Mul(n, hn::LoadU(d, w + j));
      if (bias) n = hn::Add(n, hn::LoadU(d, bias + j));
      if (scale) {
        const auto s = hn::Add(hn::Set(d, 1.0f), hn::LoadU(d, scale + j));
        n = hn::Add(hn::Mul(n, s), hn::LoadU(d, shift + j));
      }
      hn::StoreU(n, d, y + j);
    });
    sums.end(sum_out);
    results.end(out);
  }
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::ops {

HWY_EXPORT(add_norm_rows);

void add_norm_cpu(const AddNormArgs& args, Stream& stream) {
  parallel_ranges(stream, args.x.dim(0), rows_per_tile(args.x.dim(1)), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(add_norm_rows)(args, begin, end);
  });
}

}  // namespace tachy::ops
#endif
