// Attention of a handful of queries to a handful of keys, up to 16 each, as for a place in the last frames of
// a video. In the other kernels a tile would have only a few rows in use, and with a large batch (every place
// by itself) there are as many tiles as places and heads: 880 places of 3 queries, 6 keys and 16 heads take
// 19 us here and 222 with cuDNN (H100). With many queries tiles are full, and the other kernels are faster. A
// few neighbouring lanes share a head of up to four queries, with 16 bytes of each row per lane. Keys and
// values stay in registers, and neighbouring heads, which lie side by side, belong to the same warp. The
// kernel uses no tensor cores; scores, weights and sums are in float32.
#include "cuda/dispatch.h"
#include "device/reduce.cuh"
#include "device/vec.cuh"
#include "ops/attention/attention_cuda.h"
#include "ops/attention/flash_params.cuh"

namespace tachy::ops {
namespace {

using namespace device;

constexpr int kQueries = 4, kMostQueries = 16, kMostKeys = 16, kThreads = 256;

// `width` is the number of lanes of a group, a power of two; `tiles` that of groups that share a head's
// queries; `groups` the total over heads, tiles and batch entries, where heads change fastest.
template <class T, int kKeys>
__global__ void __launch_bounds__(kThreads)
    handful_kernel(const flash::Params p, const uint32_t width, const uint32_t heads, const uint32_t tiles,
                   const uint32_t groups) {
  constexpr int N = kPack<T>;
  const uint32_t thread = blockIdx.x * kThreads + threadIdx.x, lane = thread % width;
  // The other threads are needed in the sums, and repeat the last group's work.
  const bool live = thread / width < groups;
  const uint32_t group = min(thread / width, groups - 1);
  const uint32_t head = group % heads, tile = group / heads % tiles, batch = group / heads / tiles;
  const bool present = static_cast<int>(lane * N) < p.d;
  const int64_t column = present ? lane * N : 0;
  const int first = static_cast<int>(tile) * kQueries;
  const T* q_head = static_cast<const T*>(p.q) + batch * p.qs.batch + head * p.qs.head + column;
  const T* k_head = static_cast<const T*>(p.k) + batch * p.ks.batch + head * p.ks.head + column;
  const T* v_head = static_cast<const T*>(p.v) + batch * p.vs.batch + head * p.vs.head + column;
  T* out_head = static_cast<T*>(p.out) + batch * p.os.batch + head * p.os.head + column;

  Pack<T, N> q[kQueries];
  SharedRow<T, N> k[kKeys], v[kKeys];
#pragma unroll
  for (int i = 0; i < kQueries; ++i) q[i] = load<T, N>(q_head + int64_t{min(first + i, p.lq - 1)} * p.qs.row);
#pragma unroll
  for (int j = 0; j < kKeys; ++j)
    if (j < p.lk) k[j].load(k_head + j * p.ks.row);
#pragma unroll
  for (int j = 0; j < kKeys; ++j)
    if (j < p.lk) v[j].load(v_head + j * p.vs.row);

#pragma unroll
  for (int i = 0; i < kQueries; ++i) {
    // The condition is the same for all groups, so that every lane takes part in the sums.
    if (i >= p.lq) break;
    float s[kKeys];
#pragma unroll
    for (int j = 0; j < kKeys; ++j) {
      s[j] = 0;
      if (j < p.lk && present)
#pragma unroll
        for (int c = 0; c < N; ++c) s[j] = fmaf(q[i].get(c), k[j].get(c), s[j]);
    }
    group_sum(s, static_cast<int>(width), nullptr, 0);
    float top = -INFINITY, sum = 0, o[N] = {};
#pragma unroll
    for (int j = 0; j < kKeys; ++j)
      if (j < p.lk) s[j] *= p.scale, top = fmaxf(top, s[j]);
#pragma unroll
    for (int j = 0; j < kKeys; ++j)
      if (j < p.lk) {
        const float weight = std::is_same_v<T, float> ? expf(s[j] - top) : __expf(s[j] - top);
        sum += weight;
#pragma unroll
        for (int c = 0; c < N; ++c) o[c] = fmaf(weight, v[j].get(c), o[c]);
      }
    if (!live || first + i >= p.lq) continue;
    if (p.lse && lane == 0) p.lse[batch * p.lse_batch + head * p.lse_head + first + i] = top + logf(sum);
    if (!present) continue;
#pragma unroll
    for (int c = 0; c < N; ++c) o[c] /= sum;
    store(out_head + int64_t{first + i} * p.os.row, o);
  }
}

struct Groups {
  int64_t width, tiles, count;
  int64_t threads() const { return width * count; }
};
Groups groups_of(const AttentionArgs& a) {
  const int64_t packs = a.q.dims[3] * dtype_size(a.q.dtype) / 16;
  Groups g{.width = 1, .tiles = (a.q.dims[1] + kQueries - 1) / kQueries, .count = 0};
  while (g.width < packs) g.width *= 2;
  g.count = g.tiles * a.q.dims[2] * a.q.dims[0];
  return g;
}

}  // namespace

std::optional<Refusal> attention_why_not_handful(const AttentionArgs& a, const Stream&) {
  if (auto why = why_not_whole(a)) return why;
  if (a.k.dims[1] > kMostKeys) return Refusal::arguments("more than 16 keys");
  if (a.q.dims[1] > kMostQueries) return Refusal::arguments("more than 16 queries");
  if (a.bias.defined() || a.key_bias.defined()) return Refusal::arguments("a bias");
  if (a.causal) return Refusal::arguments("a causal mask");
  if (a.accumulate) return Refusal::arguments("an accumulating output");
  if (a.q.dims[3] > 128) return Refusal::arguments("head dims over 128");
  if (!cuda::fits_packs(static_cast<int>(16 / dtype_size(a.q.dtype)), {&a.q, &a.k, &a.v, &a.out}))
    return Refusal::arguments("rows that are not whole pieces of 16 bytes");
  constexpr int64_t kMost = int64_t{1} << 31;
  if (a.q.dims[1] >= kMost || groups_of(a).threads() >= kMost - kThreads)
    return Refusal::arguments("too many tokens");
  return std::nullopt;
}

void attention_handful(const AttentionArgs& a, Stream& stream) {
  const Groups g = groups_of(a);
  if (stream.measuring() || g.count == 0) return;
  cuda::dispatch_float("attention", a.q.dtype, [&]<class T>() {
    const cuda::LaunchShape shape{cuda::blocks_for(g.threads(), kThreads), kThreads};
    const auto launch = [&](auto* kernel) {
      cuda::launch("attention (handful_sm80)", kernel, shape, stream, flash::params_of(a),
                   static_cast<uint32_t>(g.width), static_cast<uint32_t>(a.q.dims[2]),
                   static_cast<uint32_t>(g.tiles), static_cast<uint32_t>(g.count));
    };
    a.k.dims[1] <= 8 ? launch(handful_kernel<T, 8>) : launch(handful_kernel<T, kMostKeys>);
  });
}

}  // namespace tachy::ops
