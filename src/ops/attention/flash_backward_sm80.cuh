// Flash attention's backward pass for sm_80 and later: dk and dv, and in one variant dq, too. Scores are
// recomputed from q, k and the forward's lse; nothing of size Lq x Lk exists, and no sum depends on the order
// in which blocks run. A block owns keys and goes through the queries. Both sums of 32 keys x 128 columns in
// float32 need more registers than a thread has, so two warps share 32 keys: one computes the weights P
// (transposed: keys are the rows) and dv += P·dout, the other dP = v·doutᵀ, T = P·(dP − delta) and dk += T·q.
// P passes from one to the other through shared memory, in the form of its fragments, packed to 16 bits.
// While one warp computes exponentials the other keeps the tensor cores busy. A warp has 32 rows here, too,
// so that each fragment read from shared memory feeds two products (flash_sm80.cuh).
//
// There are two ways to compute dq. A second kernel may own queries and go through the keys
// (flash_backward_queries_sm80.cuh), which takes seven products in all instead of five, but little shared
// memory. Or, with 194 KiB of shared memory, this kernel multiplies T with its keys and adds to sums in
// memory, one block of a head after the other.
#pragma once

#include "ops/attention/flash_sm80.cuh"

namespace tachy::ops::flash {

struct BackwardParams {
  const void *q, *k, *v, *out, *dout;
  void *dq, *dk, *dv;
  Strides qs, ks, vs, os, dos, dqs, dks, dvs;
  const float* key_bias = nullptr;          // [B, Lk] or null
  const float* lse = nullptr;               // [B, H, Lq]
  float *lse2 = nullptr, *delta = nullptr;  // scratch [B, H, rows]: lse in powers of two, and Σ_c dout·out
  // Scratch [B, H, rows, kDim]: dq's sums, in the order in which a block holds them.
  float* sums = nullptr;
  // Scratch [1 + B·H·rows / 64], set to zero: the next block's number, then for each tile of queries how many
  // blocks have added to it.
  int* turns = nullptr;
  int64_t key_bias_batch = 0, lse_batch = 0, lse_head = 0;
  int rows = 0, lq = 0, lk = 0, d = 0, heads = 0, batches = 0, offset = 0;  // rows: lq rounded up to 64
  float scale = 1;
  bool causal = false;
};

constexpr int kRowsRound = 64;

// lse in powers of two, +inf for queries that saw no key and past the end: their weights become
// exp2(… − inf) = 0.
template <class T>
__global__ void __launch_bounds__(256) prepare_kernel(const BackwardParams p) {
  const int row = blockIdx.x * 16 + threadIdx.x / 16, lane = threadIdx.x % 16;
  const int head = blockIdx.y, batch = blockIdx.z;
  float sum = 0;
  if (row < p.lq && lane * 8 < p.d) {
    const T* out = static_cast<const T*>(p.out) + batch * p.os.batch + row * p.os.row + head * p.os.head;
    const T* dout = static_cast<const T*>(p.dout) + batch * p.dos.batch + row * p.dos.row + head * p.dos.head;
    const uint4 a = *reinterpret_cast<const uint4*>(out + lane * 8);
    const uint4 b = *reinterpret_cast<const uint4*>(dout + lane * 8);
    const uint32_t left[4] = {a.x, a.y, a.z, a.w}, right[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 x = device::unpack_pair<T>(left[i]), y = device::unpack_pair<T>(right[i]);
      sum = fmaf(x.x, y.x, fmaf(x.y, y.y, sum));
    }
  }
#pragma unroll
  for (int step = 8; step; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane > 0) return;
  const int64_t at = (static_cast<int64_t>(batch) * p.heads + head) * p.rows + row;
  const float lse = row < p.lq ? p.lse[batch * p.lse_batch + head * p.lse_head + row] : -INFINITY;
  p.lse2[at] = lse == -INFINITY ? INFINITY : fmaxf(lse * kLog2e, kLowest);
  p.delta[at] = sum;
}

// c [32 rows, kDim] += a [32 rows, kSteps·16] · b, with b's rows at this (transposing) shared address.
template <class T, int kDim, int kSteps>
__device__ void add_products(float (&c)[2][kDim / 8][4], const uint32_t (&a)[kSteps][2][4],
                             uint32_t b_address) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) {
      uint32_t b[4];
      device::load_tiles_transposed(b, (b_address ^ (n << 5)) + step * 16 * kDim * 2);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        device::mma<T>(c[m][2 * n], a[step][m], b[0], b[1]);
        device::mma<T>(c[m][2 * n + 1], a[step][m], b[2], b[3]);
      }
    }
}

template <int kDim>
__device__ void clear(float (&c)[2][kDim / 8][4]) {
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) c[m][n][i] = 0;
}

// Writes a warp's 32 rows times `factor` to memory, through `tile`, 32 swizzled rows of shared memory, so
// that each store has 16 bytes.
template <class T, int kDim>
__device__ void store_rows(const float (&c)[2][kDim / 8][4], float factor, T* tile, T* to, int64_t stride,
                           int rows, int d) {
  const int lane = threadIdx.x % 32;
  __syncwarp();
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int row = (lane >> 2) + 8 * r;
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n) {
      auto* at = reinterpret_cast<uint32_t*>(tile + row * kDim + ((n ^ (row & 7)) << 3));
      at[lane & 3] =
          device::pack_pair<T>(c[r >> 1][n][(r & 1) * 2] * factor, c[r >> 1][n][(r & 1) * 2 + 1] * factor);
    }
  }
  __syncwarp();
  constexpr int kChunks = kDim / 8, kStep = 32 / kChunks;
  const int column = lane % kChunks;
#pragma unroll
  for (int i = 0; i < 32 / kStep; ++i) {
    const int row = lane / kChunks + i * kStep;
    if (row < rows && column * 8 < d)
      *reinterpret_cast<uint4*>(to + row * stride + column * 8) =
          *reinterpret_cast<const uint4*>(tile + row * kDim + ((column ^ (row & 7)) << 3));
  }
}

// Writes sixteen bytes of sums to memory, or adds them to what is there.
inline __device__ void add_four(float* to, const float (&v)[4], bool over) {
  if (over) {
    *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
    return;
  }
#if __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v[0]), "f"(v[1]),
               "f"(v[2]), "f"(v[3])
               : "memory");
#else
  for (int i = 0; i < 4; ++i) atomicAdd(to + i, v[i]);
#endif
}

template <int kDim, int kPairs, int kStageRows, bool kQueries = false>
constexpr size_t key_shared_bytes() {
  return size_t(2 * kPairs * 32 + 4 * kStageRows) * kDim * 2 + size_t(kPairs) * 32 * kStageRows * 2 +
         4 * kStageRows * sizeof(float) + (kQueries ? 2 * kPairs * 32 * kStageRows * 2 : 0);
}

// grid [key tiles, H, B]. Warps 0 … kPairs − 1 compute P and dv, the others dk. With kQueries the kernel
// computes dq, too, on a grid [key tiles·H·B]: all warps multiply T, which the second warps left in shared
// memory, with the keys, and add the product to the sums of this tile of queries in memory. The blocks of a
// head add to each tile one after the other, in the order of their key tiles, so the order of the additions
// is always the same. Neighbouring blocks belong to different heads, so that the blocks of one head, which
// wait for each other, start one after another.
template <class T, int kDim, int kPairs, int kStageRows, bool kQueries = false>
__global__ void __launch_bounds__(kPairs * 64, 1) key_gradient_kernel(const BackwardParams p) {
  extern __shared__ __align__(1024) char shared[];
  // Tells the second warp of a pair that it may read what the first has written. bar.arrive and bar.sync of
  // 64 threads would be up to 1 % faster, but compute-sanitizer's racecheck (CUDA 13.0) loses count of
  // __syncthreads if part of a block meets at one of those, and reports races across it.
  __shared__ uint64_t handed[kPairs];
  constexpr int kThreads = kPairs * 64, kKeys = kPairs * 32, kTiles = kStageRows / 8,
                kSteps = kStageRows / 16;
  constexpr uint32_t kStageBytes = kStageRows * kDim * 2, kTileBytes = kKeys * kDim * 2;
  constexpr uint32_t kQueriesAt = 2 * kTileBytes, kExchangeAt = kQueriesAt + 4 * kStageBytes,
                     kExchangeBytes = 32 * kStageRows * 2, kRowAt = kExchangeAt + kPairs * kExchangeBytes,
                     kWeighedAt = kRowAt + 4 * kStageRows * 4, kWeighedBytes = kKeys * kStageRows * 2;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, pair = warp % kPairs;
  int head = blockIdx.y, batch = blockIdx.z, key_tile = blockIdx.x;
  if constexpr (kQueries) {
    __shared__ int number;  // blocks are numbered as they start, so a waiting block waits for one that runs
    if (threadIdx.x == 0) number = atomicAdd(p.turns, 1);
    __syncthreads();
    const int pairs = p.heads * p.batches;
    key_tile = number / pairs, head = number % pairs % p.heads, batch = number % pairs / p.heads;
  }
  const int first = key_tile * kKeys, mine = first + pair * 32;
  const bool second = warp >= kPairs;
  if (threadIdx.x < kPairs)
    device::barrier_init(handed + threadIdx.x, 32);  // the loop's first barrier is after it
  const T* q = static_cast<const T*>(p.q) + batch * p.qs.batch + head * p.qs.head;
  const T* k = static_cast<const T*>(p.k) + batch * p.ks.batch + head * p.ks.head;
  const T* v = static_cast<const T*>(p.v) + batch * p.vs.batch + head * p.vs.head;
  const T* dout = static_cast<const T*>(p.dout) + batch * p.dos.batch + head * p.dos.head;
  const int64_t row_base = (static_cast<int64_t>(batch) * p.heads + head) * p.rows;
  const uint32_t base = device::shared_address(shared);

  const auto load_stage = [&](int tile) {
    const int at = tile & 1, from = tile * kStageRows;
    load_rows<T, kDim, kStageRows, kThreads>(base + kQueriesAt + at * kStageBytes, q, p.qs.row, from, p.lq,
                                             p.d);
    load_rows<T, kDim, kStageRows, kThreads>(base + kQueriesAt + (2 + at) * kStageBytes, dout, p.dos.row,
                                             from, p.lq, p.d);
    constexpr int kChunks = kStageRows / 4;
    if (threadIdx.x < 2 * kChunks) {
      const int which = threadIdx.x / kChunks, chunk = threadIdx.x % kChunks;
      device::copy_async(base + kRowAt + (which * 2 + at) * kStageRows * 4 + chunk * 16,
                         (which ? p.delta : p.lse2) + row_base + from + chunk * 4, true);
    }
  };
  // Key j is seen by the queries i ≥ j − offset.
  const int tiles = p.rows / kStageRows,
            begin = p.causal ? min(max(first - p.offset, 0) / kStageRows, tiles) : 0;
  load_rows<T, kDim, kKeys, kThreads>(base, k, p.ks.row, first, p.lk, p.d);
  load_rows<T, kDim, kKeys, kThreads>(base + kTileBytes, v, p.vs.row, first, p.lk, p.d);
  if (begin < tiles) load_stage(begin);
  device::commit_copies();

  const int row_a = lane & 15, half_a = lane >> 4, row_b = (lane & 7) + ((lane >> 4) << 3),
            half_b = (lane >> 3) & 1;
  const uint32_t a_offset = row_a * kDim * 2 + ((half_a ^ (row_a & 7)) << 4);
  const uint32_t b_offset = row_b * kDim * 2 + ((half_b ^ (row_b & 7)) << 4);
  const uint32_t own = base + (second ? kTileBytes : 0) + pair * 32 * kDim * 2 + a_offset;
  const uint32_t scored = base + kQueriesAt + (second ? 2 : 0) * kStageBytes + b_offset;
  const uint32_t summed = base + kQueriesAt + (second ? 0 : 2) * kStageBytes + a_offset;
  auto* exchange = reinterpret_cast<uint4*>(shared + kExchangeAt + pair * kExchangeBytes) + lane;
  const float scale = p.scale * kLog2e;
  float bias[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const int key = mine + (lane >> 2) + 8 * r;
    bias[r] = key >= p.lk  ? -INFINITY
              : p.key_bias ? bias_to_log2(p.key_bias[batch * p.key_bias_batch + key])
                           : 0.0f;
  }

  int* turn = kQueries ? p.turns + 1 + row_base / kStageRows : nullptr;
  const auto end_turn = [&](int tile) {  // called after a barrier: every thread has issued its additions
    if (threadIdx.x > 0) return;
    __threadfence();
    atomicAdd(turn + tile, 1);
  };

  // Computes dq of one tile, 32 queries and a quarter of the columns per warp, from the T that a step wrote
  // before a barrier.
  const auto query_products = [&](int tile) {
    static_assert(!kQueries || (kPairs == 4 && kStageRows == 64));
    constexpr int kColumns = kDim / 32;  // tiles of 8
    // This load is issued early and its result used when the products are done; by then it is
    // usually this block's turn.
    int done = key_tile;
    if (key_tile > 0) asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(done) : "l"(turn + tile));
    const int row = tile * kStageRows;
    float c[2][kColumns][4];
#pragma unroll
    for (int i = 0; i < 2 * kColumns * 4; ++i) c[i / 4 / kColumns][i / 4 % kColumns][i % 4] = 0;
    const int seen = p.causal ? min(kKeys, (row + kStageRows - 1 + p.offset - first) / 32 * 32 + 32) : kKeys;
    const uint32_t t_address = base + kWeighedAt + (tile & 1) * kWeighedBytes + row_b * kStageRows * 2,
                   t_chunk = ((warp & 1) * 4 + half_b) ^ (row_b & 7);
    const uint32_t k_address = (base + a_offset) ^ ((warp >> 1) * (kDim / 64) << 5);
#pragma unroll
    for (int key = 0; key < kKeys; key += 16) {
      if (key >= seen) break;
      uint32_t left[2][4];
#pragma unroll
      for (int m = 0; m < 2; ++m)
        device::load_tiles_transposed(left[m],
                                      t_address + key * kStageRows * 2 + ((t_chunk ^ (m << 1)) << 4));
#pragma unroll
      for (int n = 0; n < kColumns / 2; ++n) {
        uint32_t b[4];
        device::load_tiles_transposed(b, (k_address ^ (n << 5)) + key * kDim * 2);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          device::mma<T>(c[m][2 * n], left[m], b[0], b[1]);
          device::mma<T>(c[m][2 * n + 1], left[m], b[2], b[3]);
        }
      }
    }
    while (done < key_tile)
      asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(done) : "l"(turn + tile) : "memory");
    __syncwarp();
    float* to = p.sums + (row_base + row) * kDim + (warp * 2 * kColumns * 32 + lane) * 4;
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int n = 0; n < kColumns; ++n) add_four(to + (m * kColumns + n) * 128, c[m][n], key_tile == 0);
  };

  float sum[2][kDim / 8][4];
  clear<kDim>(sum);
  uint32_t parity = 0;
  for (int tile = begin; tile < tiles; ++tile) {
    device::wait_copies<0>();
    __syncthreads();
    if (tile + 1 < tiles) load_stage(tile + 1);
    device::commit_copies();
    if constexpr (kQueries) {  // dq of the step before, whose T is complete, so nothing needs to wait for it
      if (tile > begin + 1) end_turn(tile - 2);
      if (tile > begin) query_products(tile - 1);
    }
    const int row = tile * kStageRows;
    const bool unseen = p.causal && row + kStageRows - 1 + p.offset < mine;
    if (!kQueries && unseen) continue;
    const uint32_t at = (tile & 1) * kStageBytes;
    if (!unseen) {
      float s[2][kTiles][4];
      row_products<T, kDim, kTiles>(s, own, scored + at);
      // A value for each query of the tile: lse for the first warp, delta for the second.
      const auto* of_row = reinterpret_cast<const float*>(shared + kRowAt) +
                           (second * 2 + (tile & 1)) * kStageRows + 2 * (lane & 3);
      uint32_t a[kSteps][2][4];
      if (!second) {
        const bool masked = p.causal && row + p.offset < mine + 31;
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
          const float2 lse = *reinterpret_cast<const float2*>(of_row + 8 * n);
#pragma unroll
          for (int r = 0; r < 4; ++r) {
            const float* x = &s[r >> 1][n][(r & 1) * 2];
            float e0 = device::exp2_approx(fmaf(x[0], scale, bias[r] - lse.x));
            float e1 = device::exp2_approx(fmaf(x[1], scale, bias[r] - lse.y));
            if (masked) {
              const int seen = row + 8 * n + 2 * (lane & 3) + p.offset - (mine + (lane >> 2) + 8 * r);
              if (seen < 0) e0 = 0;
              if (seen + 1 < 0) e1 = 0;
            }
            a[n >> 1][r >> 1][(n & 1) * 2 + (r & 1)] = device::pack_pair<T>(e0, e1);
          }
        }
#pragma unroll
        for (int step = 0; step < kSteps; ++step)
#pragma unroll
          for (int m = 0; m < 2; ++m)
            exchange[(step * 2 + m) * 32] =
                make_uint4(a[step][m][0], a[step][m][1], a[step][m][2], a[step][m][3]);
        device::barrier_arrive(handed + pair);
      } else {
        device::barrier_wait(handed + pair, parity);
        parity ^= 1;
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          const float2 delta[2] = {*reinterpret_cast<const float2*>(of_row + 16 * step),
                                   *reinterpret_cast<const float2*>(of_row + 16 * step + 8)};
#pragma unroll
          for (int m = 0; m < 2; ++m) {
            const uint4 packed = exchange[(step * 2 + m) * 32];
            const uint32_t word[4] = {packed.x, packed.y, packed.z, packed.w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const float2 weight = device::unpack_pair<T>(word[i]);
              const float* x = &s[m][2 * step + (i >> 1)][(i & 1) * 2];
              a[step][m][i] = device::pack_pair<T>(weight.x * (x[0] - delta[i >> 1].x),
                                                   weight.y * (x[1] - delta[i >> 1].y));
            }
          }
        }
      }
      if (kQueries && second) {  // writes T, 32 rows of keys, for the next step
        char* rows = shared + kWeighedAt + (tile & 1) * kWeighedBytes + pair * 32 * kStageRows * 2;
#pragma unroll
        for (int step = 0; step < kSteps; ++step)
#pragma unroll
          for (int m = 0; m < 2; ++m)
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const int key = m * 16 + (i & 1) * 8 + (lane >> 2), chunk = 2 * step + (i >> 1);
              reinterpret_cast<uint32_t*>(rows + key * kStageRows * 2 +
                                          ((chunk ^ (key & 7)) << 4))[lane & 3] = a[step][m][i];
            }
      }
      add_products<T, kDim, kSteps>(sum, a, summed + at);
    }
  }
  if constexpr (kQueries) {
    __syncthreads();
    if (begin < tiles) {
      if (tiles - 1 > begin) end_turn(tiles - 2);
      query_products(tiles - 1);
    }
  }
  device::wait_copies<0>();
  __syncthreads();  // the tiles of K and V are about to be overwritten
  if (kQueries && begin < tiles) end_turn(tiles - 1);
  const Strides& strides = second ? p.dks : p.dvs;
  T* to = static_cast<T*>(second ? p.dk : p.dv) + batch * strides.batch + head * strides.head +
          mine * strides.row;
  store_rows<T, kDim>(sum, second ? p.scale : 1.0f,
                      reinterpret_cast<T*>(shared + (second ? kTileBytes : 0)) + pair * 32 * kDim, to,
                      strides.row, p.lk - mine, p.d);
}

}  // namespace tachy::ops::flash
