// Lesson 6: a linear layer, C = A·Bᵀ with A [M, K], B [N, K] in bf16, or: feeding the tensor cores.
//
// One mma.sync multiplies 16 x 16 by 16 x 8 within a warp: 4,096 flops for one instruction. The difficulty is
// to bring its operands fast enough, and every level of memory does that by reuse:
//
//   block     128 x 256 of C: each value of A loaded from memory serves 256 products, each of B 128
//   stage     64 values of K in shared memory, 48 KB, filled by cp.async (global → shared without registers),
//             while earlier stages are multiplied: the copies of the next kStages - 1 stages are always in
//             progress
//   warp      64 x 64 of C in registers (128 per lane): 4 KB of fragments from shared memory for 32 products
//             of 16 x 8 x 16
//   fragment  ldmatrix: 8 rows of 16 bytes become registers in mma's layout; the next step's are fetched
//             while this step's are multiplied
//
// A row of a stage is 128 bytes, all 32 banks: eight rows at one column would be an eight-way conflict. Piece
// `c` of row `r` is kept at place c ^ (r % 8) (lesson 2's idea), so eight rows lie in eight places.
//
// The number of stages that fit depends on the GPU and is found out at run time: 227 KB per block on Hopper,
// 163 KB on sm_80, 99 KB on sm_89 and sm_120. Blocks go over C in groups of 8 tile rows, so that those
// running together share A and B in the L2 cache.
#include "device/conv_pack.cuh"
#include "gauge.cuh"

using namespace tachy;
using gauge::device_bf16;

constexpr int kM = 128, kN = 256, kK = 64, kThreads = 256, kGroup = 8;
constexpr int kStageBytes = (kM + kN) * kK * 2;

// Loads kRows rows of a [rows, k] matrix, columns k0 …, to shared memory. Values outside the matrix become
// zero.
template <int kRows>
__device__ void load_rows(uint32_t to, const device_bf16* from, int first, int rows, int k0, int k) {
  const int piece = threadIdx.x % 8, column = k0 + piece * 8;
#pragma unroll
  for (int r = threadIdx.x / 8; r < kRows; r += kThreads / 8) {
    const bool present = first + r < rows && column < k;
    device::copy_async(to + r * 128 + ((piece ^ (r & 7)) << 4),
                       present ? from + static_cast<int64_t>(first + r) * k + column : from, present);
  }
}

template <int kStages>
__global__ void __launch_bounds__(kThreads)
    gemm(const device_bf16* a, const device_bf16* b, device_bf16* c, int m, int n, int k) {
  extern __shared__ __align__(1024) char shared[];
  const uint32_t base = device::shared_address(shared);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int tiles_m = (m + kM - 1) / kM, tiles_n = (n + kN - 1) / kN, steps = (k + kK - 1) / kK;
  const int group = blockIdx.x / (kGroup * tiles_n), in_group = blockIdx.x % (kGroup * tiles_n);
  const int group_rows = min(kGroup, tiles_m - group * kGroup);
  const int row0 = (group * kGroup + in_group % group_rows) * kM, column0 = in_group / group_rows * kN;

  const auto load_stage = [&](int step) {
    if (step < steps) {
      const uint32_t at = base + step % kStages * kStageBytes;
      load_rows<kM>(at, a, row0, m, step * kK, k);
      load_rows<kN>(at + kM * 128, b, column0, n, step * kK, k);
    }
    device::commit_copies();  // also empty groups: the number of pending ones stays right at the end
  };
  for (int s = 0; s < kStages - 1; ++s) load_stage(s);

  // This warp's 64 x 64, and the rows and pieces that its lanes give to ldmatrix. For A: 16 rows, left and
  // right half; for B: 8 columns, both halves, then the next 8 columns.
  const int warp_row = warp / 4 * 64, warp_column = warp % 4 * 64;
  const int row_a = warp_row + lane % 16, half_a = lane / 16;
  const int row_b = warp_column + lane % 8 + lane / 16 * 8, half_b = lane / 8 % 2;
  const uint32_t offset_a = row_a * 128 + ((half_a ^ (row_a & 7)) << 4);
  const uint32_t offset_b = kM * 128 + row_b * 128 + ((half_b ^ (row_b & 7)) << 4);

  float acc[4][8][4] = {};
  uint32_t fragment_a[2][4][4], fragment_b[2][4][4];
  const auto fetch = [&](int slot, uint32_t stage, int kk) {  // 16 values of K: pieces 2kk and 2kk + 1
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      device::load_tiles(fragment_a[slot][i], ((stage + offset_a) ^ (kk << 5)) + i * 16 * 128);
      device::load_tiles(fragment_b[slot][i], ((stage + offset_b) ^ (kk << 5)) + i * 16 * 128);
    }
  };
  for (int step = 0; step < steps; ++step) {
    device::wait_copies<kStages - 2>();
    __syncthreads();  // all parts of this stage have arrived, and all threads have finished the previous one
    load_stage(step + kStages - 1);
    const uint32_t stage = base + step % kStages * kStageBytes;
    fetch(0, stage, 0);
#pragma unroll
    for (int kk = 0; kk < kK / 16; ++kk) {
      if (kk + 1 < kK / 16) fetch((kk + 1) % 2, stage, kk + 1);
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j)
          device::mma<device_bf16>(acc[i][j], fragment_a[kk % 2][i], fragment_b[kk % 2][j / 2][j % 2 * 2],
                                   fragment_b[kk % 2][j / 2][j % 2 * 2 + 1]);
    }
  }

  // Each lane has pairs of neighbouring columns; four lanes exchange theirs, so that each stores 16 bytes.
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int j = 0; j < 8; j += 4) {
        uint32_t v[4];
#pragma unroll
        for (int e = 0; e < 4; ++e)
          v[e] = device::pack_pair<device_bf16>(acc[i][j + e][half * 2], acc[i][j + e][half * 2 + 1]);
        device::transpose_quad(v);
        const int row = row0 + warp_row + i * 16 + half * 8 + lane / 4;
        const int column = column0 + warp_column + (j + lane % 4) * 8;
        if (row < m && column < n)
          *reinterpret_cast<uint4*>(c + static_cast<int64_t>(row) * n + column) =
              make_uint4(v[0], v[1], v[2], v[3]);
      }
}

template <int kStages>
void launch_stages(const device_bf16* a, const device_bf16* b, device_bf16* c, int m, int n, int k) {
  constexpr int kBytes = kStages * kStageBytes;
  gauge::check(cudaFuncSetAttribute(gemm<kStages>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
               "shared");
  gemm<kStages><<<((m + kM - 1) / kM) * ((n + kN - 1) / kN), kThreads, kBytes>>>(a, b, c, m, n, k);
}

// K and N must be multiples of 8.
void launch(const device_bf16* a, const device_bf16* b, device_bf16* c, int m, int n, int k) {
  static const int stages = gauge::shared_bytes_limit() / kStageBytes;
  (stages >= 4 ? launch_stages<4> : stages == 3 ? launch_stages<3> : launch_stages<2>)(a, b, c, m, n, k);
}

bool right(const char* what, int m, int n, int k) {
  const std::vector<device_bf16> a = gauge::random_values<device_bf16>(static_cast<size_t>(m) * k, 15),
                                 b = gauge::random_values<device_bf16>(static_cast<size_t>(n) * k, 16);
  const size_t count = static_cast<size_t>(m) * n, every = std::max<size_t>(1, count / 20'011);
  const gauge::Array<device_bf16> on_a(a), on_b(b), on_c(count);
  launch(on_a.get(), on_b.get(), on_c.get(), m, n, k);
  const std::vector<device_bf16> c = on_c.host();
  gauge::Error error;
  for (size_t i = 0; i < count; ++i) {
    if (i % every) {
      error.written(gauge::as_float(c[i]));
      continue;
    }
    const device_bf16 *row = &a[i / n * k], *column = &b[i % n * k];
    double sum = 0;
    for (int j = 0; j < k; ++j)
      sum += static_cast<double>(gauge::as_float(row[j])) * gauge::as_float(column[j]);
    error.add(gauge::as_float(c[i]), sum);
  }
  return error.within(what, 0.51, 8);
}

int main() {
  if (!gauge::has_bf16_tensor_cores()) return std::puts("left out: this GPU has no bf16 tensor cores"), 0;
  constexpr int kRows = 8'192, kColumns = 5'120, kInner = 5'120;
  bool fine = right("8192 x 5120 x 5120", kRows, kColumns, kInner);
  fine &= right("333 x 264 x 200", 333, 264, 200);
  fine &= right("1 x 8 x 8", 1, 8, 8);

  const gauge::Array<device_bf16> a(gauge::random_values<device_bf16>(size_t{kRows} * kInner, 17)),
      b(gauge::random_values<device_bf16>(size_t{kColumns} * kInner, 18)), c(size_t{kRows} * kColumns);
  const double us = gauge::median_us([&] { launch(a.get(), b.get(), c.get(), kRows, kColumns, kInner); });
  gauge::report_flops("8192 x 5120 x 5120", us, 2.0 * kRows * kColumns * kInner, gauge::mma_rate());
  return fine ? 0 : 1;
}
