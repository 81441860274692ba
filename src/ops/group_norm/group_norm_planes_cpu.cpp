// GroupNorm of channels-first activations [N, C, P], whose groups are runs of C/G · P neighbouring values.
// Statistics are computed for tiles of a run that stay in the second-level cache (mean, then the squares
// about it, so that nothing cancels). They are merged in order, in double, with the rule of Chan, Golub and
// LeVeque (1979); then one pass writes y.
#include <algorithm>
#include <cmath>

#include "ops/group_norm/group_norm_impl.h"
#include "ops/op_helpers.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/group_norm/group_norm_planes_cpu.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_rows.h"
#include "ops/activation_simd.h"

#ifndef TACHY_OPS_GROUP_NORM_PLANES_ONCE
#define TACHY_OPS_GROUP_NORM_PLANES_ONCE
namespace tachy::ops {
namespace {

constexpr int64_t kTile = 16384;

struct RunMoments {
  double mean, squares;  // for a tile's values: Σ(x − mean)²
};

}  // namespace
}  // namespace tachy::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = cpu::HWY_NAMESPACE;

// The sum about the first mean should be zero; its deviation from zero corrects both moments.
void group_norm_run_moments(const float* x, int64_t count, RunMoments* out) {
  const auto n = static_cast<double>(count);
  const float mean = simd::sum_lanes(count, [&](auto d, int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); }) /
                     static_cast<float>(count);
  const auto centred = [&](auto d, int64_t i)
                           HWY_ATTR { return hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean)); };
  const double rest = simd::sum_lanes(count, centred);
  const double squares = simd::sum_lanes(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto v = centred(d, i);
    return hn::Mul(v, v);
  });
  out->mean = static_cast<double>(mean) + rest / n;
  out->squares = std::max(0.0, squares - rest * rest / n);
}

void group_norm_plane(const float* x, int64_t count, float mean, float factor, float bias, Activation act,
                      float* y) {
  with_activation(act, [&]<Activation K>() HWY_ATTR {
    simd::for_lanes(count, [&](auto d, int64_t i) HWY_ATTR {
      const auto v = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
      hn::StoreU(activate<K>(d, hn::MulAdd(v, hn::Set(d, factor), hn::Set(d, bias))), d, y + i);
    });
  });
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::ops {

HWY_EXPORT(group_norm_run_moments);
HWY_EXPORT(group_norm_plane);

std::optional<Refusal> group_norm_why_not_planes_cpu(const GroupNormArgs& a, const Stream&) {
  if (!a.channels_first) return Refusal::arguments("channels last");
  return std::nullopt;
}

void group_norm_planes_cpu(const GroupNormArgs& a, Stream& stream) {
  const int64_t n = a.x.dim(0), c = a.x.dim(1), p = a.x.dim(2), width = c / a.groups, run = width * p;
  const int64_t runs = n * a.groups, tiles = (run + kTile - 1) / kTile, parts = (p + kTile - 1) / kTile;
  ArenaScope scope(*stream.arena);
  auto* moments =
      static_cast<RunMoments*>(stream.arena->bytes(static_cast<size_t>(runs * tiles) * sizeof(RunMoments)));
  auto* stats = static_cast<float*>(stream.arena->bytes(static_cast<size_t>(runs) * 2 * sizeof(float)));
  if (stream.measuring() || run == 0) return;
  const float *x = a.x.as<float>(), *w = row_ptr(a.weight, 0), *bias = row_ptr(a.bias, 0);
  parallel_ranges(stream, runs * tiles, 1, [&](int64_t i, int64_t, int) {
    const int64_t first = i % tiles * kTile;
    HWY_DYNAMIC_DISPATCH(group_norm_run_moments)
    (x + i / tiles * run + first, std::min(kTile, run - first), moments + i);
  });
  parallel_ranges(stream, runs, 1, [&](int64_t i, int64_t, int) {
    double count = 0, centre = 0, squares = 0;
    for (int64_t t = 0; t < tiles; ++t) {
      const auto more = static_cast<double>(std::min(kTile, run - t * kTile));
      const RunMoments& m = moments[i * tiles + t];
      const double delta = m.mean - centre;
      squares += m.squares + delta * delta * count * more / (count + more);
      centre += delta * more / (count + more);
      count += more;
    }
    stats[2 * i] = static_cast<float>(centre);
    stats[2 * i + 1] = static_cast<float>(1.0 / std::sqrt(squares / count + static_cast<double>(a.eps)));
  });
  parallel_ranges(stream, n * c * parts, 1, [&](int64_t i, int64_t, int) {
    const int64_t plane = i / parts, channel = plane % c, first = i % parts * kTile;
    const float* s = stats + 2 * (plane / c * a.groups + channel / width);
    HWY_DYNAMIC_DISPATCH(group_norm_plane)
    (x + plane * p + first, std::min(kTile, p - first), s[0], w ? s[1] * w[channel] : s[1],
     bias ? bias[channel] : 0.0f, a.act, a.y.as<float>() + plane * p + first);
  });
}

}  // namespace tachy::ops
#endif
