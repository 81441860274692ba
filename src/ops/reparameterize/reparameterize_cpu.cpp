// Takes one pass. Tiles are divided along both dims, because a latent has few rows, which may be long.
#include "ops/op_helpers.h"
#include "ops/reparameterize/reparameterize_impl.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/reparameterize/reparameterize_cpu.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_math.h"
#include "cpu/simd_rows.h"

HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = cpu::HWY_NAMESPACE;

void reparameterize_part(const ReparameterizeArgs& a, int64_t row, int64_t begin, int64_t end) {
  const float *mean = row_ptr(a.mean, row) + begin, *logvar = row_ptr(a.logvar, row) + begin;
  const float *noise = row_ptr(a.noise, row) + begin, *center = row_ptr(a.center, 0);
  const float* factor = row_ptr(a.factor, 0);
  float* z = row_of<float>(a.z, row) + begin;
  simd::for_lanes(end - begin, [&](auto d, int64_t j) HWY_ATTR {
    const auto v =
        simd::at_least(d, kLowestLogvar, simd::at_most(d, kHighestLogvar, hn::LoadU(d, logvar + j)));
    const auto deviation = simd::exp(d, hn::Mul(hn::Set(d, 0.5f), v));
    auto draw = hn::MulAdd(deviation, hn::LoadU(d, noise + j), hn::LoadU(d, mean + j));
    if (center) draw = hn::Mul(hn::Sub(draw, hn::Set(d, center[row])), hn::Set(d, factor[row]));
    hn::StoreU(draw, d, z + j);
  });
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::ops {

HWY_EXPORT(reparameterize_part);

void reparameterize_cpu(const ReparameterizeArgs& args, Stream& stream) {
  const int64_t p = args.mean.dim(1), width = std::clamp<int64_t>(p, 1, 16384),
                parts = (p + width - 1) / width;
  parallel_ranges(stream, args.mean.dim(0) * parts, std::max<int64_t>(1, 16384 / width),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t i = begin; i < end; ++i) {
                      const int64_t first = i % parts * width;
                      HWY_DYNAMIC_DISPATCH(reparameterize_part)
                      (args, i / parts, first, std::min(p, first + width));
                    }
                  });
}

}  // namespace tachy::ops
#endif
