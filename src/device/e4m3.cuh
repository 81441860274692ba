// Values of e4m3 for products in 8 bits, on GPUs since sm_89; on an older one they trap, and the host never chooses
// them there.
#pragma once

#include <cstdint>

namespace tachy::device {

// Converts four values to e4m3, to nearest even; values beyond ±448 become ±448.
__device__ __forceinline__ uint32_t pack_e4m3(float a, float b, float c, float d) {
  uint32_t out = 0;
#if __CUDA_ARCH__ >= 890
  asm("{\n.reg .b16 lo, hi;\n"
      "cvt.rn.satfinite.e4m3x2.f32 lo, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 hi, %4, %3;\n"
      "mov.b32 %0, {lo, hi};\n}\n"
      : "=r"(out)
      : "f"(a), "f"(b), "f"(c), "f"(d));
#else
  asm volatile("trap;");
#endif
  return out;
}

// The place of a key among 16 in v, which makes a thread's scores of keys 2·quad, 2·quad + 1, 2·quad + 8 and
// 2·quad + 9 the four weights of one register.
__host__ __device__ constexpr int key_place(int key) {
  return key / 16 * 16 + key % 8 / 2 * 4 + key / 8 % 2 * 2 + key % 2;
}

}  // namespace tachy::device
