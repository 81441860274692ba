// Statistics are computed by tiles of positions that stay in the second-level cache: each tile gives the mean
// of every group and the squares about that mean (two passes, so that nothing cancels); the tiles are then
// merged in order, in double, with the rule of Chan, Golub and LeVeque (1979): M = M₁ + M₂ + δ²·n₁n₂/(n₁ +
// n₂). Then one pass writes y. In all x is read twice and y written once, which is the minimum if x does not
// fit into a cache.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "ops/group_norm/group_norm_impl.h"
#include "ops/op_helpers.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/group_norm/group_norm_cpu.cpp"
#include <hwy/foreach_target.h>

#include "cpu/simd_rows.h"
#include "ops/activation_simd.h"

#ifndef TACHY_OPS_GROUP_NORM_CPU_ONCE
#define TACHY_OPS_GROUP_NORM_CPU_ONCE
namespace tachy::ops {
namespace {

struct GroupMoments {
  double mean, squares;  // for a tile's values of one group: Σ(x − mean)²
};

}  // namespace
}  // namespace tachy::ops
#endif

HWY_BEFORE_NAMESPACE();
namespace tachy::ops::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace simd = cpu::HWY_NAMESPACE;

// Calls body(d, k) for groups of whole vectors of channels: kVectors at a time, then one, then single lanes.
template <int kVectors, class Body>
HWY_INLINE void for_columns(int64_t c, Body&& body) {
  const hn::ScalableTag<float> d;
  const int64_t step = kVectors * static_cast<int64_t>(hn::Lanes(d));
  int64_t k = 0;
  for (; k + step <= c; k += step) body(d, std::integral_constant<int, kVectors>(), k);
  simd::for_lanes(c - k,
                  [&](auto e, int64_t j) HWY_ATTR { body(e, std::integral_constant<int, 1>(), k + j); });
}

// Takes one tile of `rows` positions and 3·C floats of scratch. The first pass gives a mean in float. The
// second sums deviations from it, which should be zero; the difference corrects both moments.
void group_norm_moments(const float* x, int64_t rows, int64_t c, int64_t groups, float* scratch,
                        GroupMoments* out) {
  float *sums = scratch, *means = scratch + c, *squares = scratch + 2 * c;
  const int64_t width = c / groups;
  const auto count = static_cast<double>(rows * width);
  const auto of_group = [&](const float* columns, int64_t g) {
    double sum = 0;
    for (int64_t k = g * width; k < (g + 1) * width; ++k) sum += columns[k];
    return sum;
  };
  for_columns<4>(c, [&](auto d, auto vectors, int64_t k) HWY_ATTR {
    constexpr int kVectors = decltype(vectors)::value;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    hn::Vec<decltype(d)> sum[kVectors];
    for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
    for (int64_t i = 0; i < rows; ++i)
      for (int v = 0; v < kVectors; ++v) sum[v] = hn::Add(sum[v], hn::LoadU(d, x + i * c + k + v * lanes));
    for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, sums + k + v * lanes);
  });
  for (int64_t g = 0; g < groups; ++g) {
    out[g].mean = static_cast<float>(of_group(sums, g) / count);
    for (int64_t k = g * width; k < (g + 1) * width; ++k) means[k] = static_cast<float>(out[g].mean);
  }
  for_columns<4>(c, [&](auto d, auto vectors, int64_t k) HWY_ATTR {
    constexpr int kVectors = decltype(vectors)::value;
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    hn::Vec<decltype(d)> sum[kVectors], square[kVectors], mean[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = square[v] = hn::Zero(d);
      mean[v] = hn::LoadU(d, means + k + v * lanes);
    }
    for (int64_t i = 0; i < rows; ++i)
      for (int v = 0; v < kVectors; ++v) {
        const auto centred = hn::Sub(hn::LoadU(d, x + i * c + k + v * lanes), mean[v]);
        sum[v] = hn::Add(sum[v], centred);
        square[v] = hn::MulAdd(centred, centred, square[v]);
      }
    for (int v = 0; v < kVectors; ++v) {
      hn::StoreU(sum[v], d, sums + k + v * lanes);
      hn::StoreU(square[v], d, squares + k + v * lanes);
    }
  });
  for (int64_t g = 0; g < groups; ++g) {
    const double rest = of_group(sums, g);
    out[g].mean += rest / count;
    out[g].squares = std::max(0.0, of_group(squares, g) - rest * rest / count);
  }
}

// mean and factor are [C]; factor holds 1/σ · weight.
void group_norm_apply(const GroupNormArgs& a, const float* x, int64_t rows, const float* mean,
                      const float* factor, float* y) {
  const int64_t c = a.x.dims[2];
  const float* bias = row_ptr(a.bias, 0);
  with_activation(a.act, [&]<Activation K>() HWY_ATTR {
    for (int64_t i = 0; i < rows; ++i)
      simd::for_lanes(c, [&](auto d, int64_t k) HWY_ATTR {
        const auto centred = hn::Sub(hn::LoadU(d, x + i * c + k), hn::LoadU(d, mean + k));
        const auto f = hn::LoadU(d, factor + k);
        const auto n = bias ? hn::MulAdd(centred, f, hn::LoadU(d, bias + k)) : hn::Mul(centred, f);
        hn::StoreU(activate<K>(d, n), d, y + i * c + k);
      });
  });
}

}  // namespace tachy::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tachy::ops {

HWY_EXPORT(group_norm_moments);
HWY_EXPORT(group_norm_apply);

namespace {

// Merges the tiles of one sample and expands the result to mean [C] and factor [C].
void merge_tiles(const GroupNormArgs& a, const GroupMoments* moments, int64_t tiles, int64_t rows,
                 float* mean, float* factor) {
  const int64_t p = a.x.dims[1], c = a.x.dims[2], groups = a.groups, width = c / groups;
  const float* w = row_ptr(a.weight, 0);
  for (int64_t g = 0; g < groups; ++g) {
    double count = 0, centre = 0, squares = 0;
    for (int64_t t = 0; t < tiles; ++t) {
      const auto n = static_cast<double>(std::min(rows, p - t * rows) * width);
      const GroupMoments& m = moments[t * groups + g];
      const double delta = m.mean - centre;
      squares += m.squares + delta * delta * count * n / (count + n);
      centre += delta * n / (count + n);
      count += n;
    }
    const double r = 1.0 / std::sqrt(squares / count + static_cast<double>(a.eps));
    for (int64_t k = g * width; k < (g + 1) * width; ++k) {
      mean[k] = static_cast<float>(centre);
      factor[k] = static_cast<float>(w ? r * static_cast<double>(w[k]) : r);
    }
  }
}

}  // namespace

void group_norm_cpu(const GroupNormArgs& a, Stream& stream) {
  const int64_t n = a.x.dim(0), p = a.x.dim(1), c = a.x.dim(2), groups = a.groups;
  const int64_t rows = rows_per_tile(c), tiles = (p + rows - 1) / rows;
  Arena& arena = *stream.arena;
  ArenaScope scope(arena);
  auto* moments =
      static_cast<GroupMoments*>(arena.bytes(static_cast<size_t>(n * tiles * groups) * sizeof(GroupMoments)));
  auto* affine = static_cast<float*>(arena.bytes(static_cast<size_t>(n * 2 * c) * 4));
  auto* scratch = static_cast<float*>(arena.bytes(static_cast<size_t>(stream.threads() * 3 * c) * 4));
  if (stream.measuring()) return;
  const float* x = a.x.as<float>();
  float* y = a.y.as<float>();
  const auto each_tile = [&](auto&& body) {
    parallel_ranges(stream, n * tiles, 1, [&](int64_t i, int64_t, int worker) {
      const int64_t first = i % tiles * rows;
      body(i, (i / tiles * p + first) * c, std::min(rows, p - first), worker);
    });
  };
  each_tile([&](int64_t i, int64_t at, int64_t count, int worker) {
    HWY_DYNAMIC_DISPATCH(group_norm_moments)
    (x + at, count, c, groups, scratch + worker * 3 * c, moments + i * groups);
  });
  parallel_ranges(stream, n, 1, [&](int64_t i, int64_t, int) {
    float* mean = affine + i * 2 * c;
    merge_tiles(a, moments + i * tiles * groups, tiles, rows, mean, mean + c);
  });
  each_tile([&](int64_t i, int64_t at, int64_t count, int) {
    const float* mean = affine + i / tiles * 2 * c;
    HWY_DYNAMIC_DISPATCH(group_norm_apply)(a, x + at, count, mean, mean + c, y + at);
  });
}

}  // namespace tachy::ops
#endif
