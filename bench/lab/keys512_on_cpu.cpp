// Runs flash_stays_sm80.cuh on the CPU (warps_on_cpu.h) and compares it with a softmax in float64; kernels_on_cpu.py builds it.
#include "bench/lab/warps_on_cpu.h"
//
#include "ops/attention/flash_stays_sm80.cuh"

using namespace tachy;
using namespace tachy::ops::flash;
using T = __nv_bfloat16;
static std::mt19937 random_bits(1);

struct Shape {
  int batch, heads, lq, lk, blocks;
  bool joined;  // k and v are slices of one tensor
};

// Returns the error in parts of the norm, or infinity where a value is no number or a warp has noted its rows.
static double error_of(const Shape& s, const Params& op, const std::vector<uint8_t>& bad) {
  double off = 0, of = 0;
  std::vector<double> weight(s.lk);
  const auto at = [](const void* p, const Strides& to, int n, int row, int head, int c) {
    return double{
        static_cast<float>(static_cast<const T*>(p)[n * to.batch + row * to.row + head * to.head + c])};
  };
  for (int n = 0; n < s.batch; ++n)
    for (int h = 0; h < s.heads; ++h)
      for (int i = 0; i < s.lq; ++i) {
        double sum = 0, want[128] = {};
        for (int j = 0; j < s.lk; ++j) {
          double dot = 0;
          for (int c = 0; c < 128; ++c) dot += at(op.q, op.qs, n, i, h, c) * at(op.k, op.ks, n, j, h, c);
          sum += weight[j] = exp(dot * op.scale);
          for (int c = 0; c < 128; ++c) want[c] += weight[j] * at(op.v, op.vs, n, j, h, c);
        }
        for (int c = 0; c < 128; ++c) {
          const double got = at(op.out, op.os, n, i, h, c);
          if (!std::isfinite(got)) return INFINITY;
          off += (got - want[c] / sum) * (got - want[c] / sum), of += want[c] / sum * (want[c] / sum);
        }
      }
  return std::count(bad.begin(), bad.end(), 0) == std::ptrdiff_t(bad.size()) ? std::sqrt(off / of) : INFINITY;
}

template <class C>
static int test(const Shape& s) {
  std::normal_distribution<float> normal;
  const int64_t row = int64_t{s.heads} * 128, wide = s.joined ? 2 * row : row;
  std::vector<uint4> memory((3 * size_t(s.batch) * s.lq + 2 * size_t(s.batch) * s.lk) * row / 8);
  T *q = reinterpret_cast<T*>(memory.data()), *out = q + s.batch * s.lq * row,
    *k = out + s.batch * s.lq * row, *v = s.joined ? k + row : k + s.batch * s.lk * row;
  for (T* p = q; p < q + memory.size() * 8; ++p)
    *p = __float2bfloat16(p < out || p >= k ? normal(random_bits) : NAN);
  const int tiles = (s.lq + C::kRows - 1) / C::kRows, items = tiles * s.batch * s.heads;
  std::vector<uint8_t> bad(size_t(items) * C::kWarps, 7);
  ByteParams p{};
  Params& op = p.to;
  op.q = q, op.k = k, op.v = v, op.out = out, op.lq = s.lq, op.lk = s.lk, op.d = 128,
  op.scale = 1 / sqrtf(128);
  op.qs = op.os = {s.lq * row, row, 128}, op.ks = op.vs = {s.lk * wide, wide, 128};
  p.bad = bad.data(), p.heads = s.heads;
  on_cpu::shared = shared_memory, on_cpu::shared_bytes = C::kSharedBytes, on_cpu::barriers = 0;
  gridDim = dim3(min(s.blocks, items)), blockDim = dim3(C::kThreads);
  for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
    memset(shared_memory, 0xff, sizeof shared_memory);
    on_cpu::run_block(
        C::kThreads, [&] { stays_attention_kernel<C>(p, op.scale * kLog2e, tiles, items); }, random_bits);
  }
  const double error = error_of(s, op, bad);
  const bool right = error < 4e-3;
  printf("%s, %d x %d heads, %d queries, %d keys, %u blocks%s: %.2e of the norm, %ld barriers\n",
         right ? "right" : "WRONG", s.batch, s.heads, s.lq, s.lk, gridDim.x,
         s.joined ? ", k and v joined" : "", error, on_cpu::barriers);
  fflush(stdout);
  return !right;
}

int main(int argc, char**) {
  using C = StaysTile<128>;
  if (argc > 1) return test<C>({1, 3, 600, 450, 2, false});
  const int failed = test<C>({1, 1, 256, 128, 1, false}) + test<C>({1, 3, 600, 512, 2, false}) +
                     test<C>({2, 2, 300, 384, 3, true}) + test<C>({2, 2, 290, 257, 3, true}) +
                     test<C>({1, 3, 33, 129, 2, false}) + test<C>({1, 2, 513, 255, 5, false});
  printf("%d failed\n", failed);
  return failed != 0;
}
