// Measures, within a second, the most that this machine can do. Every benchmark is compared with it.
//
//   f32    register-only fused multiply-adds, 12 independent sums (Highway, widest instruction set)
//   bf16   register-only dot products: AMX tiles, else AVX-512 BF16, else nothing
//   int8   register-only products of bytes: AMX tiles, else AVX-512 VNNI, else nothing
//   copy   memcpy, bytes read plus bytes written, at four sizes: caches are part of the machine
// Each is the best of several repeats, on one thread or on all threads of the pool.
#pragma once

#include <string>
#include <vector>

#include "base/thread_pool.h"

namespace tachy::cpu {

struct Roofline {
  int threads = 1;
  double f32_gflops = 0;
  double bf16_gflops = 0;  // 0 if there are no instructions for it
  std::string bf16_how;    // "amx", "avx512_bf16" or ""
  double int8_gops = 0;
  std::string int8_how;  // "amx", "avx512_vnni" or ""
  struct Copy {
    double bytes, gb_per_s;
  };
  std::vector<Copy> copies;  // by size, ascending

  double copy_gb_per_s(double bytes) const;  // interpolated between the measured sizes
  // The least time for work that moves `bytes` and does `flops`.
  double seconds(double bytes, double flops, bool bf16) const;
};

Roofline measure_roofline(ThreadPool& pool);

// Parts of the above (roofline_x86.cpp): the run_… functions run `rounds` rounds of the widest product of
// bf16, or of bytes, and return the number of operations, or 0 if there is none; the others name it.
double run_bf16_products(int rounds);
const char* bf16_products();
double run_int8_products(int rounds);
const char* int8_products();

}  // namespace tachy::cpu
