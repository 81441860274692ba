// Two passes over tiles of 1024 pixels: one sums a frame's Lab values, one corrects. Lab is computed twice,
// since this costs less than moving 24 bytes per pixel to and from memory, and needs no scratch.
//
// The powers are computed from roots. Householder's iteration of third order finds them without a division
// from a guess, which the bits of a float32 give: u^2.4 = (w·r²)², w = u², r = w^(−1/5); t^(1/3) = t·r², r =
// t^(−1/3); c^(5/12) = c·r⁷, r = c^(−1/12). The guess has an error of 3.5 %, and the third iterate one below
// float64's rounding (for the twelfth root a few times that).
#include "ops/match_colors/match_colors_impl.h"
#include "ops/op_helpers.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/match_colors/match_colors_cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

HWY_INLINE V unit(D d, V x) {
  const V half = hn::Set(d, 0.5);
  return hn::Min(hn::Set(d, 1.0), hn::Max(hn::MulAdd(x, half, half), hn::Zero(d)));
}

template <int kRoot>
HWY_INLINE V power(V y) {
  const V y2 = hn::Mul(y, y);
  if constexpr (kRoot == 3) return hn::Mul(y2, y);
  const V y4 = hn::Mul(y2, y2);
  if constexpr (kRoot == 5) return hn::Mul(y4, y);
  return hn::Mul(y4, hn::Mul(y4, y4));
}

// x^(−1/kRoot) for x in a normal float32's range.
template <int kRoot>
HWY_INLINE V inverse_root(D d, V x) {
  const hn::Rebind<float, D> df;
  const hn::RebindToSigned<decltype(df)> di;
  constexpr double p = kRoot;
  constexpr auto kMiddle = static_cast<float>((1 + 1 / p) * (127 - 0.0450466) * 8388608);
  const auto bits = hn::ConvertTo(df, hn::BitCast(di, hn::DemoteTo(df, x)));
  const auto guess = hn::NegMulAdd(bits, hn::Set(df, static_cast<float>(1 / p)), hn::Set(df, kMiddle));
  V y = hn::PromoteTo(d, hn::BitCast(df, hn::ConvertTo(di, guess)));
  for (int i = 0; i < 3; ++i) {
    const V h = hn::NegMulAdd(x, power<kRoot>(y), hn::Set(d, 1.0));
    const V step = hn::MulAdd(h, hn::Set(d, (p + 1) / (2 * p * p)), hn::Set(d, 1 / p));
    y = hn::MulAdd(hn::Mul(y, h), step, y);
  }
  return y;
}

HWY_INLINE V linear_of(D d, V v) {
  const V u = hn::Mul(hn::Add(v, hn::Set(d, 0.055)), hn::Set(d, 1 / 1.055)), w = hn::Mul(u, u);
  const V r = inverse_root<5>(d, w), q = hn::Mul(w, hn::Mul(r, r));
  return hn::IfThenElse(hn::Gt(v, hn::Set(d, lab::kStraightRgb)), hn::Mul(q, q),
                        hn::Mul(v, hn::Set(d, 1 / 12.92)));
}

HWY_INLINE V root_of(D d, V t) {
  // On the straight part of the curve the root is not used, but the guess still needs a normal number.
  const V safe = hn::Max(t, hn::Set(d, lab::kStraightLab / 2)), r = inverse_root<3>(d, safe);
  return hn::IfThenElse(hn::Gt(t, hn::Set(d, lab::kStraightLab)), hn::Mul(safe, hn::Mul(r, r)),
                        hn::MulAdd(hn::Set(d, lab::kSlope), t, hn::Set(d, lab::kOffset)));
}

HWY_INLINE V curve_of(D d, V c) {
  const V one = hn::Set(d, 1.0);
  const V safe = hn::Min(one, hn::Max(c, hn::Set(d, lab::kStraightLinear / 2)));
  const V r = inverse_root<12>(d, safe), r2 = hn::Mul(r, r), r4 = hn::Mul(r2, r2);
  const V curved =
      hn::MulAdd(hn::Set(d, 1.055), hn::Mul(safe, hn::Mul(r4, hn::Mul(r2, r))), hn::Set(d, -0.055));
  const V out =
      hn::IfThenElse(hn::Gt(c, hn::Set(d, lab::kStraightLinear)), curved, hn::Mul(c, hn::Set(d, 12.92)));
  return hn::Min(one, hn::Max(out, hn::Zero(d)));
}

HWY_INLINE V row_of_product(D d, const double (&m)[3], double factor, const V* v) {
  const V a = hn::Mul(hn::Set(d, m[0] * factor), v[0]);
  return hn::MulAdd(hn::Set(d, m[2] * factor), v[2], hn::MulAdd(hn::Set(d, m[1] * factor), v[1], a));
}

// Converts v, in [0, 1], to L, a and b.
HWY_INLINE void to_lab(D d, const V* v, V* out) {
  V linear[3], t[3];
  for (int i = 0; i < 3; ++i) linear[i] = linear_of(d, v[i]);
  for (int i = 0; i < 3; ++i)
    t[i] = root_of(d, row_of_product(d, lab::kXyzOfRgb[i], 1 / lab::kWhite[i], linear));
  out[0] = hn::MulAdd(hn::Set(d, 116.0), t[1], hn::Set(d, -16.0));
  out[1] = hn::Mul(hn::Set(d, 500.0), hn::Sub(t[0], t[1]));
  out[2] = hn::Mul(hn::Set(d, 200.0), hn::Sub(t[1], t[2]));
}

HWY_INLINE void to_rgb(D d, const V* c, V* out) {
  V t[3];
  t[1] = hn::Mul(hn::Add(c[0], hn::Set(d, 16.0)), hn::Set(d, 1.0 / 116));
  t[0] = hn::MulAdd(c[1], hn::Set(d, 1.0 / 500), t[1]);
  t[2] = hn::Max(hn::NegMulAdd(c[2], hn::Set(d, 1.0 / 200), t[1]), hn::Zero(d));
  for (int i = 0; i < 3; ++i) {
    const V cube = hn::Mul(t[i], hn::Mul(t[i], t[i]));
    const V straight = hn::Mul(hn::Sub(t[i], hn::Set(d, lab::kOffset)), hn::Set(d, 1 / lab::kSlope));
    t[i] = hn::Mul(hn::IfThenElse(hn::Gt(t[i], hn::Set(d, lab::kStraightRoot)), cube, straight),
                   hn::Set(d, lab::kWhite[i]));
  }
  for (int i = 0; i < 3; ++i) out[i] = curve_of(d, row_of_product(d, lab::kRgbOfXyz[i], 1, t));
}

// A tile's colours in planes, scaled to [0, 1] and continued past its end with `fill`.
struct Planes {
  alignas(64) double v[3][lab::kTilePixels];
};
HWY_INLINE void read_tile(D d, const float* x, int64_t pixels, const float* fill, Planes& out) {
  for (int64_t i = 0; i < pixels; ++i)
    for (int k = 0; k < 3; ++k) out.v[k][i] = x[3 * i + k];
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), end = (pixels + lanes - 1) / lanes * lanes;
  for (int64_t i = pixels; i < end; ++i)
    for (int k = 0; k < 3; ++k) out.v[k][i] = fill[k];
  for (int k = 0; k < 3; ++k)
    for (int64_t i = 0; i < end; i += lanes) hn::Store(unit(d, hn::Load(d, out.v[k] + i)), d, out.v[k] + i);
}

// `sums` gets three sums of Lab's distances from the first pixel's values, then three of their squares. A
// tile is filled up with that pixel, which adds nothing; a frame of one colour has sums of exactly 0.
void sum_tile(const float* x, int64_t pixels, const float* first, double* sums) {
  const D d;
  Planes planes;
  read_tile(d, x, pixels, first, planes);
  V origin[3], sum[3], squares[3];
  for (int k = 0; k < 3; ++k) {
    origin[k] = unit(d, hn::Set(d, double{first[k]}));
    sum[k] = squares[k] = hn::Zero(d);
  }
  to_lab(d, origin, origin);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < pixels; i += lanes) {
    V c[3];
    for (int k = 0; k < 3; ++k) c[k] = hn::Load(d, planes.v[k] + i);
    to_lab(d, c, c);
    for (int k = 0; k < 3; ++k) {
      const V distance = hn::Sub(c[k], origin[k]);
      sum[k] = hn::Add(sum[k], distance);
      squares[k] = hn::MulAdd(distance, distance, squares[k]);
    }
  }
  for (int k = 0; k < 3; ++k) {
    sums[k] = hn::GetLane(hn::SumOfLanes(d, sum[k]));
    sums[3 + k] = hn::GetLane(hn::SumOfLanes(d, squares[k]));
  }
}

void lab_of(const float* x, double* out) {
  const D d;
  V c[3];
  for (int k = 0; k < 3; ++k) c[k] = unit(d, hn::Set(d, double{x[k]}));
  to_lab(d, c, c);
  for (int k = 0; k < 3; ++k) out[k] = hn::GetLane(c[k]);
}

void match_tile(const float* x, int64_t pixels, const lab::Map& map, float* y) {
  const D d;
  Planes planes;
  read_tile(d, x, pixels, x, planes);
  const V keep = hn::Set(d, 1 - map.strength), take = hn::Set(d, map.strength);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < pixels; i += lanes) {
    V v[3], c[3];
    for (int k = 0; k < 3; ++k) v[k] = hn::Load(d, planes.v[k] + i);
    to_lab(d, v, c);
    for (int k = 0; k < 3; ++k)
      c[k] = hn::MulAdd(hn::Sub(c[k], hn::Set(d, map.mean[k])), hn::Set(d, map.factor[k]),
                        hn::Set(d, map.target[k]));
    to_rgb(d, c, c);
    for (int k = 0; k < 3; ++k) {
      const V blended = hn::MulAdd(take, c[k], hn::Mul(keep, v[k]));
      hn::Store(hn::MulAdd(hn::Set(d, 2.0), blended, hn::Set(d, -1.0)), d, planes.v[k] + i);
    }
  }
  for (int64_t i = 0; i < pixels; ++i)
    for (int k = 0; k < 3; ++k) y[3 * i + k] = static_cast<float>(planes.v[k][i]);
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cmath>
namespace tachy::ops {

HWY_EXPORT(sum_tile);
HWY_EXPORT(match_tile);
HWY_EXPORT(lab_of);

namespace {

constexpr int64_t kTile = lab::kTilePixels;
// Computes the statistics of n frames; tiles are added in their order, whichever thread computed them.
std::vector<LabStatistics> statistics(const float* x, int64_t frames, int64_t pixels, Stream& stream) {
  const int64_t tiles = (pixels + kTile - 1) / kTile;
  std::vector<std::array<double, 6>> sums(static_cast<size_t>(frames * tiles));
  parallel_ranges(stream, frames * tiles, 1, [&](int64_t i, int64_t, int) {
    const float* frame = x + i / tiles * pixels * 3;
    const int64_t begin = i % tiles * kTile;
    HWY_DYNAMIC_DISPATCH(sum_tile)
    (frame + begin * 3, std::min(kTile, pixels - begin), frame, sums[static_cast<size_t>(i)].data());
  });
  std::vector<LabStatistics> out(static_cast<size_t>(frames));
  for (int64_t f = 0; f < frames; ++f) {
    std::array<double, 6> all = {};
    for (int64_t t = 0; t < tiles; ++t)
      for (size_t k = 0; k < 6; ++k) all[k] += sums[static_cast<size_t>(f * tiles + t)][k];
    double origin[3];
    HWY_DYNAMIC_DISPATCH(lab_of)(x + f * pixels * 3, origin);
    LabStatistics& own = out[static_cast<size_t>(f)];
    const auto count = static_cast<double>(pixels);
    for (size_t k = 0; k < 3; ++k) {
      const double mean = all[k] / count;
      own.mean[k] = origin[k] + mean;
      own.deviation[k] = std::sqrt(std::max(all[3 + k] / count - mean * mean, 0.0));
    }
  }
  return out;
}

}  // namespace

void lab_statistics_cpu(const LabStatisticsArgs& a, Stream& stream) {
  *a.result = statistics(a.x.as<float>(), 1, a.x.dim(0) * a.x.dim(1), stream)[0];
}

void match_colors_cpu(const MatchColorsArgs& a, Stream& stream) {
  const int64_t frames = a.x.dim(0), pixels = a.x.dim(1) * a.x.dim(2), tiles = (pixels + kTile - 1) / kTile;
  const auto* x = a.x.as<float>();
  const std::vector<LabStatistics> own = statistics(x, frames, pixels, stream);
  parallel_ranges(stream, frames * tiles, 1, [&](int64_t i, int64_t, int) {
    const LabStatistics& frame = own[static_cast<size_t>(i / tiles)];
    lab::Map map{.strength = a.strength};
    for (size_t k = 0; k < 3; ++k) {
      map.mean[k] = frame.mean[k], map.target[k] = a.picture.mean[k];
      map.factor[k] = frame.deviation[k] == 0 ? 0 : a.picture.deviation[k] / frame.deviation[k];
    }
    const int64_t begin = i % tiles * kTile, at = (i / tiles * pixels + begin) * 3;
    HWY_DYNAMIC_DISPATCH(match_tile)
    (x + at, std::min(kTile, pixels - begin), map, a.y.as<float>() + at);
  });
}

}  // namespace tachy::ops
#endif
