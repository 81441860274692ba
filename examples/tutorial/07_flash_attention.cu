// Lesson 7: attention, O = softmax(Q·Kᵀ / sqrt(D))·V, or: a softmax that never sees its whole row.
//
// At 32,760 tokens the scores of one head are 2 GB in bf16; writing and reading them would cost more than the
// products. So a block keeps 128 queries and goes over the keys 64 at a time, and scores never leave the
// registers. The difficulty is the softmax: the maximum and sum of a row are known only at its end. The
// solution is to use provisional values and to correct them later:
//
//   m' = max(m, max s)      the maximum so far
//   f  = 2^(m - m')         the factor by which earlier exponentials were too large
//   l  = l·f + Σ 2^(s - m')
//   O  = O·f + 2^(s - m')·V         and O / l at the end, when m is the true maximum
//
// A warp has 16 queries: its Q fragments stay in registers, and the scores that mma leaves there already have
// the layout that the second product needs for its left operand. K and V go through two stages of shared
// memory each (lesson 6's swizzle, with rows of 256 bytes here); V is stored like K, and ldmatrix transposes
// it on its way to the registers.
//
// The engine's own kernel (src/ops/attention/flash_sm80.cuh) goes further: 32 queries per warp, so that a
// fragment from shared memory serves two products, and corrections only when a row's maximum grows by more
// than 2^8.
#include "gauge.cuh"

using namespace tachy;
using gauge::device_bf16;

constexpr int kD = 128, kRows = 128, kKeys = 64, kThreads = 256, kRowBytes = kD * 2;
constexpr int kStageBytes = 2 * kKeys * kRowBytes, kSharedBytes = 2 * kStageBytes + kRows * kRowBytes;

template <int kCount>
__device__ void load_rows(uint32_t to, const device_bf16* from, int first, int rows) {
  const int piece = threadIdx.x % 16;
#pragma unroll
  for (int r = threadIdx.x / 16; r < kCount; r += kThreads / 16) {
    const bool present = first + r < rows;
    device::copy_async(to + r * kRowBytes + ((piece ^ (r & 7)) << 4),
                       present ? from + static_cast<int64_t>(first + r) * kD + piece * 8 : from, present);
  }
}

// q, k, v, out [heads, tokens, 128]. scale = log2 e / sqrt(128): exponentials are powers of two (lesson 4).
__global__ void __launch_bounds__(kThreads, 1)
    attention(const device_bf16* q, const device_bf16* k, const device_bf16* v, device_bf16* out, int lq,
              int lk, float scale) {
  extern __shared__ __align__(1024) char shared[];
  const uint32_t q_shared = device::shared_address(shared), stages = q_shared + kRows * kRowBytes;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = blockIdx.x * kRows, head = blockIdx.y;
  q += static_cast<int64_t>(head) * lq * kD, out += static_cast<int64_t>(head) * lq * kD;
  k += static_cast<int64_t>(head) * lk * kD, v += static_cast<int64_t>(head) * lk * kD;

  const int blocks = (lk + kKeys - 1) / kKeys;
  const auto load_stage = [&](int block) {
    const uint32_t at = stages + block % 2 * kStageBytes;
    load_rows<kKeys>(at, k, block * kKeys, lk);
    load_rows<kKeys>(at + kKeys * kRowBytes, v, block * kKeys, lk);
  };
  load_rows<kRows>(q_shared, q, first, lq);
  load_stage(0);
  device::commit_copies();
  device::wait_copies<0>();
  __syncthreads();

  // Rows and pieces that this lane gives to ldmatrix: for Q and V row lane % 16, piece lane / 16; for K the
  // other way round.
  const int row_a = lane % 16, row_b = lane % 8 + lane / 16 * 8;
  const uint32_t offset_a = row_a * kRowBytes + ((lane / 16 ^ (row_a & 7)) << 4);
  const uint32_t offset_b = row_b * kRowBytes + ((lane / 8 % 2 ^ (row_b & 7)) << 4);
  uint32_t queries[kD / 16][4];
#pragma unroll
  for (int step = 0; step < kD / 16; ++step)
    device::load_tiles(queries[step], (q_shared + warp * 16 * kRowBytes + offset_a) ^ (step << 5));

  // For rows lane / 4 and lane / 4 + 8.
  float o[kD / 8][4] = {}, top[2] = {-INFINITY, -INFINITY}, sum[2] = {};
  for (int block = 0; block < blocks; ++block) {
    if (block > 0) {
      device::wait_copies<0>();
      __syncthreads();  // this stage has arrived, and the previous one is free
    }
    if (block + 1 < blocks) load_stage(block + 1);
    device::commit_copies();
    const uint32_t k_stage = stages + block % 2 * kStageBytes + offset_b;
    const uint32_t v_stage = stages + block % 2 * kStageBytes + kKeys * kRowBytes + offset_a;

    float s[kKeys / 8][4] = {};
#pragma unroll
    for (int step = 0; step < kD / 16; ++step)
#pragma unroll
      for (int n = 0; n < kKeys / 16; ++n) {
        uint32_t b[4];
        device::load_tiles(b, (k_stage ^ (step << 5)) + n * 16 * kRowBytes);
        device::mma<device_bf16>(s[2 * n], queries[step], b[0], b[1]);
        device::mma<device_bf16>(s[2 * n + 1], queries[step], b[2], b[3]);
      }
    if (block == blocks - 1)  // keys after the end; at least one is not
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (block * kKeys + n * 8 + lane % 4 * 2 + i % 2 >= lk) s[n][i] = -INFINITY;

#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float high = top[r];
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n) high = fmaxf(high, fmaxf(s[n][2 * r], s[n][2 * r + 1]));
      high = fmaxf(high, __shfl_xor_sync(~0u, high, 1));  // four lanes share a row
      high = fmaxf(high, __shfl_xor_sync(~0u, high, 2));
      const float factor = device::exp2_approx((top[r] - high) * scale), minus = -high * scale;
      top[r] = high, sum[r] *= factor;
#pragma unroll
      for (int n = 0; n < kD / 8; ++n) o[n][2 * r] *= factor, o[n][2 * r + 1] *= factor;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          s[n][2 * r + i] = device::exp2_approx(fmaf(s[n][2 * r + i], scale, minus));
          sum[r] += s[n][2 * r + i];
        }
    }
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
      uint32_t p[4];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        p[i] = device::pack_pair<device_bf16>(s[2 * step + i / 2][i % 2 * 2],
                                              s[2 * step + i / 2][i % 2 * 2 + 1]);
#pragma unroll
      for (int n = 0; n < kD / 16; ++n) {
        uint32_t b[4];
        device::load_tiles_transposed(b, (v_stage ^ (n << 5)) + step * 16 * kRowBytes);
        device::mma<device_bf16>(o[2 * n], p, b[0], b[1]);
        device::mma<device_bf16>(o[2 * n + 1], p, b[2], b[3]);
      }
    }
  }

#pragma unroll
  for (int r = 0; r < 2; ++r) {
    sum[r] += __shfl_xor_sync(~0u, sum[r], 1);
    sum[r] += __shfl_xor_sync(~0u, sum[r], 2);
    const int row = first + warp * 16 + lane / 4 + 8 * r;
    if (row >= lq) continue;
#pragma unroll
    for (int n = 0; n < kD / 8; ++n)
      *reinterpret_cast<uint32_t*>(out + static_cast<int64_t>(row) * kD + n * 8 + lane % 4 * 2) =
          device::pack_pair<device_bf16>(o[n][2 * r] / sum[r], o[n][2 * r + 1] / sum[r]);
  }
}

struct Case {
  int heads, lq, lk;
  size_t queries() const { return static_cast<size_t>(heads) * lq * kD; }
  size_t keys() const { return static_cast<size_t>(heads) * lk * kD; }
};
const float kScale = 1 / std::sqrt(static_cast<float>(kD));

void launch(const Case& c, const device_bf16* q, const device_bf16* k, const device_bf16* v,
            device_bf16* out) {
  gauge::check(cudaFuncSetAttribute(attention, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes),
               "shared");
  const dim3 grid((c.lq + kRows - 1) / kRows, c.heads);
  attention<<<grid, kThreads, kSharedBytes>>>(q, k, v, out, c.lq, c.lk, kScale * 1.4426950408889634f);
}

bool right(const char* what, const Case& c) {
  const std::vector<device_bf16> q = gauge::random_values<device_bf16>(c.queries(), 19, 4),
                                 k = gauge::random_values<device_bf16>(c.keys(), 20, 2),
                                 v = gauge::random_values<device_bf16>(c.keys(), 21);
  const gauge::Array<device_bf16> on_q(q), on_k(k), on_v(v), on_out(c.queries());
  launch(c, on_q.get(), on_k.get(), on_v.get(), on_out.get());
  const std::vector<device_bf16> out = on_out.host();
  gauge::Error error;
  const int rows = c.heads * c.lq, step = std::max(1, rows / 199);
  std::vector<double> weights(static_cast<size_t>(c.lk));
  for (int i = 0; i < rows; ++i) {
    const device_bf16* got = &out[static_cast<size_t>(i) * kD];
    for (int d = 0; d < kD; ++d) error.written(gauge::as_float(got[d]));
    if (i % step) continue;
    const size_t keys = static_cast<size_t>(i / c.lq) * c.lk * kD;
    double high = -INFINITY, sum = 0, expected[kD] = {};
    for (int j = 0; j < c.lk; ++j) {
      double dot = 0;
      for (int d = 0; d < kD; ++d)
        dot += static_cast<double>(gauge::as_float(q[static_cast<size_t>(i) * kD + d])) *
               gauge::as_float(k[keys + static_cast<size_t>(j) * kD + d]);
      high = std::max(high, weights[j] = dot * kScale);
    }
    for (int j = 0; j < c.lk; ++j) {
      sum += weights[j] = std::exp(weights[j] - high);
      for (int d = 0; d < kD; ++d)
        expected[d] += weights[j] * gauge::as_float(v[keys + static_cast<size_t>(j) * kD + d]);
    }
    for (int d = 0; d < kD; ++d) error.add(gauge::as_float(got[d]), expected[d] / sum);
  }
  // The weights are rounded to bf16 before the second product, and the result is rounded again.
  return error.within(what, 2, 8);
}

int main() {
  if (!gauge::has_bf16_tensor_cores()) return std::puts("left out: this GPU has no bf16 tensor cores"), 0;
  constexpr Case kLarge{12, 16'384, 16'384};
  bool fine = right("12 heads, 16384 tokens", kLarge);
  fine &= right("3 heads, 131 x 77", {3, 131, 77});
  fine &= right("1 head, 1 x 1", {1, 1, 1});

  const gauge::Array<device_bf16> q(gauge::random_values<device_bf16>(kLarge.queries(), 22, 2)),
      k(gauge::random_values<device_bf16>(kLarge.keys(), 23, 2)),
      v(gauge::random_values<device_bf16>(kLarge.keys(), 24)), out(kLarge.queries());
  const double us = gauge::median_us([&] { launch(kLarge, q.get(), k.get(), v.get(), out.get()); });
  const double flops = 4.0 * kLarge.heads * kLarge.lq * kLarge.lk * kD;
  gauge::report_flops("12 heads, 16384 tokens", us, flops, gauge::mma_rate());
  return fine ? 0 : 1;
}
