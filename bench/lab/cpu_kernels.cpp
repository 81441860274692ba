// Finds the limits of the CPU's products (x86 with AVX-512). It runs the panel kernels alone, with operands
// in the second-level cache, and measures the clock rate that the chip allows after them, on one thread each.
//   cmake --build build --target lab_cpu_kernels && build/bench/lab/lab_cpu_kernels
// Each round runs the float32 kernel (96 rows, 4 panels, 1,024 deep) and immediately afterwards a
// chain of multiplications (whose time shows the clock rate); then the kernel again, and the FMA loop
// for 0.2 ms and for 40 ms with the chain after it; then the bf16 kernel (128 rows, 12 panels, 256
// deep), if the CPU has one.
#include <fmt/core.h>
#include <immintrin.h>

#include <chrono>
#include <cstring>

#include "cpu/panels.h"
#include "tensor/memory.h"

using namespace tachy;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Runs panel_product for half a second and returns its GFLOP/s.
double kernel_rate(Compute compute, int64_t rows, int64_t panels, int64_t depth) {
  const int64_t columns = cpu::panel_columns(compute), size = compute == Compute::bf16 ? 2 : 4,
                stride = depth + 32;
  const Buffer x(static_cast<size_t>(rows * stride * size) + (size_t{4} << 20)),
      b(static_cast<size_t>(columns * depth * panels * size) + (size_t{4} << 20)),
      c(static_cast<size_t>(rows * columns * panels * 4) + (size_t{4} << 20));
  std::memset(x.data(), 0x3f, x.size());  // values of about 0.75
  std::memset(b.data(), 0x3f, b.size());
  const void* from = x.data();
  double work = 0;
  const double start = now();
  while (now() - start < 0.5) {
    cpu::panel_product({.x = &from,
                        .depth = depth,
                        .x_stride = stride,
                        .panel = b.data(),
                        .width = columns,
                        .panels = panels,
                        .panel_step = cpu::panel_k_bytes(columns, depth, compute),
                        .rows = rows,
                        .c = static_cast<float*>(c.data()),
                        .c_stride = columns * panels},
                       compute);
    work += 2.0 * static_cast<double>(rows * columns * panels * depth);
  }
  return work / (now() - start) * 1e-9;
}

// Runs the FMA loop on registers for about that many seconds.
__attribute__((target("avx512f"))) double fma_rate(double seconds) {
  __m512 sums[12];
  for (int i = 0; i < 12; ++i) sums[i] = _mm512_set1_ps(0.1f * static_cast<float>(i));
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(0.001f);
  double work = 0;
  const double start = now();
  while (now() - start < seconds) {
    for (int i = 0; i < 20000; ++i)
#pragma GCC unroll 12
      for (int j = 0; j < 12; ++j) sums[j] = _mm512_fmadd_ps(sums[j], a, b);
    work += 2.0 * 16 * 12 * 20000;
  }
  const double rate = work / (now() - start) * 1e-9;
  for (int j = 1; j < 12; ++j) sums[0] = _mm512_add_ps(sums[0], sums[j]);
  volatile float sink = _mm512_cvtss_f32(sums[0]);
  (void)sink;
  return rate;
}

// Cycles per nanosecond, from a chain of multiplications of three cycles each.
double clock_rate() {
  const double start = now();
  long value = 0;
  constexpr int kRounds = 20000;
  for (int i = 0; i < kRounds; ++i)
    asm volatile(
        "imul $3, %0, %0\nimul $3, %0, %0\nimul $3, %0, %0\nimul $3, %0, %0\nimul $3, %0, %0\n"
        "imul $3, %0, %0\nimul $3, %0, %0\nimul $3, %0, %0\nimul $3, %0, %0\nimul $3, %0, %0\n"
        : "+r"(value));
  return 3 * 10 * kRounds / (now() - start) * 1e-9;
}

}  // namespace

int main() {
  if (!__builtin_cpu_supports("avx512f")) {
    fmt::print("this CPU has no AVX-512\n");
    return 0;
  }
  for (int round = 0; round < 5; ++round) {
    const double kernel = kernel_rate(Compute::f32, 96, 4, 1024), after_kernel = clock_rate();
    kernel_rate(Compute::f32, 96, 4, 1024);
    const double soon = fma_rate(0.0002), sustained = fma_rate(0.04), after_fma = clock_rate();
    fmt::print(
        "f32 kernel {:.0f} GFLOP/s, then {:.2f} GHz; FMA loop {:.0f} in the next 0.2 ms, {:.0f} over 40 ms, "
        "then {:.2f} GHz\n",
        kernel, after_kernel, soon, sustained, after_fma);
  }
  if (!cpu::panels_why_not(Compute::bf16))
    fmt::print("bf16 kernel ({}) {:.0f} GFLOP/s\n", cpu::panels_name(Compute::bf16),
               kernel_rate(Compute::bf16, 128, 12, 256));
}
