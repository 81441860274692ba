// Linear attention by the tensor cores of every GPU since sm_80, in bf16 and f16, for head dims up to 128.
//
//   tables   a block of threads has some of a head's tokens, 64 at a time: φ(k) goes to shared memory, a warp for eight
//            tokens, and v beside it. A warp adds 16 rows of φ(k)ᵀ·v in registers.
//   sum      adds the blocks' tables and Σφ(k) in their order, times D/Lk, so that they are about as large as v
//   out      φ(q) of 64 tokens at a time goes to shared memory, and is multiplied by the table, which stays there
//
// φ is rounded to 16 bits, and so are the tables' sums; everything else is float32.
#include "cuda/dispatch.h"
#include "device/mma_sm80.cuh"
#include "device/numeric.cuh"
#include "device/reduce.cuh"
#include "ops/linear_attention/linear_attention_impl.h"

namespace tachy::ops {
namespace {

constexpr int kTokens = 64, kDim = 128, kPitch = (kDim + 8) * 2, kThreads = 256;  // bytes from row to row
constexpr int kTileBytes = kTokens * kPitch, kTableBytes = kDim * kPitch;
constexpr int kEach = kDim * kDim + kDim;  // values of a table and its Σφ
constexpr float kTiny = 1e-5f;

struct Rows {
  const void* data;
  int64_t batch, row, head;  // strides
  int tokens;
};
Rows rows_of(const Tensor& t) {
  return {t.data, t.strides[0], t.strides[1], t.strides[2], static_cast<int>(t.dims[1])};
}

// The four channels of a lane, which are four neighbours; called by a warp. Those past d are 0.
template <class T>
__device__ __forceinline__ void features_of(uint2 raw, int d, float scale, float (&phi)[4]) {
  const int first = static_cast<int>(threadIdx.x % 32) * 4;
  const float2 low = device::unpack_pair<T>(raw.x), high = device::unpack_pair<T>(raw.y);
  float x[4] = {low.x, low.y, high.x, high.y}, most = -INFINITY, total = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    x[i] = first + i < d ? x[i] * scale : -INFINITY;
    most = fmaxf(most, x[i]);
  }
  most = device::warp_max(most);
#pragma unroll
  for (int i = 0; i < 4; ++i) total += phi[i] = __expf(x[i] - most);
  const float inverse = 1 / device::warp_sum(total);
#pragma unroll
  for (int i = 0; i < 4; ++i) phi[i] *= inverse;
}

template <class T>
__device__ __forceinline__ uint2 channels_of(const Rows& x, int64_t b, int token, int64_t head, int d) {
  const int first = static_cast<int>(threadIdx.x % 32) * 4;
  if (token >= x.tokens || first >= d) return make_uint2(0, 0);
  return *reinterpret_cast<const uint2*>(static_cast<const T*>(x.data) + b * x.batch + token * x.row +
                                         head * x.head + first);
}

// Grid: (parts, heads, batch). `tables` has kEach values for each block of threads.
template <class T>
__global__ void __launch_bounds__(kThreads, 2)
    tables_kernel(Rows k, Rows v, float* tables, int d, int steps_each) {
  extern __shared__ __align__(16) char shared[];
  __shared__ float sums[kThreads / 32][kDim];
  const uint32_t at_phi = device::shared_address(shared), at_v = at_phi + 2 * kTileBytes;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t head = blockIdx.y, b = blockIdx.z;
  const int first = blockIdx.x * steps_each,
            steps = min(steps_each, (k.tokens + kTokens - 1) / kTokens - first);
  const T* values = static_cast<const T*>(v.data) + b * v.batch + head * v.head;
  float acc[kDim / 8][4] = {}, sum[4] = {};
  uint2 raw[8];
  const auto read_k = [&](int step) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      raw[i] = channels_of<T>(k, b, (first + step) * kTokens + warp * 8 + i, head, d);
  };
  const auto copy_v = [&](int step) {
    const uint32_t to = at_v + (step & 1) * kTileBytes;
#pragma unroll
    for (int i = 0; i < kTokens * (kDim / 8) / kThreads; ++i) {
      const int chunk = i * kThreads + static_cast<int>(threadIdx.x), row = chunk / (kDim / 8),
                column = chunk % (kDim / 8);
      const int token = (first + step) * kTokens + row;
      const bool there = token < v.tokens && column * 8 < d;
      device::copy_async(to + row * kPitch + column * 16,
                         there ? values + token * v.row + column * 8 : values, there);
    }
    device::commit_copies();
  };
  const int row = (lane & 7) + ((lane >> 4) << 3), half = (lane >> 3) & 1;  // of φ, which is transposed
  const int row_v = lane & 15, half_v = lane >> 4;
  if (steps > 0) read_k(0), copy_v(0);
  for (int step = 0; step < steps; ++step) {
    const uint32_t phi_now = at_phi + (step & 1) * kTileBytes, v_now = at_v + (step & 1) * kTileBytes;
    char* to = shared + (step & 1) * kTileBytes;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float phi[4] = {};
      const bool there = (first + step) * kTokens + warp * 8 + i < k.tokens;
      if (there) features_of<T>(raw[i], d, 1.0f, phi);
#pragma unroll
      for (int c = 0; c < 4; ++c) sum[c] += phi[c];
      *reinterpret_cast<uint2*>(to + (warp * 8 + i) * kPitch + lane * 8) =
          make_uint2(device::pack_pair<T>(phi[0], phi[1]), device::pack_pair<T>(phi[2], phi[3]));
    }
    device::wait_copies<0>();
    // After it the other halves of both buffers are no longer read.
    __syncthreads();
    if (step + 1 < steps) read_k(step + 1), copy_v(step + 1);
#pragma unroll
    for (int l = 0; l < kTokens; l += 16) {
      uint32_t a[4];
      device::load_tiles_transposed(a, phi_now + (l + row) * kPitch + (warp * 16 + half * 8) * 2);
#pragma unroll
      for (int n = 0; n < kDim / 16; ++n) {
        uint32_t w[4];
        device::load_tiles_transposed(w, v_now + (l + row_v) * kPitch + (n * 16 + half_v * 8) * 2);
        device::mma<T>(acc[2 * n], a, w[0], w[1]);
        device::mma<T>(acc[2 * n + 1], a, w[2], w[3]);
      }
    }
  }
  float* table = tables + ((b * gridDim.y + head) * gridDim.x + blockIdx.x) * kEach;
#pragma unroll
  for (int n = 0; n < kDim / 8; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r)
      *reinterpret_cast<float2*>(table + (warp * 16 + lane / 4 + 8 * r) * kDim + n * 8 + lane % 4 * 2) =
          make_float2(acc[n][2 * r], acc[n][2 * r + 1]);
#pragma unroll
  for (int c = 0; c < 4; ++c) sums[warp][lane * 4 + c] = sum[c];
  __syncthreads();
  if (threadIdx.x < kDim) {
    float all = 0;
#pragma unroll
    for (int w = 0; w < kThreads / 32; ++w) all += sums[w][threadIdx.x];
    table[kDim * kDim + threadIdx.x] = all;
  }
}

// Grid: (kEach / kThreads, heads of the whole batch).
template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_kernel(const float* tables, T* table, float* sums, int parts, float factor) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= kEach) return;
  const int64_t head = blockIdx.y;
  float sum = 0;
  for (int part = 0; part < parts; ++part) sum += tables[(head * parts + part) * kEach + i];
  if (i < kDim * kDim)
    table[head * (kDim * kDim) + i] = device::from_float<T>(sum * factor);
  else
    sums[head * kDim + i - kDim * kDim] = sum * factor;
}

// Grid: (parts, heads, batch).
template <class T>
__global__ void __launch_bounds__(kThreads) out_kernel(Rows q, Rows out, const T* tables, const float* sums,
                                                       int d, float scale, float tiny, int steps_each) {
  extern __shared__ __align__(16) char shared[];
  __shared__ float totals[2][kTokens];
  const uint32_t at_table = device::shared_address(shared), at_phi = at_table + kTableBytes;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int64_t head = blockIdx.y, b = blockIdx.z, list = b * gridDim.y + head;
  const T* table = tables + list * (kDim * kDim);
  for (int chunk = threadIdx.x; chunk < kDim * (kDim / 8); chunk += kThreads)
    device::copy_async(at_table + chunk / (kDim / 8) * kPitch + chunk % (kDim / 8) * 16, table + chunk * 8,
                       true);
  device::commit_copies();
  float own[4];
#pragma unroll
  for (int c = 0; c < 4; ++c) own[c] = sums[list * kDim + lane * 4 + c];
  const int first = blockIdx.x * steps_each,
            steps = min(steps_each, (q.tokens + kTokens - 1) / kTokens - first);
  const int rows = warp % 4 * 16, columns = warp / 4 * (kDim / 2);  // of this warp
  device::wait_copies<0>();
  uint2 raw[8];
  const auto read_q = [&](int step) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      raw[i] = channels_of<T>(q, b, (first + step) * kTokens + warp * 8 + i, head, d);
  };
  if (steps > 0) read_q(0);
  for (int step = 0; step < steps; ++step) {
    const int buffer = step & 1;
    const uint32_t phi_now = at_phi + buffer * kTileBytes;
    char* to = shared + kTableBytes + buffer * kTileBytes;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      float phi[4];
      features_of<T>(raw[i], d, scale, phi);
      const float total =
          device::warp_sum(phi[0] * own[0] + phi[1] * own[1] + phi[2] * own[2] + phi[3] * own[3]);
      if (lane == 0) totals[buffer][warp * 8 + i] = 1 / (tiny + total);
      *reinterpret_cast<uint2*>(to + (warp * 8 + i) * kPitch + lane * 8) =
          make_uint2(device::pack_pair<T>(phi[0], phi[1]), device::pack_pair<T>(phi[2], phi[3]));
    }
    __syncthreads();
    if (step + 1 < steps) read_q(step + 1);
    float acc[kDim / 16][4] = {};
#pragma unroll
    for (int c = 0; c < kDim; c += 16) {
      uint32_t a[4];
      device::load_tiles(a, phi_now + (rows + (lane & 15)) * kPitch + (c + (lane >> 4) * 8) * 2);
#pragma unroll
      for (int n = 0; n < kDim / 32; ++n) {
        uint32_t w[4];
        device::load_tiles_transposed(
            w, at_table + (c + (lane & 15)) * kPitch + (columns + n * 16 + (lane >> 4) * 8) * 2);
        device::mma<T>(acc[2 * n], a, w[0], w[1]);
        device::mma<T>(acc[2 * n + 1], a, w[2], w[3]);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = rows + lane / 4 + 8 * r, token = (first + step) * kTokens + row;
      if (token >= out.tokens) continue;
      const float inverse = totals[buffer][row];
      T* y =
          const_cast<T*>(static_cast<const T*>(out.data)) + b * out.batch + token * out.row + head * out.head;
#pragma unroll
      for (int n = 0; n < kDim / 16; ++n) {
        const int column = columns + n * 8 + lane % 4 * 2;
        if (column < d)
          *reinterpret_cast<uint32_t*>(y + column) =
              device::pack_pair<T>(acc[n][2 * r] * inverse, acc[n][2 * r + 1] * inverse);
      }
    }
  }
}

constexpr size_t kTablesShared = 4 * kTileBytes, kOutShared = kTableBytes + 2 * kTileBytes;

template <class T>
void run(const LinearAttentionArgs& a, Stream& stream) {
  const int64_t b = a.q.dims[0], h = a.q.dims[2], lk = a.k.dims[1];
  const int d = static_cast<int>(a.q.dims[3]);
  // About two blocks of threads for each multiprocessor, each with as many steps.
  const int64_t most =
      std::max<int64_t>(1, 2 * int64_t{stream.gpu->info().multiprocessors} / std::max<int64_t>(1, b * h));
  const auto steps_of = [&](int64_t tokens) {
    const int64_t steps = (tokens + kTokens - 1) / kTokens;
    return static_cast<int>((steps + most - 1) / most);
  };
  const int each_k = steps_of(lk), each_q = steps_of(a.q.dims[1]);
  const int parts = static_cast<int>(cuda::blocks_for(lk, int64_t{each_k} * kTokens));
  ArenaScope scope(*stream.arena);
  const auto heads = static_cast<size_t>(b * h);
  auto* tables =
      static_cast<float*>(stream.arena->bytes(heads * static_cast<size_t>(parts) * kEach * sizeof(float)));
  auto* table = static_cast<T*>(stream.arena->bytes(heads * kDim * kDim * sizeof(T)));
  auto* sums = static_cast<float*>(stream.arena->bytes(heads * kDim * sizeof(float)));
  if (stream.measuring() || b * h == 0) return;
  const auto grid = [&](int64_t tokens, int each) {
    return dim3(cuda::blocks_for(tokens, int64_t{each} * kTokens), static_cast<unsigned>(h),
                static_cast<unsigned>(b));
  };
  const float factor = static_cast<float>(d) / static_cast<float>(lk);
  cuda::launch("linear_attention (tables)", tables_kernel<T>,
               {.grid = grid(lk, each_k), .block = dim3(kThreads), .shared_bytes = kTablesShared}, stream,
               rows_of(a.k), rows_of(a.v), tables, d, each_k);
  cuda::launch("linear_attention (sum)", sum_kernel<T>,
               {.grid = dim3(cuda::blocks_for(kEach, kThreads), static_cast<unsigned>(b * h)),
                .block = dim3(kThreads)},
               stream, static_cast<const float*>(tables), table, sums, parts, factor);
  cuda::launch("linear_attention", out_kernel<T>,
               {.grid = grid(a.q.dims[1], each_q), .block = dim3(kThreads), .shared_bytes = kOutShared},
               stream, rows_of(a.q), rows_of(a.out), static_cast<const T*>(table),
               static_cast<const float*>(sums), d, a.q_scale, kTiny * factor, each_q);
}

}  // namespace

std::optional<Refusal> linear_attention_why_not_cuda(const LinearAttentionArgs& a, const Stream& stream) {
  if (auto why = cuda::why_no_tensor_cores(stream, a.q.dtype, std::max(kTablesShared, kOutShared) + 4096))
    return why;
  if (a.q.dims[3] > kDim || a.q.dims[3] % 8 != 0)
    return Refusal::arguments("head dims over 128, or no multiples of 8");
  if (a.q.dims[2] > 65535 || a.q.dims[0] > 65535 || a.q.dims[0] * a.q.dims[2] > 65535)
    return Refusal::arguments("too many heads or batches");
  if (!cuda::fits_packs(8, {&a.q, &a.k, &a.v, &a.out}))
    return Refusal::arguments("rows that do not begin at multiples of 16 bytes");
  return std::nullopt;
}

void linear_attention_cuda(const LinearAttentionArgs& a, Stream& stream) {
  a.q.dtype == DType::bf16 ? run<__nv_bfloat16>(a, stream) : run<__half>(a, stream);
}

}  // namespace tachy::ops
