// conv_halo_sm80.cuh for float32: operands are rounded to TF32 on their way to the tensor cores, and sums, bias
// and residual stay float32.
#pragma once

#include <type_traits>

#include "device/conv_halo_sm80.cuh"

namespace tachy::device {

// c += a·b over 32 bytes of K, with the fragments of m16n8k16 (mma_sm80.cuh), but one value in place of two.
struct Tf32 {
  using Sum = float;
  static constexpr int kElementBytes = 4;
  // The tensor cores leave out the 13 lowest bits, so half of what they leave out is added first. NaN and
  // infinity stay what they are.
  __device__ __forceinline__ static uint32_t rounded(uint32_t bits) {
    return fabsf(__uint_as_float(bits)) < INFINITY ? bits + 0x1000u : bits;
  }
  __device__ __forceinline__ static void multiply(Sum (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                                  uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(rounded(a[0])), "r"(rounded(a[1])), "r"(rounded(a[2])), "r"(rounded(a[3])), "r"(rounded(b0)),
          "r"(rounded(b1)));
#endif
  }
};

// y = sums + bias + residual. A quad of lanes has eight neighbouring channels of a position, 32 bytes.
template <class S, class T, bool kNorm>
requires std::is_same_v<T, float> __device__ __forceinline__ void store_halo_tile(const ConvHaloParams& p,
                                                                                  HaloSums<S>& sums,
                                                                                  const HaloCorner<S>& corner,
                                                                                  int warp_row,
                                                                                  int warp_column, float*) {
  static_assert(!kNorm, "the norm is a pass of its own");
  const HaloPlaces<S, T> places(p, corner, warp_row, warp_column);
  const ConvShape& s = p.conv.s;
  const float* bias = static_cast<const float*>(s.bias);
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool inside = places.row + i < s.height && places.column + half * 8 < s.width;
      const int64_t from = places.first + i * s.y_row + half * 8 * s.y_column + places.quad * 2;
#pragma unroll
      for (int block = 0; block < S::kWarpColumns / 8; ++block) {
        const int o = places.channel + block * 8 + places.quad * 2;
        if (!inside || o >= s.co) continue;
        float2 v = {sums[i][block][half * 2], sums[i][block][half * 2 + 1]};
        if (bias) {
          const float2 add = __ldg(reinterpret_cast<const float2*>(bias + o));
          v.x += add.x, v.y += add.y;
        }
        if (s.residual) {
          const float2 add =
              *reinterpret_cast<const float2*>(static_cast<const float*>(s.residual) + from + block * 8);
          v.x += add.x, v.y += add.y;
        }
        *reinterpret_cast<float2*>(static_cast<float*>(s.y) + from + block * 8) = v;
      }
    }
}

}  // namespace tachy::device
