// Runs conv_patch_stem.cuh on the CPU (warps_on_cpu.h) and compares it with the definition in float64; kernels_on_cpu.py builds it.
#include "bench/lab/warps_on_cpu.h"
//
#include "device/mma_sm80.cuh"

namespace tachy::device {

template <>
inline void mma<__nv_bfloat16>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  on_cpu::add_bf16(c, a, b0, b1);
}
inline void multiply8(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t b, __nv_bfloat16) {
  on_cpu::add_bf16(c, {a0, a1, 0, 0}, b, 0);
}

}  // namespace tachy::device

#include "device/conv_patch_stem.cuh"

using namespace tachy::device;
using T = __nv_bfloat16;
static std::mt19937 random_bits(1);

struct Shape {
  int frames, height, width, co, history, blocks;
};

static std::vector<T> normal_values(size_t count) {
  std::normal_distribution<float> normal;
  std::vector<T> values(count);
  for (T& v : values) v = __float2bfloat16(normal(random_bits));
  return values;
}

// Returns the error in parts of the norm, or infinity where a value is no number.
static double error_of(const Conv80Params& p) {
  const auto& s = p.s;
  const T* const weights = static_cast<const T*>(p.weights);
  double off = 0, of = 0;
  for (int64_t i = 0; i < int64_t{s.frames} * s.height * s.width; ++i)
    for (int o = 0; o < s.co; ++o) {
      const ConvPosition at = conv_position(s, i, 0);
      double sum = static_cast<const float*>(s.bias)[o];
      for (int tap = 0; tap < 27; ++tap) {
        const T* pixel = conv_pixel<T>(p, at, tap / 9, tap / 3 % 3, tap % 3);
        for (int c = 0; pixel && c < s.ci; ++c)
          sum += double{__bfloat162float(pixel[c])} *
                 double{__bfloat162float(weights[int64_t{o} * p.k + tap * s.ci + c])};
      }
      const double got = __bfloat162float(static_cast<const T*>(s.y)[conv_output(s, i, 0) + o]);
      if (!std::isfinite(got)) return INFINITY;
      off += (got - sum) * (got - sum), of += sum * sum;
    }
  return std::sqrt(off / of);
}

static int test(const Shape& shape) {
  constexpr int kValues = 27 * kPatchStemCi, kPacked = (kValues + 31) / 32 * 32;
  const size_t frame = size_t(shape.height) * shape.width;
  const auto x = normal_values(shape.frames * frame * kPatchStemCi);
  auto cache = normal_values(2 * frame * kPatchStemCi), weights = normal_values(size_t(shape.co) * kPacked);
  std::fill_n(cache.begin(), (2 - shape.history) * frame * kPatchStemCi, __float2bfloat16(NAN));
  std::vector<T> y(shape.frames * frame * shape.co, __float2bfloat16(NAN));
  std::vector<float> bias(shape.co);
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<float>(i % 7) - 3;
  Conv80Params p{};
  p.x = x.data(), p.cache = cache.data(), p.weights = weights.data(), p.k = kPacked;
  auto& s = p.s;
  s.in_height = s.height = shape.height, s.in_width = s.width = shape.width, s.ci = kPatchStemCi;
  s.frames = shape.frames, s.co = shape.co, s.history = shape.history, s.cache_frames = 2, s.front = 2;
  s.kernel_t = s.kernel_h = s.kernel_w = 3, s.stride = s.time_stride = s.phases = 1;
  s.pad_top = s.pad_left = 1;
  s.y_column = shape.co, s.y_row = s.y_column * shape.width, s.y_frame = s.y_row * shape.height;
  s.bias = bias.data(), s.y = y.data();
  on_cpu::shared = tachy::shared_memory, on_cpu::shared_bytes = kPatchStemSharedBytes, on_cpu::barriers = 0;
  gridDim = dim3(shape.blocks, (shape.co + kPatchStemN - 1) / kPatchStemN),
  blockDim = dim3(kPatchStemThreads);
  for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
      memset(tachy::shared_memory, 0xff, sizeof tachy::shared_memory);
      on_cpu::run_block(
          kPatchStemThreads, [&] { conv_patch_stem<T>(p); }, random_bits);
    }
  const double error = error_of(p);
  const bool right = error < 3e-3;
  printf("%s, %dx%dx%d to %d channels, history %d, %d blocks: %.2e of the norm\n", right ? "right" : "WRONG",
         shape.frames, shape.height, shape.width, shape.co, shape.history, shape.blocks, error);
  fflush(stdout);
  return !right;
}

int main(int argc, char**) {
  if (argc > 1) return test({4, 19, 33, 88, 1, 2});
  const int failed = test({1, 16, 16, 80, 0, 1}) + test({3, 19, 33, 88, 1, 2}) + test({6, 5, 17, 8, 2, 2}) +
                     test({4, 35, 16, 160, 2, 1});
  printf("%d failed\n", failed);
  return failed != 0;
}
