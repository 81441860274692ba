// Winograd F(4x4, 3x3) on float32 panels (winograd.h). Tiles of a frame go through in stripes: all workers
// transform a stripe's input, share its 36 products, and transform the sums back. A stripe holds as many
// tiles as fit 16 MB, so that weights are read few times and everything else stays in the caches.
#include <algorithm>
#include <array>

#include "base/env.h"
#include "cpu/panels.h"
#include "cpu/winograd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/winograd.cpp"
#include <hwy/foreach_target.h>
// Order matters: highway.h sees the target that foreach_target.h set.
#include <hwy/highway.h>

#include "cpu/simd_rows.h"

#ifndef TACHY_CPU_WINOGRAD_ONCE
#define TACHY_CPU_WINOGRAD_ONCE
namespace tachy::cpu {
namespace {

constexpr int64_t kOut = 4, kIn = 6, kPoints = kIn * kIn;
constexpr double kA = 11.0 / 16, kB = 1.5, kA2 = kA * kA, kB2 = kB * kB;  // all exact, also in float

// Where a tile's transformed values go: point p at to + p · plane.
struct TileIn {
  const float* frame;  // null: zeros
  int64_t h, w, ci, row, column;
  float* to;
  int64_t plane;
};

struct TileOut {
  const float* from;  // sums of point p at from + p · plane
  int64_t plane, h, w, co, row, column;
  const float *bias, *residual;
  float* y;  // the frame
};

}  // namespace
}  // namespace tachy::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tachy::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One dimension of Bᵀ d, in place.
template <class D, class V>
HWY_INLINE void transform_in(D d, V& d0, V& d1, V& d2, V& d3, V& d4, V& d5) {
  const auto sum = hn::Set(d, static_cast<float>(-(kA2 + kB2))), product = hn::Set(d, static_cast<float>(kA2 * kB2));
  const auto a = hn::Set(d, static_cast<float>(kA)), b = hn::Set(d, static_cast<float>(kB));
  const auto a2 = hn::Set(d, static_cast<float>(kA2)), b2 = hn::Set(d, static_cast<float>(kB2));
  const V zero = hn::MulAdd(product, d0, hn::MulAdd(sum, d2, d4));
  const V last = hn::MulAdd(product, d1, hn::MulAdd(sum, d3, d5));
  const V even_a = hn::NegMulAdd(b2, d2, d4), odd_a = hn::Mul(a, hn::NegMulAdd(b2, d1, d3));
  const V even_b = hn::NegMulAdd(a2, d2, d4), odd_b = hn::Mul(b, hn::NegMulAdd(a2, d1, d3));
  d0 = zero, d5 = last;
  d1 = hn::Add(even_a, odd_a), d2 = hn::Sub(even_a, odd_a);
  d3 = hn::Add(even_b, odd_b), d4 = hn::Sub(even_b, odd_b);
}

void winograd_in(const TileIn& t) {
  const int64_t top = t.row * kOut - 1, left = t.column * kOut - 1;
  for_lanes(t.ci, [&](auto d, int64_t c) HWY_ATTR {
    using V = hn::Vec<decltype(d)>;
    constexpr size_t kLanes = hn::MaxLanes(d);
    HWY_ALIGN float columns[kPoints * kLanes];
    const V zero = hn::Zero(d);
    for (int64_t j = 0; j < kIn; ++j) {
      const int64_t x = left + j;
      V v[kIn];
#pragma GCC unroll 6
      for (int64_t i = 0; i < kIn; ++i) {
        const int64_t y = top + i;
        const bool inside = x >= 0 && x < t.w && y >= 0 && y < t.h;
        v[i] = inside ? hn::LoadU(d, t.frame + (y * t.w + x) * t.ci + c) : zero;
      }
      transform_in(d, v[0], v[1], v[2], v[3], v[4], v[5]);
#pragma GCC unroll 6
      for (int64_t i = 0; i < kIn; ++i) hn::Store(v[i], d, columns + (i * kIn + j) * static_cast<int64_t>(kLanes));
    }
    for (int64_t i = 0; i < kIn; ++i) {
      V v[kIn];
#pragma GCC unroll 6
      for (int64_t j = 0; j < kIn; ++j) v[j] = hn::Load(d, columns + (i * kIn + j) * static_cast<int64_t>(kLanes));
      transform_in(d, v[0], v[1], v[2], v[3], v[4], v[5]);
#pragma GCC unroll 6
      for (int64_t j = 0; j < kIn; ++j) hn::StoreU(v[j], d, t.to + (i * kIn + j) * t.plane + c);
    }
  });
}

// One dimension of Aᵀ m: six values to four.
template <class D, class V>
HWY_INLINE void transform_out(D d, const V* m, V* y) {
  const V plus_a = hn::Add(m[1], m[2]), minus_a = hn::Sub(m[1], m[2]);
  const V plus_b = hn::Add(m[3], m[4]), minus_b = hn::Sub(m[3], m[4]);
  const auto set = [&](double value) { return hn::Set(d, static_cast<float>(value)); };
  y[0] = hn::Add(m[0], hn::Add(plus_a, plus_b));
  y[1] = hn::MulAdd(set(kA), minus_a, hn::Mul(set(kB), minus_b));
  y[2] = hn::MulAdd(set(kA2), plus_a, hn::Mul(set(kB2), plus_b));
  y[3] = hn::MulAdd(set(kA * kA2), minus_a, hn::MulAdd(set(kB * kB2), minus_b, m[5]));
}

void winograd_out(const TileOut& t) {
  const int64_t top = t.row * kOut, left = t.column * kOut;
  const int64_t rows = std::min(kOut, t.h - top), columns = std::min(kOut, t.w - left);
  for_lanes(t.co, [&](auto d, int64_t c) HWY_ATTR {
    using V = hn::Vec<decltype(d)>;
    constexpr size_t kLanes = hn::MaxLanes(d);
    HWY_ALIGN float half[kOut * kIn * kLanes];
    for (int64_t j = 0; j < kIn; ++j) {
      V m[kIn], y[kOut];
#pragma GCC unroll 6
      for (int64_t i = 0; i < kIn; ++i) m[i] = hn::LoadU(d, t.from + (i * kIn + j) * t.plane + c);
      transform_out(d, m, y);
#pragma GCC unroll 4
      for (int64_t i = 0; i < kOut; ++i) hn::Store(y[i], d, half + (i * kIn + j) * static_cast<int64_t>(kLanes));
    }
    const V bias = t.bias ? hn::LoadU(d, t.bias + c) : hn::Zero(d);
    for (int64_t i = 0; i < rows; ++i) {
      V m[kIn], y[kOut];
#pragma GCC unroll 6
      for (int64_t j = 0; j < kIn; ++j) m[j] = hn::Load(d, half + (i * kIn + j) * static_cast<int64_t>(kLanes));
      transform_out(d, m, y);
#pragma GCC unroll 4
      for (int64_t j = 0; j < kOut; ++j) {
        if (j >= columns) break;
        const int64_t at = ((top + i) * t.w + left + j) * t.co + c;
        V value = hn::Add(y[j], bias);
        if (t.residual) value = hn::Add(value, hn::LoadU(d, t.residual + at));
        hn::StoreU(value, d, t.y + at);
      }
    }
  });
}

}  // namespace tachy::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <cstring>

#include "cpu/widen.h"

namespace tachy::cpu {

HWY_EXPORT(winograd_in);
HWY_EXPORT(winograd_out);

namespace {

constexpr Compute kF32 = Compute::f32;
constexpr int64_t kStripeBytes = int64_t{16} << 20;
constexpr int64_t kMaxWeightBytes = int64_t{64} << 20;
constexpr int64_t kMinChannels = 24;
constexpr int64_t kTilesAtOnce = 8, kPanelsAtOnce = 4;

// G, six rows of three; the factor of row i is 1 / Π_{j != i} (p_i − p_j).
std::array<std::array<double, 3>, kIn> filter_matrix() {
  std::array<std::array<double, 3>, kIn> g{};
  const double points[] = {0, kA, -kA, kB, -kB};
  for (size_t i = 0; i < 5; ++i) {
    double factor = 1;
    for (size_t j = 0; j < 5; ++j)
      if (j != i) factor *= points[i] - points[j];
    g[i] = {1 / factor, points[i] / factor, points[i] * points[i] / factor};
  }
  g[5] = {0, 0, 1};
  return g;
}

int64_t point_bytes(int64_t kernel_t, int64_t co, int64_t ci) { return panels_bytes(kernel_t * ci, co, kF32); }

struct Cut {
  int64_t across, tiles;  // of a frame
  int64_t step;           // tiles a stripe
  int64_t in_stride, out_stride, in_plane, out_plane;  // floats: of a tile's row of channels; of a point
  int64_t frames;

  explicit Cut(const WinogradConv& c) {
    across = (c.w + kOut - 1) / kOut;
    tiles = across * ((c.h + kOut - 1) / kOut);
    frames = static_cast<int64_t>(c.inputs.size());
    const int64_t last = panels_count(c.co, kF32) - 1;
    in_stride = c.ci % 256 == 0 ? c.ci + 16 : c.ci;  // rows of a tile must not share cache sets
    out_stride = last * panel_columns(kF32) + panel_width(c.co, last, kF32);
    const int64_t tile_bytes = kPoints * 4 * (frames * in_stride + c.outputs * out_stride);
    const int64_t most = std::max(kTilesAtOnce, kStripeBytes / tile_bytes);
    const int64_t stripes = (tiles + most - 1) / most;
    step = std::min(tiles, ((tiles + stripes - 1) / stripes + kTilesAtOnce - 1) / kTilesAtOnce * kTilesAtOnce);
    // Planes an odd number of cache lines apart, for the same reason.
    const auto odd_lines = [](int64_t floats) { return ((floats + 15) / 16 | 1) * 16; };
    in_plane = odd_lines(frames * step * in_stride);
    out_plane = odd_lines(c.outputs * step * out_stride);
  }
};

}  // namespace

bool winograd_serves(int64_t kernel_t, int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w) {
  static const bool off = env_string("TACHY_WINOGRAD", "") == "off";
  return !off && kernel_h == 3 && kernel_w == 3 && ci >= kMinChannels &&
         winograd_bytes(kernel_t, co, ci) <= kMaxWeightBytes;
}

int64_t winograd_bytes(int64_t kernel_t, int64_t co, int64_t ci) { return kPoints * point_bytes(kernel_t, co, ci); }

void pack_winograd(const Tensor& weight, void* packed, ThreadPool& pool) {
  const int64_t co = weight.dim(0), ci = weight.dim(1), taps = weight.dim(2), size = ci * taps * 9;
  const int64_t block = point_bytes(taps, co, ci), depth = taps * ci;
  const auto g = filter_matrix();
  pool.run(panels_count(co, kF32), [&](int64_t panel, int) {
    const int64_t width = panel_width(co, panel, kF32), first = panel * panel_columns(kF32);
    const int64_t count = std::min(width, co - first);
    std::vector<float> plain(static_cast<size_t>(size)), rows(static_cast<size_t>(kPoints * count * depth));
    std::vector<char> scratch(static_cast<size_t>(kPanelPackScratch));
    for (int64_t o = 0; o < count; ++o) {
      widen(static_cast<const char*>(weight.data) + (first + o) * size * dtype_size(weight.dtype), weight.dtype, size,
            plain.data());
      for (int64_t c = 0; c < ci; ++c)
        for (int64_t tap = 0; tap < taps; ++tap) {
          const float* k = plain.data() + (c * taps + tap) * 9;
          double half[kIn][3];
          for (size_t i = 0; i < kIn; ++i)
            for (size_t q = 0; q < 3; ++q) half[i][q] = g[i][0] * k[q] + g[i][1] * k[3 + q] + g[i][2] * k[6 + q];
          for (size_t i = 0; i < kIn; ++i)
            for (size_t j = 0; j < kIn; ++j) {
              const double u = half[i][0] * g[j][0] + half[i][1] * g[j][1] + half[i][2] * g[j][2];
              rows[static_cast<size_t>(((static_cast<int64_t>(i) * kIn + static_cast<int64_t>(j)) * count + o) * depth +
                                       tap * ci + c)] = static_cast<float>(u);
            }
        }
    }
    for (int64_t p = 0; p < kPoints; ++p)
      pack_panel(rows.data() + p * count * depth, DType::f32, depth, count, depth, depth, width, kF32,
                 static_cast<char*>(packed) + p * block + panel_offset(depth, panel, kF32), scratch.data());
  });
}

void unpack_winograd(const void* packed, int64_t taps, int64_t co, int64_t ci, float* plain) {
  const int64_t block = point_bytes(taps, co, ci), depth = taps * ci;
  const auto g = filter_matrix();
  // A kernel's three values from the points 0, ±a and ∞ of one dimension.
  const auto solve = [&](double zero, double a, double minus_a, double last, double* k) {
    k[0] = zero / g[0][0], k[1] = (a - minus_a) / (2 * g[1][1]), k[2] = last;
  };
  constexpr int64_t kUsed[] = {0, 1, 2, 5};
  for (int64_t tap = 0; tap < taps; ++tap)
    for (int64_t c = 0; c < ci; ++c)
      for (int64_t o = 0; o < co; ++o) {
        double half[4][3], column[3];
        for (size_t i = 0; i < 4; ++i) {
          double u[4];
          for (size_t j = 0; j < 4; ++j)
            u[j] = panel_value(static_cast<const char*>(packed) + (kUsed[i] * kIn + kUsed[j]) * block, depth, co,
                               tap * ci + c, o, kF32);
          solve(u[0], u[1], u[2], u[3], half[i]);
        }
        for (size_t q = 0; q < 3; ++q) {
          solve(half[0][q], half[1][q], half[2][q], half[3][q], column);
          for (int64_t p = 0; p < 3; ++p)
            plain[(((tap * 3 + p) * 3 + static_cast<int64_t>(q)) * ci + c) * co + o] = static_cast<float>(column[p]);
        }
      }
}

void run_winograd(const WinogradConv& c, Stream& stream) {
  const Cut cut(c);
  ArenaScope scope(*stream.arena);
  float* in = static_cast<float*>(stream.arena->bytes(static_cast<size_t>(kPoints * cut.in_plane * 4)));
  float* out = static_cast<float*>(stream.arena->bytes(static_cast<size_t>(kPoints * cut.out_plane * 4)));
  if (stream.measuring()) return;
  const int64_t block = point_bytes(c.kernel_t, c.co, c.ci), panels = panels_count(c.co, kF32);
  const int64_t panel_groups = (panels + kPanelsAtOnce - 1) / kPanelsAtOnce, frame = c.h * c.w;
  int64_t skipped = 0;  // leading frames without values; only their rows' taps are left out, and only for one output
  while (c.outputs == 1 && skipped + 1 < c.kernel_t && !c.inputs[static_cast<size_t>(skipped)]) ++skipped;
  for (int64_t first = 0; first < cut.tiles; first += cut.step) {
    stream.throw_if_cancelled();
    const int64_t count = std::min(cut.step, cut.tiles - first), chunks = (count + kTilesAtOnce - 1) / kTilesAtOnce;
    stream.pool->run((cut.frames - skipped) * chunks, [&](int64_t item, int) {
      const int64_t f = skipped + item / chunks, begin = item % chunks * kTilesAtOnce;
      const float* from = c.inputs[static_cast<size_t>(f)];
      for (int64_t i = begin; i < std::min(count, begin + kTilesAtOnce); ++i) {
        const int64_t tile = first + i;
        float* to = in + (f * count + i) * cut.in_stride;
        if (from)
          HWY_DYNAMIC_DISPATCH(winograd_in)
          ({from, c.h, c.w, c.ci, tile / cut.across, tile % cut.across, to, cut.in_plane});
        else
          for (int64_t p = 0; p < kPoints; ++p) std::memset(to + p * cut.in_plane, 0, static_cast<size_t>(c.ci) * 4);
      }
    });
    stream.pool->run(kPoints * panel_groups, [&](int64_t item, int) {
      const int64_t p = item / panel_groups, begin = item % panel_groups * kPanelsAtOnce;
      std::vector<const void*> x;
      for (int64_t tap = skipped; tap < c.kernel_t; ++tap)
        x.push_back(in + p * cut.in_plane + tap * count * cut.in_stride);
      for (int64_t panel = begin; panel < std::min(panels, begin + kPanelsAtOnce); ++panel) {
        const int64_t width = panel_width(c.co, panel, kF32);
        panel_product_f32({.x = x.data(),
                           .segments = c.kernel_t - skipped,
                           .depth = c.ci,
                           .x_stride = cut.in_stride,
                           .panel = static_cast<const char*>(c.packed) + p * block +
                                    panel_offset(c.kernel_t * c.ci, panel, kF32) +
                                    panel_k_bytes(width, skipped * c.ci, kF32),
                           .width = width,
                           .rows = c.outputs * count,
                           .c = out + p * cut.out_plane + panel * panel_columns(kF32),
                           .c_stride = cut.out_stride});
      }
    });
    stream.pool->run(c.outputs * chunks, [&](int64_t item, int) {
      const int64_t t = item / chunks, begin = item % chunks * kTilesAtOnce;
      for (int64_t i = begin; i < std::min(count, begin + kTilesAtOnce); ++i) {
        const int64_t tile = first + i;
        HWY_DYNAMIC_DISPATCH(winograd_out)
        ({out + (t * count + i) * cut.out_stride, cut.out_plane, c.h, c.w, c.co, tile / cut.across, tile % cut.across,
          c.bias, c.residual ? c.residual + t * frame * c.co : nullptr, c.y + t * frame * c.co});
      }
    });
  }
}

}  // namespace tachy::cpu
#endif
