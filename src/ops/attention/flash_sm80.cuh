// Flash attention, forward, for sm_80 and later:
// out = softmax(q·kᵀ·scale + biases)·v, one pass over the keys.
//
// A block takes kWarps·32 queries of one head; its warps own 32 rows each, so that every fragment of K and V
// read from shared memory feeds two products (with 16 rows the shared memory, not the tensor cores, would be
// the limit: 64 KiB of fragments per warp for 128 products). K and V pass through two stages of kStageKeys
// keys filled by cp.async; rows of 16-byte chunks are swizzled (chunk ^ row % 8), so ldmatrix has no bank
// conflicts. Scores, maxima, sums and the output stay in registers in float32.
//
// The online softmax is in powers of two, with the scale folded into the one FMA before ex2. The maximum m
// that is subtracted is raised only when a row outgrows it by 2^8: until then exp(s - m) merely exceeds 1,
// which float32 sums and 16-bit probabilities hold as exactly, and the cost of the quad's shuffles and of
// rescaling the output is saved. The row's true maximum does not matter: the final division cancels m.
#pragma once

#include "device/mma_sm80.cuh"
#include "ops/attention/key_ranges.cuh"

namespace tachy::ops::flash {

struct Params {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* out = nullptr;
  Strides qs, ks, vs, os;
  const float* key_bias = nullptr;  // [B, Lk] or null
  const float* bias = nullptr;      // [H, Lq, Lk] or null
  float* lse = nullptr;             // [B, H, Lq] or null
  int64_t key_bias_batch = 0, bias_head = 0, bias_row = 0, lse_batch = 0, lse_head = 0;
  int lq = 0, lk = 0, d = 0, offset = 0, block = 1, window = 0;
  float scale = 1;
  bool causal = false, accumulate = false;
};

constexpr int kSub = 64;  // keys for which a warp holds scores at a time
constexpr float kLog2e = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
constexpr float kLowest = -3.4028234663852886e38f;
constexpr float kSlack = 8;  // powers of two by which a row may outgrow its subtracted maximum

enum class Bias { none, keys, full };  // full: a bias for each (query, key), too

template <int kWarps, int kStageKeys, int kDim>
constexpr size_t shared_bytes() {
  return size_t(kWarps * 32 + 4 * kStageKeys) * kDim * 2 + 2 * kStageKeys * sizeof(float);
}

// How many keys query i sees under a causal mask, without regard to how many there are.
__device__ __forceinline__ int seen_by(const Params& p, int i) { return causal_keys(i, p.offset, p.block); }
__device__ __forceinline__ int seen_from(const Params& p, int i) {
  return window_start(i, p.offset, p.window);
}

// A bias in powers of two. A mask of finfo.min would overflow to -inf; it becomes the lowest number instead,
// so that a row that has nothing else gets uniform weights, as in the definition.
inline __device__ float bias_to_log2(float bias) {
  return bias == -INFINITY ? bias : fmaxf(bias * kLog2e, kLowest);
}

// Loads rows [first, first + kRows) of a [rows, d] matrix into swizzled shared memory; what lies past `limit`
// rows or `d` columns becomes zero.
template <class T, int kDim, int kRows, int kThreads>
__device__ void load_rows(uint32_t to, const T* from, int64_t stride, int first, int limit, int d) {
  constexpr int kChunks = kDim / 8, kStep = kThreads / kChunks;
  const int column = threadIdx.x % kChunks, row = threadIdx.x / kChunks;
  const bool inside = column * 8 < d;
  const T* p = from + int64_t(first + row) * stride + column * 8;
  uint32_t address = to + row * kDim * 2 + ((column ^ (row & 7)) << 4);
#pragma unroll
  for (int i = 0; i < kRows / kStep; ++i) {
    const bool present = inside && first + row + i * kStep < limit;
    device::copy_async(address, present ? p : from, present);
    p += kStep * stride, address += kStep * kDim * 2;
  }
}

// s [32 rows, kTiles·8] = 32 rows times the rows of another matrix, both with kDim values in swizzled shared
// memory. The addresses are those of this lane's first chunks, for A- and B-fragments.
template <class T, int kDim, int kTiles>
__device__ void row_products(float (&s)[2][kTiles][4], uint32_t a_address, uint32_t b_address) {
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) s[m][n][i] = 0;
#pragma unroll
  for (int step = 0; step < kDim / 16; ++step) {
    uint32_t a[2][4];
#pragma unroll
    for (int m = 0; m < 2; ++m) device::load_tiles(a[m], (a_address ^ (step << 5)) + m * 16 * kDim * 2);
#pragma unroll
    for (int n = 0; n < kTiles / 2; ++n) {
      uint32_t b[4];
      device::load_tiles(b, (b_address ^ (step << 5)) + n * 16 * kDim * 2);
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        device::mma<T>(s[m][2 * n], a[m], b[0], b[1]);
        device::mma<T>(s[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

template <class T, int kDim, int kWarps, int kStageKeys, Bias kBias>
struct Warp {
  static constexpr bool kBiased = kBias != Bias::none;
  static constexpr int kTiles = kSub / 8;
  float o[2][kDim / 8][4];
  // For rows g, g + 8, g + 16, g + 24: the subtracted maximum, and this lane's part of the sum.
  float top[4], sum[4];
  int lane, first_row;

  __device__ void clear() {
#pragma unroll
    for (int m = 0; m < 2; ++m)
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) o[m][n][i] = 0;
#pragma unroll
    for (int r = 0; r < 4; ++r) top[r] = -INFINITY, sum[r] = 0;
  }

  // Turns scores into powers of two and adds biases, in the variants with biases. `key_bias` holds this
  // sub-block's biases in shared memory, already in powers of two.
  __device__ void add_biases(float (&s)[2][kTiles][4], const Params& p, int head, int key,
                             const float* key_bias) {
    const float scale = p.scale * kLog2e;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      const float2 add = *reinterpret_cast<const float2*>(key_bias + 8 * n + 2 * (lane & 3));
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float& v = s[r >> 1][n][(r & 1) * 2 + c];
          v = fmaf(v, scale, c ? add.y : add.x);
          if constexpr (kBias == Bias::full) {
            const int i = first_row + (lane >> 2) + 8 * r, j = key + 8 * n + 2 * (lane & 3) + c;
            if (i < p.lq && j < p.lk) v += bias_to_log2(p.bias[head * p.bias_head + i * p.bias_row + j]);
          }
        }
    }
  }

  __device__ void mask(float (&s)[2][kTiles][4], const Params& p, int key) {
    const int column = key + 2 * (lane & 3);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int row = first_row + (lane >> 2) + 8 * r, from = seen_from(p, row);
      const int seen = p.causal ? min(p.lk, seen_by(p, row)) : p.lk;
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
#pragma unroll
        for (int c = 0; c < 2; ++c)
          if (column + 8 * n + c >= seen || column + 8 * n + c < from)
            s[r >> 1][n][(r & 1) * 2 + c] = -INFINITY;
    }
  }

  __device__ void raise(const float (&highest)[4], float to_log2) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      float high = fmaxf(top[r], highest[r]);
      high = fmaxf(high, __shfl_xor_sync(0xffffffff, high, 1));
      high = fmaxf(high, __shfl_xor_sync(0xffffffff, high, 2));
      const float factor = high == -INFINITY ? 1.0f : device::exp2_approx((top[r] - high) * to_log2);
      top[r] = high, sum[r] *= factor;
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        o[r >> 1][n][(r & 1) * 2] *= factor;
        o[r >> 1][n][(r & 1) * 2 + 1] *= factor;
      }
    }
  }

  // Processes one sub-block of 64 keys whose rows of K and V start at these
  // (lane-dependent, swizzled) addresses.
  __device__ void keys(const Params& p, int head, int key, uint32_t q_address, uint32_t k_address,
                       uint32_t v_address, const float* key_bias) {
    float s[2][kTiles][4];
    row_products<T, kDim, kTiles>(s, q_address, k_address);
    const float to_log2 = kBiased ? 1.0f : p.scale * kLog2e;
    if constexpr (kBiased) add_biases(s, p, head, key, key_bias);
    if (key + kSub > p.lk ||
        (p.causal && (key + kSub > seen_by(p, first_row) || key < seen_from(p, first_row + 31))))
      mask(s, p, key);

    float highest[4];
    bool grows = false;
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      highest[r] = s[r >> 1][0][(r & 1) * 2];
#pragma unroll
      for (int n = 0; n < kTiles; ++n)
        highest[r] = fmaxf(highest[r], fmaxf(s[r >> 1][n][(r & 1) * 2], s[r >> 1][n][(r & 1) * 2 + 1]));
      grows |= (highest[r] - top[r]) * to_log2 > kSlack;
    }
    if (__any_sync(0xffffffff, grows)) raise(highest, to_log2);

    float minus[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) minus[r] = top[r] == -INFINITY ? 0.0f : -top[r] * to_log2;
#pragma unroll
    for (int step = 0; step < kSub / 16; ++step) {
      uint32_t a[2][4];
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          const float* v = &s[r >> 1][2 * step + n][(r & 1) * 2];
          float e[2];
#pragma unroll
          for (int c = 0; c < 2; ++c)
            e[c] = device::exp2_approx(kBiased ? v[c] + minus[r] : fmaf(v[c], to_log2, minus[r]));
          sum[r] += e[0] + e[1];
          a[r >> 1][n * 2 + (r & 1)] = device::pack_pair<T>(e[0], e[1]);
        }
#pragma unroll
      for (int n = 0; n < kDim / 16; ++n) {
        uint32_t b[4];
        device::load_tiles_transposed(b, (v_address ^ (n << 5)) + step * 16 * kDim * 2);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          device::mma<T>(o[m][2 * n], a[m], b[0], b[1]);
          device::mma<T>(o[m][2 * n + 1], a[m], b[2], b[3]);
        }
      }
    }
  }

  __device__ static float natural(float top, const Params& p) {
    if (!kBiased) return top * p.scale;
    return top == kLowest ? top : top * kLn2;
  }

  // Divides, and stores lse and the output. The output passes through this warp's own rows of the query tile
  // (no longer used), so that each store has 16 bytes; an accumulating output is read and written in the
  // layout of the fragments.
  __device__ void finish(const Params& p, int batch, int head, T* tile_pointer) {
    float inverse[4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      sum[r] += __shfl_xor_sync(0xffffffff, sum[r], 1);
      sum[r] += __shfl_xor_sync(0xffffffff, sum[r], 2);
      inverse[r] = sum[r] > 0 ? 1.0f / sum[r] : 0.0f;
      const int i = first_row + (lane >> 2) + 8 * r;
      if (p.lse && (lane & 3) == 0 && i < p.lq)
        p.lse[batch * p.lse_batch + head * p.lse_head + i] =
            sum[r] > 0 ? natural(top[r], p) + logf(sum[r]) : -INFINITY;
    }
    T* out = static_cast<T*>(p.out) + batch * p.os.batch + head * p.os.head;
    if (p.accumulate) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const int i = first_row + (lane >> 2) + 8 * r;
        if (i >= p.lq) continue;
#pragma unroll
        for (int n = 0; n < kDim / 8; ++n) {
          const int column = 8 * n + 2 * (lane & 3);
          if (column >= p.d) continue;
          auto* at = reinterpret_cast<uint32_t*>(out + i * p.os.row + column);
          const float2 old = device::unpack_pair<T>(*at);
          *at = device::pack_pair<T>(old.x + o[r >> 1][n][(r & 1) * 2] * inverse[r],
                                     old.y + o[r >> 1][n][(r & 1) * 2 + 1] * inverse[r]);
        }
      }
      return;
    }
    __syncwarp();
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int row = (lane >> 2) + 8 * r;
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n) {
        auto* at = reinterpret_cast<uint32_t*>(tile_pointer + row * kDim + ((n ^ (row & 7)) << 3));
        at[lane & 3] = device::pack_pair<T>(o[r >> 1][n][(r & 1) * 2] * inverse[r],
                                            o[r >> 1][n][(r & 1) * 2 + 1] * inverse[r]);
      }
    }
    __syncwarp();
    constexpr int kChunks = kDim / 8, kStep = 32 / kChunks;
    const int column = lane % kChunks;
#pragma unroll
    for (int i = 0; i < 32 / kStep; ++i) {
      const int row = lane / kChunks + i * kStep;
      if (first_row + row < p.lq && column * 8 < p.d)
        *reinterpret_cast<uint4*>(out + (first_row + row) * p.os.row + column * 8) =
            *reinterpret_cast<const uint4*>(tile_pointer + row * kDim + ((column ^ (row & 7)) << 3));
    }
  }
};

// The addresses of a block's shared memory: its queries, two stages of k and of v, and two of key biases.
template <int kRows, int kStageKeys, int kDim>
struct Places {
  static constexpr uint32_t kStageBytes = kStageKeys * kDim * 2;
  uint32_t q, k, v;
  float* key_bias;
  __device__ explicit Places(char* shared)
      : q(device::shared_address(shared)),
        k(q + kRows * kDim * 2),
        v(k + 2 * kStageBytes),
        key_bias(reinterpret_cast<float*>(shared + (kRows + 4 * kStageKeys) * kDim * 2)) {}
};

// The blocks of keys that a block of queries attends to. A stage has half of one of them.
struct Listed {
  const int32_t* list;
  int count, last;  // how many there are; the index of the last one of all
  static constexpr int kTokens = BlockLists::kTokens;

  // Returns the first key of stage i; of stages that are not there, that of some other.
  template <int kStageKeys>
  __device__ __forceinline__ int key(int i) const {
    constexpr int kEach = kTokens / kStageKeys;
    const int at = max(0, min(i / kEach, count - 1));
    return max(0, min(last, __ldg(list + at))) * kTokens + i % kEach * kStageKeys;
  }
};

// Passes the keys of one range, or those of the blocks that are listed, through the stages and lets `work` process
// them. Earlier copies (the queries) have arrived when this returns.
template <class T, int kDim, int kWarps, int kStageKeys, Bias kBias, bool kListed = false>
__device__ __forceinline__ void take_keys(Warp<T, kDim, kWarps, kStageKeys, kBias>& work, const Params& p,
                                          int batch, int head, int first,
                                          const Places<kWarps * 32, kStageKeys, kDim>& at,
                                          const Listed& listed = {}) {
  constexpr int kThreads = kWarps * 32, kRows = kWarps * 32;
  constexpr uint32_t kStageBytes = kStageKeys * kDim * 2;
  const int lane = work.lane;
  const T* k = static_cast<const T*>(p.k) + batch * p.ks.batch + head * p.ks.head;
  const T* v = static_cast<const T*>(p.v) + batch * p.vs.batch + head * p.vs.head;
  const int keys = p.causal ? max(0, min(p.lk, seen_by(p, min(first + kRows, p.lq) - 1))) : p.lk;
  const int begin = kListed ? 0 : seen_from(p, first) / kStageKeys,
            blocks = kListed ? listed.count * (Listed::kTokens / kStageKeys)
                             : (keys + kStageKeys - 1) / kStageKeys;
  // With lists, the first keys of this stage, the next one and the one after it; the last is read that early.
  int listed_key[3] = {};
  if constexpr (kListed)
    for (int i = 0; i < 3; ++i) listed_key[i] = listed.key<kStageKeys>(i);
  // Key biases are read one stage before they are stored, which is one before they are used.
  const auto read_bias = [&](int block) {
    const int key = block * kStageKeys + static_cast<int>(threadIdx.x);
    if (!p.key_bias || threadIdx.x >= kStageKeys || key >= p.lk) return 0.0f;
    return bias_to_log2(p.key_bias[batch * p.key_bias_batch + key]);
  };
  const auto store_bias = [&](int block, float bias) {
    if (threadIdx.x < kStageKeys) at.key_bias[(block & 1) * kStageKeys + threadIdx.x] = bias;
  };
  float next_bias = 0;
  if constexpr (kBias != Bias::none) store_bias(begin, read_bias(begin)), next_bias = read_bias(begin + 1);
  const auto load_stage = [&](int block, int first_key) {
    const uint32_t to = (block & 1) * kStageBytes;
    load_rows<T, kDim, kStageKeys, kThreads>(at.k + to, k, p.ks.row, first_key, p.lk, p.d);
    load_rows<T, kDim, kStageKeys, kThreads>(at.v + to, v, p.vs.row, first_key, p.lk, p.d);
  };
  if (begin < blocks) load_stage(begin, kListed ? listed_key[0] : begin * kStageKeys);
  device::commit_copies();

  // The rows and chunks that this lane passes to ldmatrix. For Q and V a lane has row lane % 16, and lanes
  // from 16 on have the right half's chunk; for K bit 3 of the lane chooses the half. Chunk 0 or 1 is
  // swizzled; an XOR leads to further chunks.
  const int row_a = lane & 15, half_a = lane >> 4, row_b = (lane & 7) + ((lane >> 4) << 3),
            half_b = (lane >> 3) & 1;
  const uint32_t a_offset = row_a * kDim * 2 + ((half_a ^ (row_a & 7)) << 4);
  const uint32_t b_offset = row_b * kDim * 2 + ((half_b ^ (row_b & 7)) << 4);
  const uint32_t q_address = at.q + (threadIdx.x / 32) * 32 * kDim * 2 + a_offset;

  for (int block = begin; block < blocks; ++block) {
    device::wait_copies<0>();
    __syncthreads();
    if (block + 1 < blocks) load_stage(block + 1, kListed ? listed_key[1] : (block + 1) * kStageKeys);
    device::commit_copies();
    if constexpr (kBias != Bias::none) store_bias(block + 1, next_bias), next_bias = read_bias(block + 2);
    const uint32_t from = (block & 1) * kStageBytes;
#pragma unroll 1
    for (int sub = 0; sub < kStageKeys / kSub; ++sub) {
      const int key = (kListed ? listed_key[0] : block * kStageKeys) + sub * kSub;
      if (key >= p.lk || (p.causal && key >= seen_by(p, work.first_row + 31))) break;
      if (key + kSub <= seen_from(p, work.first_row)) continue;
      work.keys(p, head, key, q_address, at.k + from + sub * kSub * kDim * 2 + b_offset,
                at.v + from + sub * kSub * kDim * 2 + a_offset,
                at.key_bias + (block & 1) * kStageKeys + sub * kSub);
    }
    if constexpr (kListed)
      listed_key[0] = listed_key[1], listed_key[1] = listed_key[2],
      listed_key[2] = listed.key<kStageKeys>(block + 3);
  }
  if (begin >= blocks) {
    device::wait_copies<0>();
    __syncthreads();  // the query tile is about to be overwritten
  }
}

// Computes the queries from `first` on of one head, as many as a block has rows.
template <class T, int kDim, int kWarps, int kStageKeys, Bias kBias, bool kListed = false>
__device__ __forceinline__ void attend(const Params& p, int batch, int head, int first, char* shared,
                                       const Listed& listed = {}) {
  constexpr int kThreads = kWarps * 32, kRows = kWarps * 32;
  const int warp = threadIdx.x / 32;
  const Places<kRows, kStageKeys, kDim> at(shared);
  const T* q = static_cast<const T*>(p.q) + batch * p.qs.batch + head * p.qs.head;
  load_rows<T, kDim, kRows, kThreads>(at.q, q, p.qs.row, first, p.lq, p.d);
  Warp<T, kDim, kWarps, kStageKeys, kBias> work;
  work.lane = threadIdx.x % 32, work.first_row = first + warp * 32;
  work.clear();
  take_keys<T, kDim, kWarps, kStageKeys, kBias, kListed>(work, p, batch, head, first, at, listed);
  work.finish(p, batch, head, reinterpret_cast<T*>(shared) + warp * 32 * kDim);
}

// grid [query tiles, H, B]: neighbouring blocks share a head, so its K and V stay in the L2 cache.
template <class T, int kDim, int kWarps, int kStageKeys, int kBlocks, Bias kBias>
__global__ void __launch_bounds__(kWarps * 32, kBlocks) attention_kernel(const Params p) {
  extern __shared__ __align__(1024) char shared[];
  // Under a causal mask the last queries have the most keys, so they go first.
  const int tile = p.causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  attend<T, kDim, kWarps, kStageKeys, kBias>(p, blockIdx.z, blockIdx.y, tile * kWarps * 32, shared);
}

// Returns the blocks of keys for a block of queries.
__device__ __forceinline__ Listed listed_for(const Lists& lists, int batch, int head, int query_block) {
  return {lists.list(batch, head, query_block), lists.count(batch, head, query_block), lists.last};
}

// The same over lists of key blocks: a block of queries is one that has a list of its own.
template <class T, int kDim, int kStageKeys, int kBlocks>
__global__ void __launch_bounds__(BlockLists::kTokens, kBlocks)
    attention_lists_kernel(const Params p, const Lists lists) {
  extern __shared__ __align__(1024) char shared[];
  constexpr int kWarps = BlockLists::kTokens / 32;
  attend<T, kDim, kWarps, kStageKeys, Bias::none, true>(
      p, blockIdx.z, blockIdx.y, blockIdx.x * BlockLists::kTokens, shared,
      listed_for(lists, blockIdx.z, blockIdx.y, blockIdx.x));
}

// The same as attend() over several ranges, whose lengths may lie on the device.
template <class T, int kDim, int kWarps, int kStageKeys>
__device__ __forceinline__ void attend_ranges(const Params& given, const KeyList& list, int batch, int head,
                                              int first, char* shared) {
  constexpr int kThreads = kWarps * 32, kRows = kWarps * 32;
  const int warp = threadIdx.x / 32;
  const Places<kRows, kStageKeys, kDim> at(shared);
  const T* q = static_cast<const T*>(given.q) + batch * given.qs.batch + head * given.qs.head;
  load_rows<T, kDim, kRows, kThreads>(at.q, q, given.qs.row, first, given.lq, given.d);
  Warp<T, kDim, kWarps, kStageKeys, Bias::keys> work;
  work.lane = threadIdx.x % 32, work.first_row = first + warp * 32;
  work.clear();
  Params p = given;
  for (int i = 0; i < list.count; ++i) {
    const Keys& keys = list.ranges[i];
    p.k = keys.k, p.v = keys.v, p.ks = keys.ks, p.vs = keys.vs, p.lk = keys.present();
    p.key_bias = keys.key_bias, p.key_bias_batch = keys.key_bias_batch;
    p.causal = keys.causal, p.offset = keys.offset, p.block = keys.block, p.window = keys.window;
    take_keys<T, kDim, kWarps, kStageKeys, Bias::keys>(work, p, batch, head, first, at);
    __syncthreads();  // the stages are about to be overwritten
  }
  work.finish(p, batch, head, reinterpret_cast<T*>(shared) + warp * 32 * kDim);
}

template <class T, int kDim, int kWarps, int kStageKeys, int kBlocks>
__global__ void __launch_bounds__(kWarps * 32, kBlocks)
    attention_ranges_kernel(const Params given, const __grid_constant__ KeyList list) {
  extern __shared__ __align__(1024) char shared[];
  attend_ranges<T, kDim, kWarps, kStageKeys>(given, list, blockIdx.z, blockIdx.y, blockIdx.x * kWarps * 32,
                                             shared);
}

}  // namespace tachy::ops::flash
