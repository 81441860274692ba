// Group norm in one cooperative launch: the blocks keep as much of x as fits between the statistics and the
// result, more than half of 67 MB on an H200, and read the rest twice, the second time mostly from the
// second-level cache. They meet once, when the sums of their slabs are known.
//   A thread keeps one pack of channels and every `rows`-th position of its block's slab:
//     [0, kept) in shared memory | [kept, held) read twice | [held, most) in registers
// Sums of x − o and (x − o)², o being the group's first value, so that a large mean costs no digits.
#include <cooperative_groups.h>

#include <numeric>
#include <optional>
#include <string>

#include "cuda/row_norm.h"
#include "device/cache_policy.cuh"
#include "ops/activation_dispatch.cuh"
#include "ops/group_norm/group_norm.h"

namespace tachy::ops {
namespace {

using namespace device;

constexpr int kMostThreads = 512, kHeld = 8, kAhead = 4;  // packs in registers, packs of a batch
constexpr int kLanes = 8, kParts = 9;  // that add up a group's blocks, and what each asks for at once
// Bytes from a thread's pack in shared memory to its next. A constant: with a step in a uniform register nvcc
// 13.0 makes copies with a cache policy that the GPU calls illegal instructions.
constexpr int kLayer = 16 * kMostThreads;

template <class T>
struct Params {
  const T* x;
  T* y;
  const float *weight, *bias;
  float2* partial;  // [samples, groups, blocks of a sample]
  int64_t positions;
  int c, groups, blocks, slab;  // blocks: of a sample; slab: positions of a block
  int packs, rows, room;        // threads across a row, rows at once, packs of a thread in shared memory
  float eps;
  bool streaming;
};

// silu of a pack, one special function a value or three for two: at two a value that unit alone would take
// half as long as the memory. bf16: x/2·(1 + tanh(x/2)), `v` being the halves. f16: one reciprocal serves two
// values; beyond -43 the sigmoid stays at 2e-19, so that the product of two is finite.
template <class T, int N>
__device__ __forceinline__ void silu_pack(float (&v)[N]) {
#pragma unroll
  for (int i = 0; i < N; i += 2) {
    if constexpr (std::is_same_v<T, bf16>) {
      v[i] = fmaf(v[i], tanh_approx(v[i]), v[i]), v[i + 1] = fmaf(v[i + 1], tanh_approx(v[i + 1]), v[i + 1]);
    } else {
      const float a = 1.0f + __expf(-fmaxf(v[i], -43.0f)), b = 1.0f + __expf(-fmaxf(v[i + 1], -43.0f));
      const float both = __fdividef(1.0f, a * b);
      v[i] *= both * b, v[i + 1] *= both * a;
    }
  }
}

// The sums of the block's threads, group by group, to `partial`: a thread a group where that is short, else a
// warp.
template <class T>
__device__ __forceinline__ void publish(const Params<T>& p, const float2* sums, float2* partial,
                                        int packs_a_group) {
  const int lanes = p.rows * packs_a_group <= 32 ? 1 : 32, lane = threadIdx.x % lanes;
  for (int g = threadIdx.x / lanes; g < p.groups; g += blockDim.x / lanes) {
    float2 total = make_float2(0, 0);
    for (int row = lane; row < p.rows; row += lanes)
      for (int i = 0; i < packs_a_group; ++i) {
        const float2 part = sums[row * p.packs + g * packs_a_group + i];
        total.x += part.x, total.y += part.y;
      }
    for (int offset = lanes / 2; offset; offset >>= 1)
      total.x += __shfl_xor_sync(0xffffffffu, total.x, offset),
          total.y += __shfl_xor_sync(0xffffffffu, total.y, offset);
    if (lane == 0) partial[static_cast<int64_t>(g) * p.blocks] = total;
  }
}

// Mean of x − o and factor of every group of the sample, from the sums of its blocks. Whole warps take part.
template <class T>
__device__ __forceinline__ void collect(const Params<T>& p, const float2* partial, float2* stats,
                                        double values) {
  const int lane = threadIdx.x % kLanes, step = blockDim.x / kLanes;
  for (int first = 0; first < p.groups; first += step) {
    const int g = first + threadIdx.x / kLanes;
    const float2* parts = partial + static_cast<int64_t>(g) * p.blocks;
    double sum = 0, squares = 0;
    for (int block = lane; block < p.blocks; block += kLanes * kParts) {
      float2 part[kParts];
#pragma unroll
      for (int k = 0; k < kParts; ++k) {
        const int at = block + kLanes * k;
        part[k] = g < p.groups && at < p.blocks ? __ldcg(parts + at) : make_float2(0, 0);
      }
#pragma unroll
      for (int k = 0; k < kParts; ++k) sum += part[k].x, squares += part[k].y;
    }
#pragma unroll
    for (int offset = kLanes / 2; offset; offset >>= 1)
      sum += __shfl_xor_sync(0xffffffffu, sum, offset),
          squares += __shfl_xor_sync(0xffffffffu, squares, offset);
    const double mean = sum / values, variance = squares / values - mean * mean;
    const double spread = (variance > 0 || variance != variance ? variance : 0.0) + p.eps;
    if (lane == 0 && g < p.groups)
      stats[g] = make_float2(static_cast<float>(mean), 1.0f / sqrtf(static_cast<float>(spread)));
  }
}

template <class T, int N, Act kAct>
__global__ void __launch_bounds__(kMostThreads, 1) group_norm_resident_kernel(const Params<T> p) {
  extern __shared__ uint4 kept_packs[];
  __shared__ float2 table[kMostThreads];  // the threads' sums, then the groups' statistics
  const int sample = blockIdx.x / p.blocks, block = blockIdx.x % p.blocks;
  const int pack = threadIdx.x % p.packs, row = threadIdx.x / p.packs, width = p.c / p.groups;
  const int packs_a_group = width / N, group = pack / packs_a_group;
  const int64_t begin = static_cast<int64_t>(block) * p.slab, left = p.positions - begin;
  const int length = static_cast<int>(left < 0 ? 0 : left < p.slab ? left : p.slab);
  const int count = row < length ? (length - row - 1) / p.rows + 1 : 0;
  const int most = (length + p.rows - 1) / p.rows;  // the same for all threads: a thread's last may be absent
  const int kept = min(p.room, most), held_at = max(kept, most - kHeld);
  const int64_t first = sample * p.positions * p.c, mine = first + (begin + row) * p.c + pack * N;
  const int64_t apart = static_cast<int64_t>(p.rows) * p.c;
  const T* x = p.x + mine;
  const uint64_t once = cache_policy<Keep::first>(), twice = cache_policy<Keep::last>();

  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(kept_packs + threadIdx.x));
  for (int k = 0; k < kept; ++k)
    copy_async(to + k * kLayer, k < count ? x + k * apart : p.x, k < count, once);
  commit_copies();
  Pack<T, N> held[kHeld];
#pragma unroll
  for (int k = 0; k < kHeld; ++k)
    if (held_at + k < count) held[k] = load_once<T, N>(x + (held_at + k) * apart);

  const float origin = as_float(p.x[first + group * width]);
  float2 sum = make_float2(0, 0);
  const auto add = [&](const Pack<T, N>& v) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float d = v.get(i) - origin;
      sum.x += d, sum.y = fmaf(d, d, sum.y);
    }
  };
  const auto kept_pack = [&](int k) {
    const uint4 four = kept_packs[k * kMostThreads + threadIdx.x];
    Pack<T, N> v;
    v.words[0] = four.x, v.words[1] = four.y, v.words[2] = four.z, v.words[3] = four.w;
    return v;
  };
  Pack<T, N> batch[kAhead], after[kAhead];
  for (int k = kept; k < held_at; k += kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (k + i < held_at && k + i < count) batch[i] = load_to_stay<T, N>(x + (k + i) * apart, twice);
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (k + i < held_at && k + i < count) add(batch[i]);
  }
#pragma unroll
  for (int k = 0; k < kHeld; ++k)
    if (held_at + k < count) add(held[k]);
  wait_copies<0>();
  for (int k = 0; k < kept; ++k)
    if (k < count) add(kept_pack(k));

  table[threadIdx.x] = sum;
  __syncthreads();
  float2* partial = p.partial + static_cast<int64_t>(sample) * p.groups * p.blocks;
  publish(p, table, partial + block, packs_a_group);
  // The second reading goes backwards: what was read last is in the cache. Its first batch is asked for now.
  const auto ask_again = [&](Pack<T, N>(&v)[kAhead], int last) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      if (last - i >= kept && last - i < count) v[i] = load_once<T, N>(x + (last - i) * apart);
  };
  ask_again(batch, held_at - 1);
  float factor[N], bias[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    factor[i] = p.weight ? __ldg(p.weight + pack * N + i) : 1.0f;
    bias[i] = p.bias ? __ldg(p.bias + pack * N + i) : 0.0f;
  }
  cooperative_groups::this_grid().sync();
  collect(p, partial, table, static_cast<double>(p.positions) * width);
  __syncthreads();

  const float mean = static_cast<float>(static_cast<double>(origin) + table[group].x);
  // 16-bit values: one multiply-add, whose error at a mean of 2^8 deviations (more, and bf16 cannot tell the
  // values apart) is 2^-16 of them.
  constexpr bool kFold = sizeof(T) == 2, kHalves = kAct == Act::silu && std::is_same_v<T, bf16>;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    factor[i] *= table[group].y;
    if (kFold) bias[i] = fmaf(-mean, factor[i], bias[i]);
    if (kHalves) factor[i] *= 0.5f, bias[i] *= 0.5f;
  }
  T* y = p.y + mine;
  const auto write = [&](const Pack<T, N>& v, int k) {
    float out[N];
#pragma unroll
    for (int i = 0; i < N; ++i) out[i] = fmaf(kFold ? v.get(i) : v.get(i) - mean, factor[i], bias[i]);
    if constexpr (kAct == Act::silu && sizeof(T) == 2) {
      silu_pack<T>(out);
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) out[i] = activate<sizeof(T) == 2>(out[i], kAct);
    }
    store(y + k * apart, out, p.streaming);
  };
#pragma unroll
  for (int k = 0; k < kHeld; ++k)
    if (held_at + k < count) write(held[k], held_at + k);
  int next = 0;  // of those in shared memory: written while others are on their way
  for (int last = held_at - 1; last >= kept; last -= kAhead) {
    ask_again(after, last - kAhead);
    for (const int until = min(next + kAhead, kept); next < until; ++next)
      if (next < count) write(kept_pack(next), next);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (last - i >= kept && last - i < count) write(batch[i], last - i);
      batch[i] = after[i];
    }
  }
  for (; next < kept; ++next)
    if (next < count) write(kept_pack(next), next);
}

// Rows of a block: whole rows of packs, whole warps. 0: there is no such number.
int rows_of(int packs) {
  const int unit = 32 / std::gcd(packs, 32);
  return kMostThreads / packs / unit * unit;
}

// Packs of a thread that fit into shared memory beside the table.
int room_of(const Stream& stream) {
  const size_t table = sizeof(float2) * kMostThreads, whole = stream.gpu->info().shared_bytes;
  return whole < table ? 0 : static_cast<int>((whole - table) / kLayer);
}

template <class T, int N>
void run(const GroupNormArgs& a, Stream& stream) {
  Params<T> p{static_cast<const T*>(a.x.data), static_cast<T*>(a.y.data), cuda::data_of<float>(a.weight),
              cuda::data_of<float>(a.bias)};
  const auto samples = static_cast<int>(a.x.dims[0]);
  p.positions = a.x.dims[1], p.c = static_cast<int>(a.x.dims[2]), p.groups = a.groups, p.eps = a.eps;
  p.packs = p.c / N, p.rows = rows_of(p.packs);
  const int threads = p.packs * p.rows;
  p.streaming = cuda::streams(stream, a.x.numel() * 2 * static_cast<int64_t>(sizeof(T)));
  const int64_t wanted = (p.positions + p.rows - 1) / p.rows;
  p.blocks = static_cast<int>(
      std::clamp<int64_t>(wanted, 1, stream.gpu->info().multiprocessors / std::max(1, samples)));
  p.slab = static_cast<int>((p.positions + p.blocks - 1) / p.blocks);
  const ArenaScope scope(*stream.arena);
  p.partial = static_cast<float2*>(
      stream.arena->bytes(sizeof(float2) * static_cast<size_t>(samples * p.groups * p.blocks)));
  if (stream.measuring() || a.x.numel() == 0) return;
  p.room = std::min(room_of(stream), (p.slab + p.rows - 1) / p.rows);
  cuda::LaunchShape shape{static_cast<unsigned>(p.blocks * samples), static_cast<unsigned>(threads),
                          static_cast<size_t>(kLayer) * static_cast<size_t>(p.room)};
  shape.cooperative = true;
  const auto with = [&]<Act kAct>() {
    cuda::launch("group_norm", group_norm_resident_kernel<T, N, kAct>, shape, stream, p);
  };
  dispatch_act(a.act, with);
}

}  // namespace

std::optional<std::string> group_norm_why_not_resident(const GroupNormArgs& a, const Stream& stream) {
  const auto pack = static_cast<int>(16 / dtype_size(a.x.dtype));
  const int64_t c = a.x.dims[2];
  if (stream.gpu->info().capability() < 80) return "it needs compute capability 8.0";
  if (c / a.groups % pack) return "it needs groups of whole packs of " + std::to_string(pack) + " channels";
  if (!cuda::fits_packs(pack, {&a.x, &a.y})) return "it needs 16-byte alignment";
  const auto packs = static_cast<int>(std::min<int64_t>(c / pack, kMostThreads + 1));
  if (packs > kMostThreads || rows_of(packs) == 0) return "its blocks cannot hold whole rows in whole warps";
  if (a.groups > packs * rows_of(packs)) return "more groups than threads of a block";
  if (room_of(stream) == 0) return "too little shared memory";
  if (a.x.dims[0] > stream.gpu->info().multiprocessors) return "more samples than multiprocessors";
  return std::nullopt;
}

void group_norm_cuda_resident(const GroupNormArgs& a, Stream& stream) {
  cuda::dispatch_float("group_norm", a.x.dtype, [&]<class T>() { run<T, kPack<T>>(a, stream); });
}

}  // namespace tachy::ops
