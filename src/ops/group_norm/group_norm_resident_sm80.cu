// Group norm in one cooperative launch: from the statistics to the result the blocks keep as much of x as
// fits, two thirds of 67 MB on an H200, and read the rest twice, the second time mostly from the second-level
// cache. They wait for one another once, for the sums of their slabs (device/board.cuh).
//   A thread keeps one pack of channels and every `rows`-th position of its block's slab:
//     [0, again) read twice | [again, held) in shared memory | [held, most) in registers
// Both times all but the last part come through shared memory, in a ring of the thread's own: as many loads
// as fit are always in flight, and the packs that came last before the wait stay. The sums are of x − o and
// (x − o)², where o is the group's first value, so that a large mean costs no digits.
#include <numeric>
#include <optional>
#include <string>

#include "cuda/board.h"
#include "cuda/row_norm.h"
#include "device/cache_policy.cuh"
#include "ops/activation_dispatch.cuh"
#include "ops/group_norm/group_norm.h"

namespace tachy::ops {
namespace {

using namespace device;

constexpr int kMostThreads = 512, kHeld = 12, kGroup = 3;  // packs in registers; packs per wait
constexpr int kAdding = 8;                                 // threads that add up a group within a block
// The number of threads that add up a group's blocks, and of notes that each reads at once.
constexpr int kLanes = 16, kParts = 5;
// Distance in bytes between a thread's packs in shared memory. It is a constant, because with a
// step in a uniform register nvcc 13.0 generates copies with a cache policy that the GPU
// rejects as illegal instructions.
constexpr int kLayer = 16 * kMostThreads;

template <class T>
struct Params {
  const T* x;
  T* y;
  const float *weight, *bias;
  Board board;  // notes [samples, groups, blocks of a sample]
  int64_t positions;
  double share;                 // 1 / (number of values of a group)
  int c, groups, blocks, slab;  // blocks of a sample; slab: positions of a block
  int packs, rows, room;        // packs across a row, rows at once, packs of a thread in shared memory
  float eps;
  bool streaming;
};

// silu of a pack with one special function per value, or three for two values: with two per value that unit
// alone would take half as long as the memory. For bf16 it is x/2·(1 + tanh(x/2)), where `v` holds the
// halves. For f16 one reciprocal serves two values; below -43 the sigmoid stays at 2e-19, so that the product
// of two is finite.
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

// Writes the sums of the block's threads, group by group, to `notes`. Called by whole warps.
template <class T>
__device__ __forceinline__ void publish(const Params<T>& p, const float2* sums, Note* notes,
                                        int packs_a_group, uint32_t tag) {
  const int lane = threadIdx.x % kAdding, step = blockDim.x / kAdding;
  for (int first = 0; first < p.groups; first += step) {
    const int g = first + threadIdx.x / kAdding;
    float2 total = make_float2(0, 0);
    if (g < p.groups)
      for (int row = lane; row < p.rows; row += kAdding)
        for (int i = 0; i < packs_a_group; ++i) {
          const float2 part = sums[row * p.packs + g * packs_a_group + i];
          total.x += part.x, total.y += part.y;
        }
#pragma unroll
    for (int offset = kAdding / 2; offset; offset >>= 1)
      total.x += __shfl_xor_sync(0xffffffffu, total.x, offset),
          total.y += __shfl_xor_sync(0xffffffffu, total.y, offset);
    if (lane == 0 && g < p.groups) pin(notes + static_cast<int64_t>(g) * p.blocks, total, tag);
  }
}

// Computes the mean of x − o and the factor of every group of the sample, from the notes of its blocks.
// Called by whole warps.
template <class T>
__device__ __forceinline__ void collect(const Params<T>& p, const Note* notes, float2* stats, uint32_t tag) {
  const int lane = threadIdx.x % kLanes, step = blockDim.x / kLanes;
  for (int first = 0; first < p.groups; first += step) {
    const int g = first + threadIdx.x / kLanes;
    const Note* of_group = notes + static_cast<int64_t>(g) * p.blocks;
    double sum = 0, squares = 0;
    for (int block = lane; block < p.blocks; block += kLanes * kParts) {
      Note note[kParts];
      bool wanted[kParts], missing = true;
#pragma unroll
      for (int k = 0; k < kParts; ++k) {
        note[k] = {0, 0};
        wanted[k] = g < p.groups && block + kLanes * k < p.blocks;
      }
      while (missing) {
        missing = false;
#pragma unroll
        for (int k = 0; k < kParts; ++k)
          if (wanted[k]) note[k] = read_note(of_group + block + kLanes * k);
#pragma unroll
        for (int k = 0; k < kParts; ++k) {
          wanted[k] = wanted[k] && !pinned(note[k], tag);
          missing |= wanted[k];
        }
      }
#pragma unroll
      for (int k = 0; k < kParts; ++k) sum += values_of(note[k]).x, squares += values_of(note[k]).y;
    }
    __syncwarp();
#pragma unroll
    for (int offset = kLanes / 2; offset; offset >>= 1)
      sum += __shfl_xor_sync(0xffffffffu, sum, offset),
          squares += __shfl_xor_sync(0xffffffffu, squares, offset);
    const double mean = sum * p.share, variance = squares * p.share - mean * mean;
    const double spread = (variance > 0 || variance != variance ? variance : 0.0) + p.eps;
    if (lane == 0 && g < p.groups)
      stats[g] = make_float2(static_cast<float>(mean), 1.0f / sqrtf(static_cast<float>(spread)));
  }
}

// Waits for the oldest group of the ring, but lets the copies continue that may still be in flight while that
// group is read.
__device__ __forceinline__ void wait_for_oldest(int room) {
  if (room >= 9 * kGroup)
    wait_copies<8>();
  else if (room >= 3 * kGroup)
    wait_copies<2>();
  else
    wait_copies<0>();
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
  // `most` is the same for all threads, although a thread's last pack may be absent.
  const int most = (length + p.rows - 1) / p.rows;
  // The parts are whole groups of the ring, so that a group never wraps around.
  const int held_at = (max(0, most - kHeld) + kGroup - 1) / kGroup * kGroup, again = max(0, held_at - p.room);
  const int64_t first = sample * p.positions * p.c, mine = first + (begin + row) * p.c + pack * N;
  const int64_t apart = static_cast<int64_t>(p.rows) * p.c;
  const T* x = p.x + mine;
  const uint64_t once = cache_policy<Keep::first>(), twice = cache_policy<Keep::last>();
  const uint32_t tag = open_page(p.board);

  const uint32_t to = shared_address(kept_packs + threadIdx.x);
  const auto fetch = [&](int k, int place, uint64_t policy) {
    copy_async(to + place * kLayer, k < count ? x + k * apart : p.x, k < count, policy);
  };
  const auto at_place = [&](int place) {
    const uint4 four = kept_packs[place * kMostThreads + threadIdx.x];
    Pack<T, N> v;
    v.words[0] = four.x, v.words[1] = four.y, v.words[2] = four.z, v.words[3] = four.w;
    return v;
  };
  const auto next_place = [&](int place) { return place + kGroup == p.room ? 0 : place + kGroup; };

  const auto fetch_first = [&](int k, int place) {
    if (k < again)
      fetch(k, place, twice);
    else if (k < held_at)
      fetch(k, place, once);
  };
  for (int k = 0; k < p.room; k += kGroup) {
#pragma unroll
    for (int i = 0; i < kGroup; ++i) fetch_first(k + i, k + i);
    commit_copies();
  }
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
  int place = 0;  // place of pack k in the ring
  for (int k = 0; k < held_at; k += kGroup, place = next_place(place)) {
    wait_for_oldest(p.room);
#pragma unroll
    for (int i = 0; i < kGroup; ++i)
      if (k + i < count) add(at_place(place + i));
    asm volatile("" ::: "memory");  // the reads stay before this line
#pragma unroll
    for (int i = 0; i < kGroup; ++i) fetch_first(p.room + k + i, place + i);
    commit_copies();  // one group per group read; it is empty if there is nothing left to copy
  }
#pragma unroll
  for (int k = 0; k < kHeld; ++k)
    if (held_at + k < count) add(held[k]);

  table[threadIdx.x] = sum;
  __syncthreads();
  Note* notes = p.board.notes + static_cast<int64_t>(sample) * p.groups * p.blocks;
  publish(p, table, notes + block, packs_a_group, tag);
  float factor[N], bias[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    factor[i] = p.weight ? __ldg(p.weight + pack * N + i) : 1.0f;
    bias[i] = p.bias ? __ldg(p.bias + pack * N + i) : 0.0f;
  }
  __syncthreads();
  collect(p, notes, table, tag);
  __syncthreads();
  if (threadIdx.x == 0) leave(p.board, tag);

  const float mean = static_cast<float>(static_cast<double>(origin) + table[group].x);
  // For 16-bit values one multiply-add suffices: if the mean is 2^8 deviations (with more, bf16 could not
  // tell the values apart), its error is 2^-16 of a deviation.
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
  // The ring goes on where it stopped. First come the packs that are there, [again, held_at), then those
  // fetched into the places that become free, backwards from `again`, because the latest ones are most likely
  // still in the cache.
  const int there = held_at - again;
  const auto pack_of = [&](int turn) { return turn < there ? again + turn : held_at - 1 - turn; };
  place = again % p.room;
  for (int turn = 0; turn < held_at; turn += kGroup, place = next_place(place)) {
    wait_for_oldest(p.room);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const int k = pack_of(turn + i);
      if (k < count) write(at_place(place + i), k);
    }
    asm volatile("" ::: "memory");
#pragma unroll
    for (int i = 0; i < kGroup; ++i)
      if (turn + p.room + i < held_at) fetch(held_at - 1 - (turn + p.room + i), place + i, once);
    commit_copies();
  }
#pragma unroll
  for (int k = 0; k < kHeld; ++k)
    if (held_at + k < count) write(held[k], held_at + k);
}

// The rows of a block, which make whole rows of packs and whole warps; 0 if there is no such number.
int rows_of(int packs) {
  const int unit = 32 / std::gcd(packs, 32);
  return kMostThreads / packs / unit * unit;
}

// The number of a thread's packs that fit into shared memory beside the table, in whole groups.
int room_of(const Stream& stream) {
  const size_t table = sizeof(float2) * kMostThreads, whole = stream.gpu->info().shared_bytes;
  return whole < table ? 0 : static_cast<int>((whole - table) / kLayer) / kGroup * kGroup;
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
  p.share = 1.0 / (static_cast<double>(p.positions) * (p.c / p.groups));
  p.board = cuda::board_of(stream);
  if (stream.measuring() || a.x.numel() == 0) return;
  const int packs = (p.slab + p.rows - 1) / p.rows;
  p.room = std::min(room_of(stream), (packs + kGroup - 1) / kGroup * kGroup);
  cuda::LaunchShape shape{static_cast<unsigned>(p.blocks * samples), static_cast<unsigned>(threads),
                          static_cast<size_t>(kLayer) * static_cast<size_t>(p.room)};
  shape.cooperative = true;
  const auto with = [&]<Act kAct>() {
    cuda::launch("group_norm", group_norm_resident_kernel<T, N, kAct>, shape, stream, p);
  };
  dispatch_act(a.act, with);
}

}  // namespace

std::optional<Refusal> group_norm_why_not_resident(const GroupNormArgs& a, const Stream& stream) {
  const auto pack = static_cast<int>(16 / dtype_size(a.x.dtype));
  const int64_t c = a.x.dims[2];
  if (stream.gpu->info().capability() < 80) return Refusal::weak_gpu("it needs compute capability 8.0");
  if (c / a.groups % pack)
    return Refusal::arguments("it needs groups of channels in multiples of ", std::to_string(pack));
  if (!cuda::fits_packs(pack, {&a.x, &a.y})) return Refusal::arguments("it needs 16-byte alignment");
  const auto packs = static_cast<int>(std::min<int64_t>(c / pack, kMostThreads + 1));
  if (packs > kMostThreads || rows_of(packs) == 0)
    return Refusal::arguments("its blocks cannot hold whole rows in whole warps");
  if (a.groups > std::min(packs * rows_of(packs), cuda::kNotesOfBlock))
    return Refusal::arguments("more groups than its blocks can tell one another of");
  if (room_of(stream) == 0) return Refusal::machine("too little shared memory");
  if (a.x.dims[0] > stream.gpu->info().multiprocessors)
    return Refusal::machine("more samples than multiprocessors");
  return std::nullopt;
}

void group_norm_cuda_resident(const GroupNormArgs& a, Stream& stream) {
  cuda::dispatch_float("group_norm", a.x.dtype, [&]<class T>() { run<T, kPack<T>>(a, stream); });
}

}  // namespace tachy::ops
