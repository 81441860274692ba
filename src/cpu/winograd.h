// Convolutions of channels-last frames with 3x3 kernels in space, by Winograd's minimal filtering: 4x4 output
// pixels from 6x6 input pixels with 36 products a channel pair where the definition takes 144. For each of
// the 36 transformed points p, tile by tile:
//   V_p = (Bᵀ d B)_p [tiles, Ci],   M_p[t] = Σ_tap V_p[t + tap] · U_p,tap [Ci, Co],   y = Aᵀ M A,   U = G g Gᵀ
// Time taps are summed between the transforms, so a frame is transformed once for all the outputs that see it.
//
// Interpolation points 0, ±11/16, ±3/2, ∞: of those with short binary fractions the ones with the least error
// in float32, about 1.7 times that of a plain sum; 0, ±1, ±2, ∞ have 3.6 times (both RMS, 864 terms).
#pragma once

#include <vector>

#include "tensor/memory.h"

namespace tachy::cpu {

// Whether weights of this shape are packed for it: 3x3 in space, enough channels for the transforms to pay,
// and few enough for four times the weights' size to be worth it. TACHY_WINOGRAD=off turns it off.
bool winograd_serves(int64_t kernel_t, int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w);

int64_t winograd_bytes(int64_t kernel_t, int64_t co, int64_t ci);
// weight [co, ci, kernel_t, 3, 3], any float dtype, contiguous.
void pack_winograd(const Tensor& weight, void* packed, ThreadPool& pool);
// The inverse, for the definitions: [kernel_t, 3, 3, ci, co] f32, to the last bits of U.
void unpack_winograd(const void* packed, int64_t kernel_t, int64_t co, int64_t ci, float* plain);

struct WinogradConv {
  int64_t h, w, ci, co, kernel_t = 3;
  std::vector<const float*> inputs;  // outputs + kernel_t − 1 frames; null: zeros
  int64_t outputs = 1;               // frames
  const void* packed = nullptr;
  const float* bias = nullptr;
  const float* residual = nullptr;  // laid out as y, may be y
  float* y = nullptr;
};

// Takes its scratch from the stream's arena; returns at once in a measure run.
void run_winograd(const WinogradConv& conv, Stream& stream);

}  // namespace tachy::cpu
