// Group norm in one cooperative launch: every block keeps its slab of a sample between the statistics and the
// result, so that x comes from memory once, and while the results of one sample are written the next sample
// is read. Floor: one read and one write.
//   A thread keeps one pack of channels and every `rows`-th position of its block's slab: the first kHeld of
// them in registers, the others in its ring (device/own_ring.cuh). Blocks meet once a sample, when their sums
// of x − o and (x − o)² are known, o being the group's first value, so that a large mean costs no digits.
#include <cooperative_groups.h>

#include <numeric>
#include <optional>
#include <string>

#include "cuda/row_norm.h"
#include "device/own_ring.cuh"
#include "ops/activation_dispatch.cuh"
#include "ops/group_norm/group_norm.h"

namespace tachy::ops {
namespace {

using namespace device;
namespace cg = cooperative_groups;

constexpr int kMostThreads = 512, kEach = 2, kHeld = 6;  // packs of a load, packs in registers

template <class T>
struct Params {
  const T* x;
  T* y;
  const float *weight, *bias;
  double2* partial;  // [samples, groups, blocks]
  int64_t positions;
  int c, groups, samples, slab;  // slab: positions of a block
  int packs, rows, slots;        // threads across a row, rows at once, loads that fit the ring
  float eps;
  bool streaming;
};

// silu of a pack. One reciprocal serves two values: at two special functions a value that unit would take
// half as long as the memory. Beyond -43 the sigmoid stays at 2e-19, so that the product of two is finite.
template <int N>
__device__ __forceinline__ void silu_pairs(float (&v)[N]) {
#pragma unroll
  for (int i = 0; i < N; i += 2) {
    const float a = 1.0f + __expf(-fmaxf(v[i], -43.0f)), b = 1.0f + __expf(-fmaxf(v[i + 1], -43.0f));
    const float both = __fdividef(1.0f, a * b);
    v[i] *= both * b, v[i + 1] *= both * a;
  }
}

// Σ over a warp, in float64; every lane gets it.
__device__ __forceinline__ double2 warp_sums(double2 v) {
#pragma unroll
  for (int offset = 16; offset; offset >>= 1)
    v.x += __shfl_xor_sync(0xffffffffu, v.x, offset), v.y += __shfl_xor_sync(0xffffffffu, v.y, offset);
  return v;
}

template <class T, int N, Act kAct>
__global__ void __launch_bounds__(kMostThreads, 1) group_norm_resident_kernel(const Params<T> p) {
  extern __shared__ uint4 shared[];
  __shared__ float2 sums[kMostThreads];
  __shared__ float2 stats[kMostThreads];  // mean of x − o and factor of each group
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int pack = threadIdx.x % p.packs, row = threadIdx.x / p.packs, width = p.c / p.groups;
  const int packs_a_group = width / N, group = pack / packs_a_group;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * p.slab, left = p.positions - begin;
  const int length = static_cast<int>(left < 0 ? 0 : left < p.slab ? left : p.slab);
  const int count = row < length ? (length - row - 1) / p.rows + 1 : 0;
  const int64_t mine = (begin + row) * p.c + pack * N, apart = static_cast<int64_t>(p.rows) * p.c;
  // The same number of loads for all threads of a block; the last may lack positions.
  const int most = (length + p.rows - 1) / p.rows - kHeld, steps = most > 0 ? (most + kEach - 1) / kEach : 0;
  const int again = max(0, steps - p.slots);
  OwnRing<T, N, kEach> ring{shared, p.slots, p.samples, p.positions * p.c,         count - kHeld,
                            steps,  again,   apart,     p.x + mine + kHeld * apart};
  if (steps == 0) ring.sample = p.samples;

  float origin = 0, sum = 0, squares = 0;
  Pack<T, N> held[kHeld];
  const auto hold = [&](int sample) {
    const T* x = p.x + sample * ring.sample_stride;
    origin = as_float(x[group * width]), sum = squares = 0;
#pragma unroll
    for (int k = 0; k < kHeld; ++k)
      if (k < count) held[k] = load<T, N>(x + mine + k * apart);
  };
  const auto add = [&](const Pack<T, N>& v) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float d = v.get(i) - origin;
      sum += d, squares = fmaf(d, d, squares);
    }
  };
  Reader summed, written;
  int owed = 0;  // loads that wait for results of the sample before to leave the ring
  const auto add_step = [&](int step, bool waits) {
    Pack<T, N> v[kEach];
    ring.take(summed.load, summed.place, v);
#pragma unroll
    for (int k = 0; k < kEach; ++k)
      if (step * kEach + k < ring.count) add(v[k]);
    ++summed.load, summed.place = ring.after(summed.place);
    if (step >= again) return;
    if (waits)
      ++owed;
    else
      ring.issue();
  };

  hold(0);
  for (int i = 0; i < p.slots; ++i) ring.issue();
  for (int step = 0; step < steps; ++step) add_step(step, false);
  const int behind = max(2, p.slots / 4);  // steps between a load and its use, while results are written
  for (int sample = 0; sample < p.samples; ++sample) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k)
      if (k < count) add(held[k]);
    sums[threadIdx.x] = make_float2(sum, squares);
    __syncthreads();
    double2* partial = p.partial + static_cast<int64_t>(sample) * p.groups * gridDim.x;
    for (int g = warp; g < p.groups; g += warps) {
      double2 total = make_double2(0, 0);
      for (int i = lane; i < p.rows * packs_a_group; i += 32) {
        const float2 part = sums[i / packs_a_group * p.packs + g * packs_a_group + i % packs_a_group];
        total.x += part.x, total.y += part.y;
      }
      total = warp_sums(total);
      if (lane == 0) partial[static_cast<int64_t>(g) * gridDim.x + blockIdx.x] = total;
    }
    cg::this_grid().sync();
    const double values = static_cast<double>(p.positions) * width;
    for (int g = warp; g < p.groups; g += warps) {
      double2 total = make_double2(0, 0);
      for (int i = lane; i < gridDim.x; i += 32) {
        const double2 part = __ldcg(partial + static_cast<int64_t>(g) * gridDim.x + i);
        total.x += part.x, total.y += part.y;
      }
      total = warp_sums(total);
      const double mean = total.x / values, variance = total.y / values - mean * mean;
      const double spread = (variance > 0 || variance != variance ? variance : 0.0) + p.eps;
      if (lane == 0) stats[g] = make_float2(static_cast<float>(mean), static_cast<float>(1.0 / sqrt(spread)));
    }
    __syncthreads();
    const float mean = static_cast<float>(static_cast<double>(origin) + stats[group].x);
    float factor[N], bias[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      factor[i] = stats[group].y * (p.weight ? __ldg(p.weight + pack * N + i) : 1.0f);
      bias[i] = p.bias ? __ldg(p.bias + pack * N + i) : 0.0f;
    }
    T* y = p.y + sample * ring.sample_stride + mine;
    const auto write = [&](const Pack<T, N>& v, int index) {
      float out[N];
#pragma unroll
      for (int i = 0; i < N; ++i) out[i] = fmaf(v.get(i) - mean, factor[i], bias[i]);
      if constexpr (kAct == Act::silu && sizeof(T) == 2) {
        silu_pairs(out);
      } else {
#pragma unroll
        for (int i = 0; i < N; ++i) out[i] = activate<sizeof(T) == 2>(out[i], kAct);
      }
      store(y + index * apart, out, p.streaming);
    };
#pragma unroll
    for (int k = 0; k < kHeld; ++k)
      if (k < count) write(held[k], k);
    const bool more = sample + 1 < p.samples;
    int next = 0;  // steps of the next sample that are summed
    if (more) hold(sample + 1), summed.skip(again, p.slots);
    written.skip(again, p.slots);
    for (int i = 0; i < steps; ++i) {
      Pack<T, N> v[kEach];
      ring.take(written.load, written.place, v);
      ring.issue();
      ++written.load, written.place = ring.after(written.place);
      const int step = i < steps - again ? again + i : i - (steps - again);
#pragma unroll
      for (int k = 0; k < kEach; ++k)
        if (step * kEach + k < ring.count) write(v[k], kHeld + step * kEach + k);
      if (more)
        for (; next < steps && next <= i + p.slots - steps - behind; ++next) add_step(next, true);
    }
    for (; owed > 0; --owed) ring.issue();
    if (more)
      for (; next < steps; ++next) add_step(next, false);
  }
}

// Threads of a block: whole rows of packs, whole warps. 0: there is no such number.
int rows_of(int packs) {
  const int unit = 32 / std::gcd(packs, 32);
  return kMostThreads / packs / unit * unit;
}

int slots_of(const Stream& stream, int threads) {
  const size_t tables = 2 * sizeof(float2) * kMostThreads, load = size_t{16} * kEach * threads;
  const size_t whole = stream.gpu->info().shared_bytes;
  return whole < tables + 4 * load ? 0 : static_cast<int>((whole - tables) / load);
}

template <class T, int N>
void run(const GroupNormArgs& a, Stream& stream) {
  Params<T> p{static_cast<const T*>(a.x.data), static_cast<T*>(a.y.data), cuda::data_of<float>(a.weight),
              cuda::data_of<float>(a.bias)};
  p.samples = static_cast<int>(a.x.dims[0]), p.positions = a.x.dims[1], p.c = static_cast<int>(a.x.dims[2]);
  p.groups = a.groups, p.eps = a.eps;
  p.packs = p.c / N, p.rows = rows_of(p.packs);
  const int threads = p.packs * p.rows;
  p.slots = slots_of(stream, threads);
  p.streaming = cuda::streams(stream, a.x.numel() * 2 * static_cast<int64_t>(sizeof(T)));
  const auto blocks = static_cast<unsigned>(
      std::clamp<int64_t>((p.positions + p.rows - 1) / p.rows, 1, stream.gpu->info().multiprocessors));
  p.slab = static_cast<int>((p.positions + blocks - 1) / blocks);
  const ArenaScope scope(*stream.arena);
  p.partial = static_cast<double2*>(stream.arena->bytes(sizeof(double2) * p.samples * p.groups * blocks));
  if (stream.measuring() || a.x.numel() == 0) return;
  const int steps = (p.slab + p.rows * kEach - 1) / (p.rows * kEach);
  p.slots = std::min(p.slots, std::max(4, steps * p.samples));
  cuda::LaunchShape shape{blocks, static_cast<unsigned>(threads), size_t{16} * kEach * threads * p.slots};
  shape.cooperative = true;
  const auto with = [&]<Act kAct>() {
    cuda::launch("group_norm", group_norm_resident_kernel<T, N, kAct>, shape, stream, p);
  };
  dispatch_act(a.act, with);
}

}  // namespace

std::optional<std::string> group_norm_why_not_resident(const GroupNormArgs& a, const Stream& stream) {
  const auto pack = static_cast<int>(16 / dtype_size(a.x.dtype));
  const int64_t c = a.x.dims[2], sample = a.x.dims[1] * c * dtype_size(a.x.dtype);
  if (stream.gpu->info().capability() < 80) return "it needs compute capability 8.0";
  if (c / a.groups % pack) return "it needs groups of whole packs of " + std::to_string(pack) + " channels";
  if (!cuda::fits_packs(pack, {&a.x, &a.y})) return "it needs 16-byte alignment";
  const auto packs = static_cast<int>(std::min<int64_t>(c / pack, kMostThreads + 1));
  if (packs > kMostThreads || rows_of(packs) == 0) return "its blocks cannot hold whole rows in whole warps";
  if (slots_of(stream, packs * rows_of(packs)) == 0) return "too little shared memory";
  if (a.x.dims[0] > 2 && sample < (int64_t{8} << 20))
    return "all blocks would meet once for each small sample";
  return std::nullopt;
}

void group_norm_cuda_resident(const GroupNormArgs& a, Stream& stream) {
  cuda::dispatch_float("group_norm", a.x.dtype, [&]<class T>() { run<T, kPack<T>>(a, stream); });
}

}  // namespace tachy::ops
