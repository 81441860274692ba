// Weights of convolutions, packed for who multiplies them on this CPU:
//
//   onednn   float32 where oneDNN has kernels for it (x86): the library's format (conv_tiles.h)
//   f32      float32 where it has only plain loops (Debian's build of it for 64-bit Arm): panels (conv_panels.h)
//   bf16     where bf16 is asked for and the CPU multiplies it: panels
//
// TACHY_CONV=panels or onednn picks one of the first two by hand.
#pragma once

#include <optional>

#include "base/refusal.h"
#include "base/thread_pool.h"
#include "tensor/precision.h"
#include "tensor/tensor.h"

namespace tachy::cpu {

enum class ConvForm { onednn, f32, bf16 };
ConvForm conv_form(Compute compute);  // as which weights for this arithmetic are packed
// Nothing, or why weights for this arithmetic are packed otherwise.
std::optional<Refusal> conv_form_why_not(ConvForm form, Compute compute);

int64_t conv_weight_bytes(int64_t taps, int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w,
                          Compute compute);
// weight [co, ci, taps, kernel_h, kernel_w], any float dtype, contiguous.
void pack_conv_weight(const Tensor& weight, void* packed, Compute compute, ThreadPool& pool);
// The inverse, as the definitions read it: [taps, kernel_h, kernel_w, ci, co] f32, as rounded at packing.
void unpack_conv_weight(const void* packed, int64_t taps, int64_t co, int64_t ci, int64_t kernel_h,
                        int64_t kernel_w, float* plain, Compute compute);

}  // namespace tachy::cpu
