// The adapters with FMA: every dtype, shape and alignment; what float32 gets. Tiles of 64 x 64 over pieces of 16
// of the inner dimension in shared memory, 4 x 4 sums a thread.
#include "ops/lora/lora_params.cuh"

namespace tachy::ops {
namespace {

using namespace lora_gpu;
using namespace device;

constexpr int kTile = 64, kDepth = 16;

struct Tiles {
  float rows[kDepth][kTile + 4], columns[kDepth][kTile + 4];
};

// sums += rows · columnsᵀ; row(i, k) and column(j, k) are values for local i, j < 64 and k < depth.
template <class Row, class Column>
__device__ __forceinline__ void add_product(Tiles& t, int depth, float (&sums)[4][4], Row&& row,
                                            Column&& column) {
  const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
  for (int base = 0; base < depth; base += kDepth) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kTile * kDepth / 256; ++i) {
      const int at = i * 256 + static_cast<int>(threadIdx.x), k = at % kDepth, line = at / kDepth;
      const bool inside = base + k < depth;
      t.rows[k][line] = inside ? row(line, base + k) : 0.0f;
      t.columns[k][line] = inside ? column(line, base + k) : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      float u[4], v[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) u[i] = t.rows[k][ty * 4 + i], v[i] = t.columns[k][tx * 4 + i];
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] = fmaf(u[i], v[j], sums[i][j]);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(256) lora_down_plain(const Params p) {
  __shared__ Tiles tiles;
  const int64_t m0 = blockIdx.x / p.chunks * int64_t{kTile};
  const Chunk chunk(p, static_cast<int>(blockIdx.x % p.chunks));
  const bool mine = threadIdx.x < kTile && role_of(p, m0 + threadIdx.x, chunk.adapter, false) == Role::own;
  if (!__syncthreads_or(mine)) return;
  const int k0 = static_cast<int>(blockIdx.y) * p.depth, depth = min(p.depth, p.in - k0);
  const T *x = static_cast<const T*>(p.x), *a = static_cast<const T*>(p.a);
  float sums[4][4] = {};
  add_product(
      tiles, depth, sums,
      [&](int i, int k) { return m0 + i < p.rows ? as_float(x[(m0 + i) * p.x_stride + k0 + k]) : 0.0f; },
      [&](int j, int k) {
        const int c = chunk.begin + j;
        if (c >= chunk.end) return 0.0f;
        return as_float(a[p.adapter_of(c, chunk.adapter) * p.a_adapter + p.row_of(c) * p.a_row + k0 + k]);
      });
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int64_t m = m0 + threadIdx.x / 16 * 4 + i;
    if (role_of(p, m, chunk.adapter, false) != Role::own) continue;
    float* low = p.low + (blockIdx.y * p.rows + m) * p.width;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int c = chunk.begin + static_cast<int>(threadIdx.x % 16) * 4 + j;
      if (c < chunk.end) low[c] = sums[i][j] * (p.scales ? p.scales[p.adapter_of(c, chunk.adapter)] : 1.0f);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(256) lora_up_plain(const Params p) {
  __shared__ Tiles tiles;
  const int64_t m0 = blockIdx.x / p.column_blocks * int64_t{kTile};
  const int adapter = static_cast<int>(blockIdx.y);
  const int first = static_cast<int>(blockIdx.x % p.column_blocks) * p.columns;
  const bool mine = threadIdx.x < kTile && role_of(p, m0 + threadIdx.x, adapter, !p.accumulate) != Role::none;
  if (!__syncthreads_or(mine)) return;
  const T* b = static_cast<const T*>(p.b);
  T* y = static_cast<T*>(p.y);
  for (int begin = first; begin < min(first + p.columns, p.out); begin += kTile) {
    float sums[4][4] = {};
    add_product(
        tiles, p.width, sums,
        [&](int i, int c) {
          if (role_of(p, m0 + i, adapter, false) != Role::own) return 0.0f;
          float sum = 0;
          for (int s = 0; s < p.splits; ++s) sum += p.low[(s * p.rows + m0 + i) * p.width + c];
          return sum;
        },
        [&](int j, int c) {
          if (begin + j >= p.out) return 0.0f;
          return as_float(b[p.adapter_of(c, adapter) * p.b_adapter + (begin + j) * p.b_row + p.row_of(c)]);
        });
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int64_t m = m0 + threadIdx.x / 16 * 4 + i;
      const Role role = role_of(p, m, adapter, !p.accumulate);
      if (role == Role::none) continue;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int o = begin + static_cast<int>(threadIdx.x % 16) * 4 + j;
        if (o >= p.out) continue;
        T* to = y + m * p.y_stride + o;
        const float sum = role == Role::clear ? 0.0f : sums[i][j];
        *to = from_float<T>(p.accumulate ? as_float(*to) + sum : sum);
      }
    }
  }
}

}  // namespace

void lora_cuda_plain(const LoraArgs& a, Stream& stream) {
  cuda::dispatch_float("lora", a.x.dtype, [&]<class T>() {
    Params p = make_params(a, stream, kTile, kTile, kTile);
    run(p, stream, kTile, kTile, [&](dim3 down, dim3 up) {
      cuda::launch("lora", lora_down_plain<T>, {down, 256}, stream, p);
      cuda::launch("lora", lora_up_plain<T>, {up, 256}, stream, p);
    });
  });
}

}  // namespace tachy::ops
