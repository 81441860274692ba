// Causal masks, windows and key biases for flash8_sm80.cuh, over one range of keys or several, which are joined as in
// flash8_ranges_sm80.cuh.
//
// A block walks over the stages that one of its rows sees, from the last to the first. A stage of which a warp's rows
// see everything takes the loop of whole ranges; biases are added to what a row subtracts, an addition for each score.
// Another one takes a loop of its own, in which scores are changed before they become weights, and one of which a warp's
// rows see nothing is passed over. So the masks cost registers and instructions only where they matter.
//
// A row subtracts the largest of the first 16 scores of which it sees one; until then it adds nothing. The rows of a
// block that sees no key are noted, and the launch that repairs writes their zeros.
#pragma once

#include "device/reduce.cuh"
#include "ops/attention/flash8_ranges_sm80.cuh"

namespace tachy::ops::flash {

// Exponents of two scores of a row for which 8 bits are fine enough (kCoarsest) differ by less than 4,130. So a key
// whose bias is that much below the largest one has no weight beside it.
constexpr float kNegligible = 4200;
// A float32 score that is added to a larger bias loses digits that no later subtraction brings back.
constexpr float kMostBias = 1e4f;

inline int64_t biases_pitch(int64_t keys) { return (keys + 63) / 64 * 64; }

// Joins the ranges' key biases as exponents of two: `to` is [B, pitch]. Grid: B blocks of 1,024 threads. Where one is no
// number, the largest is beyond kMostBias, or all keys are masked, all become NaN, so that all rows are computed again.
static __global__ void __launch_bounds__(1024)
    join_biases8(const __grid_constant__ KeyList list, int pitch, float* to) {
  __shared__ float tops[32];
  const int batch = blockIdx.x;
  float* mine = to + int64_t{batch} * pitch;
  float top = -INFINITY;
  bool odd = false;
  int first = 0;
  for (int i = 0; i < list.count; ++i) {
    const Keys& r = list.ranges[i];
    const int here = r.present();
    for (int j = threadIdx.x; j < here; j += 1024) {
      const float bias = r.key_bias ? r.key_bias[batch * r.key_bias_batch + j] : 0.0f;
      odd |= isnan(bias), top = fmaxf(top, bias);
      mine[first + j] = bias * kLog2e;
    }
    first += here;
  }
  for (int j = first + threadIdx.x; j < pitch; j += 1024) mine[j] = 0;
  top = device::warp_max(top);
  if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = top;
  odd = __syncthreads_or(odd);  // the values that another thread wrote are seen, too
  top = device::warp_max(tops[threadIdx.x % 32]);
  const float least = top * kLog2e - kNegligible;
  const bool fits = !odd && fabsf(top) <= kMostBias;
  for (int j = threadIdx.x; j < first; j += 1024)
    if (!fits || mine[j] < least) mine[j] = fits ? -INFINITY : NAN;
}

// This says which keys the rows of a block see. It lies in shared memory behind that of the tile.
template <class C>
struct SeenKeys {
  static constexpr int kMost = JoinedKeys::kMost;
  static_assert(C::kKeys == 64 && C::kRows == C::kThreads);
  static constexpr uint32_t kSpansAt = C::kSharedBytes, kMarksAt = kSpansAt + kMost * C::kRows * sizeof(int2),
                            kStagesAt = kMarksAt + C::kRows * sizeof(uint64_t);
  static constexpr uint32_t kBiasesAt = (kStagesAt + kMost * sizeof(int2) + 15) / 16 * 16;  // of two stages
  static constexpr size_t kSharedBytes = kBiasesAt + 2 * C::kKeys * sizeof(float);
  enum Part { nothing, some, all };

  int2* spans;      // [range, row] the keys that a row sees, from the first to behind the last
  uint64_t* marks;  // [row] those of one stage, as bits
  int2* stages;     // [range] the first and the last stage that a row of the block sees
  int ranges;

  __device__ __forceinline__ SeenKeys(char* shared, const KeyList& list, int first, int queries)
      : spans(reinterpret_cast<int2*>(shared + kSpansAt)),
        marks(reinterpret_cast<uint64_t*>(shared + kMarksAt)),
        stages(reinterpret_cast<int2*>(shared + kStagesAt)),
        ranges(list.count) {
    const int row = min(first + static_cast<int>(threadIdx.x), queries - 1);
    int begin = 0;
#pragma unroll 1
    for (int i = 0; i < ranges; ++i) {
      const Keys& r = list.ranges[i];
      const int here = r.present();
      const int end = r.causal ? max(0, min(here, causal_keys(row, r.offset, r.block))) : here;
      const int from = r.causal ? min(end, window_start(row, r.offset, r.window)) : 0;
      spans[i * C::kRows + threadIdx.x] = make_int2(begin + from, begin + end);
      begin += here;
    }
    __syncthreads();
    // Neither end of a span ever moves back from a row to the next.
    if (static_cast<int>(threadIdx.x) < ranges) {
      const int2* rows = spans + threadIdx.x * C::kRows;
      const int from = rows[0].x, end = rows[C::kRows - 1].y;
      stages[threadIdx.x] =
          from < end ? make_int2(from / C::kKeys, (end - 1) / C::kKeys) : make_int2(INT_MAX, -1);
    }
    __syncthreads();
  }
  // Returns the last stage before `stage` that a row of the block sees, or -1.
  __device__ __forceinline__ int before(int stage) const {
#pragma unroll 1
    for (int i = ranges - 1; i >= 0; --i) {
      const int2 s = stages[i];
      if (s.x < stage) return min(stage - 1, s.y);
    }
    return -1;
  }
  // Says how much of a stage the warp's rows see, and marks that if it is neither nothing nor all of it, or if
  // `changed` says that something else is to be done.
  __device__ __forceinline__ Part look(int stage, bool changed) const {
    const auto below = [](int n) {
      return n <= 0 ? uint64_t{0} : n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
    };
    const int key = stage * C::kKeys;
    // Most stages lie within what the last row of the warp begins with and the first one ends with.
    const int2* warp = spans + (threadIdx.x & ~31);
    bool whole = false;
#pragma unroll 1
    for (int i = 0; i < ranges; ++i)
      whole |= warp[i * C::kRows + 31].x <= key && key + C::kKeys <= warp[i * C::kRows].y;
    if (whole && !changed) return all;
    uint64_t seen = 0;
#pragma unroll 1
    for (int i = 0; i < ranges; ++i) {
      const int2 s = spans[i * C::kRows + threadIdx.x];
      seen |= below(s.y - key) & ~below(s.x - key);
    }
    if (!__any_sync(~0u, seen != 0)) return nothing;
    if (__all_sync(~0u, ~seen == 0) && !changed) return all;
    marks[threadIdx.x] = seen;
    __syncwarp();
    return some;
  }
};

// A row's float2 holds this as the number to subtract until it has seen a key. A score, or -infinity in place of one,
// has no weight then.
constexpr float kWaiting = -1e38f;

// Begins the rows that see one of these scores and have seen none before. Returns whether all have begun.
template <class C>
__device__ __forceinline__ bool begin_seen(const ByteScores& s, float k_scale, float2* rows) {
  const int lane = threadIdx.x & 31;
  bool all = true;
  __syncwarp();
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    float most = -INFINITY;
#pragma unroll
    for (int i = 0; i < 4; ++i) most = fmaxf(most, __int_as_float(s[r >> 1][i / 2][(r & 1) * 2 + i % 2]));
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
    float2& row = rows[(lane >> 2) + 8 * r];
    if ((lane & 3) != 0 || row.y != kWaiting) continue;
    if (most > -INFINITY)
      row.y = (kMagic - most) * row.x * k_scale + C::kFirst;
    else
      all = false;
  }
  __syncwarp();
  return __all_sync(~0u, all);
}

// Adds the biases of 16 keys to their scores, which are integers as floats, and takes those out that a row does not see.
template <bool kBiased>
__device__ __forceinline__ void change_scores(ByteScores& s, const uint64_t* marks, const float* biases,
                                              int step, float k_scale, const float2* rows) {
  const int lane = threadIdx.x & 31, column = 2 * (lane & 3);
  float2 add[2] = {};
  if constexpr (kBiased)
#pragma unroll
    for (int n = 0; n < 2; ++n)
      add[n] = __ldg(reinterpret_cast<const float2*>(biases + step * 16 + n * 8 + column));
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int row = (lane >> 2) + 8 * r;
    const auto seen = static_cast<uint32_t>(marks[row] >> (step * 16 + column));
    const float units = kBiased ? 1 / (rows[row].x * k_scale) : 0;  // of the scores, for an exponent
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      int32_t& score = s[r >> 1][i / 2][(r & 1) * 2 + i % 2];
      if (kBiased)
        score = __float_as_int(fmaf(i % 2 ? add[i / 2].y : add[i / 2].x, units, __int_as_float(score)));
      if (!(seen >> (i / 2 * 8 + i % 2) & 1)) score = static_cast<int32_t>(0xff800000);  // -infinity
    }
  }
}

// Takes a stage of which not all is seen or that has biases. Returns whether all rows have begun.
template <class C, bool kBiased>
__device__ __forceinline__ bool take_some(ByteWarp<C>& work, uint32_t k_at, uint32_t v_at,
                                          const uint64_t* marks, const float* biases, float k_scale,
                                          bool begun, float2* rows, bool never) {
  ByteScores s;
  Weights w;
#pragma unroll 1
  for (int t = 0; t < C::kSteps; ++t) {
    work.scores(s, k_at + t * 16 * C::kKPitch);
    change_scores<kBiased>(s, marks, biases, t, k_scale, rows);
    if (!begun) begun = begin_seen<C>(s, k_scale, rows);
    work.use_scale(rows, k_scale);
#pragma unroll
    for (int i = 0; i < 8; ++i) work.weigh(w, s, i / 2, i % 2);
    add_weighted<C>(work.o, work.ones, w, v_at + t * 16 * C::kVPitch, never, [] {});
  }
  return begun;
}

// ByteWarp::step with biases, of keys that all rows see. `biases` is where the lane's lie in shared memory.
template <class C>
__device__ __forceinline__ void step_biased(ByteWarp<C>& work, const ByteScores& now, ByteScores& next,
                                            uint32_t biases, uint32_t k_address, uint32_t v_address,
                                            bool never, auto&& copy) {
  constexpr int kWeighed = 128 / C::kDim;
  Weights w;
  float2 add;
#pragma unroll
  for (int c = 0; c < C::kDim / 32; ++c) {
    uint32_t b[4];
    device::load_tiles(b, k_address + c * 32);
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      work.multiply(next, m, c, b);
#pragma unroll
      for (int i = (2 * c + m) * kWeighed; i < (2 * c + m + 1) * kWeighed; ++i) {
        const int r = i % 4, n = i / 4;
        if (r == 0)
          asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(add.x), "=f"(add.y) : "r"(biases + n * 32));
        const auto weight = [&](int j, float bias) {
          const float score = __int_as_float(now[r >> 1][n][(r & 1) * 2 + j]);
          return power_of_two(fmaf(score, work.factor[r], work.minus[r] + bias));
        };
        const float first = weight(0, add.x), second = weight(1, add.y);
        w[r >> 1][n * 2 + (r & 1)] = pack_weights<C::kHalf>(first, second);
      }
    }
  }
  part(never);
  add_weighted<C>(work.o, work.ones, w, v_address, never, copy);
  part(never);
}

// With kBiased, `biases` is [B, pitch]. Grid [query tiles, B·H]; the last queries, which have the most keys, go first.
template <class C, bool kBiased>
__global__ void __launch_bounds__(C::kThreads, C::kBlocks)
    byte_masks_kernel(const ByteParams p, const __grid_constant__ KeyList list, const float* biases,
                      int pitch) {
  using Seen = SeenKeys<C>;
  extern __shared__ __align__(1024) char shared[];
  const int bh = blockIdx.y, first = (gridDim.x - 1 - blockIdx.x) * C::kRows, warp = threadIdx.x / 32,
            first_row = first + warp * 32;
  const Seen seen(shared, list, first, p.to.lq);
  if (threadIdx.x == 0) atomicAdd(p.asked, C::kRows / 16ull);
  int stage = seen.before(INT_MAX), next_stage = seen.before(stage), third = seen.before(next_stage);
  if (stage < 0) {
    if (threadIdx.x % 32 == 0) p.bad[int64_t{bh} * gridDim.x * C::kWarps + first_row / 32] = 1;
    return;
  }
  const BytePlaces<C> at(device::shared_address(shared));
  ByteWarp<C> work;
  load_queries(work.q, p.q + int64_t{bh} * p.to.lq * C::kDim, C::kDim, p.to.lq, C::kDim, first, at);
  float2* rows = reinterpret_cast<float2*>(shared + C::kRowsAt) + warp * 32;
  const uint64_t* marks = seen.marks + warp * 32;
  const int row = min(first + static_cast<int>(threadIdx.x), p.to.lq - 1);
  rows[threadIdx.x % 32] = make_float2(p.q_scales[int64_t{bh} * p.to.lq + row], kWaiting);
  __syncwarp();

  const int8_t* k = p.k + int64_t{bh} * p.to.lk * C::kDim;
  const char* v = static_cast<const char*>(p.v) + int64_t{bh} * p.to.lk * C::kVRow;
  int keys = 0;
  for (int i = 0; i < list.count; ++i) keys += list.ranges[i].present();
  // Only the last stage of all may end before its 64 keys do, so only a block's first one may.
  load_padded<C, C::kKRow, C::kKPitch, C::kKeys>(at.base, k, C::kKRow, stage * C::kKeys, keys, C::kKRow);
  load_padded<C, C::kVRow, C::kVPitch, C::kKeys>(at.base + C::kVAt, v, C::kVRow, stage * C::kKeys, keys,
                                                 C::kVRow);
  const StageCopies<C> copies(k, C::kKRow, v, C::kVRow, C::kVRow, at.base);
  if (next_stage >= 0) copies.keys(next_stage, C::kKBytes, 0, 1);
  device::commit_copies();
  device::wait_copies<0>();
  __syncthreads();
  const auto biases_of = [&](int i) {
    return kBiased ? biases + (int64_t{bh / p.heads} * pitch + max(i, 0) * C::kKeys) : nullptr;
  };
  const auto copy_biases = [&](int i, int slot) {
    if (kBiased && threadIdx.x < C::kKeys / 4)
      device::copy_async(at.base + Seen::kBiasesAt + slot * C::kKeys * 4 + threadIdx.x * 16,
                         biases_of(i) + threadIdx.x * 4, true);
  };
  copy_biases(next_stage, 1);
  if (next_stage >= 0)
    copies.values(next_stage, C::kVBytes, 0, 1), copies.keys(max(third, 0), 2 * C::kKBytes, 0, 1);
  device::commit_copies();

  const float* k_scales = p.k_scales + int64_t{bh} * ((p.to.lk + 127) / 128);
  const auto scale_of = [&](int i) { return k_scales[max(i, 0) * C::kKeys / 128]; };
  work.clear();
  bool begun = false;
  if (seen.look(stage, true) == Seen::some)
    begun = take_some<C, kBiased>(work, at.k, at.v, marks, biases_of(stage), scale_of(stage), begun, rows,
                                  p.never);
  // Where the other stages lie in shared memory:
  uint32_t last = 0, now = C::kKBytes, next = 2 * C::kKBytes, v_now = C::kVBytes;
  ByteScores s[2];
  work.scores(s[0], at.k + now);
  float k_scale = scale_of(next_stage);
#pragma unroll 1
  while (next_stage >= 0) {
    stage = next_stage, next_stage = third, third = seen.before(third);
    device::wait_copies<0>();
    __syncthreads();
    work.use_scale(rows, k_scale);
    k_scale = scale_of(next_stage);
    const uint32_t k_at = at.k + now, v_at = at.v + v_now;
    const uint32_t bias_at =
        at.base + Seen::kBiasesAt + (v_now > 0 ? C::kKeys * 4 : 0) + (threadIdx.x & 3) * 8;
    copy_biases(next_stage, v_now == 0);
    const auto part = seen.look(stage, !begun);
    if (part == Seen::all) {
#pragma unroll
      for (int t = 0; t < 4; ++t) {
        const uint32_t k_next = t < 3 ? k_at + (t + 1) * 16 * C::kKPitch : at.k + next;
        const auto copy = [&] {
          if (t >= C::kCopies) return;
          copies.values(max(next_stage, 0), C::kVBytes - v_now, t, C::kCopies);
          copies.keys(max(third, 0), last, t, C::kCopies);
        };
        if constexpr (kBiased) {
          step_biased<C>(work, s[t % 2], s[1 - t % 2], bias_at + t * 64, k_next, v_at + t * 16 * C::kVPitch,
                         p.never, copy);
        } else {
          work.step(s[t % 2], s[1 - t % 2], k_next, v_at + t * 16 * C::kVPitch, p.never, copy);
        }
      }
    } else {
      copies.values(max(next_stage, 0), C::kVBytes - v_now, 0, 1), copies.keys(max(third, 0), last, 0, 1);
      if (part == Seen::some)
        begun = take_some<C, kBiased>(work, k_at, v_at, marks, biases_of(stage), scale_of(stage), begun, rows,
                                      p.never);
      work.scores(s[0], at.k + next);
    }
    device::commit_copies();
    const uint32_t free_slot = last;
    last = now, now = next, next = free_slot, v_now = C::kVBytes - v_now;
  }
  device::wait_copies<0>();
  __syncthreads();  // the stages are about to be overwritten
  finish_rows<C>(work.o, work.ones, p, bh, first_row, rows, shared);
}

}  // namespace tachy::ops::flash
