// Weights of convolutions, packed for the code that multiplies them on this CPU:
//
//   onednn   the library's format (conv_tiles.h), for float32 if oneDNN has kernels for it (x86)
//   f32      panels (conv_panels.h), for float32 if it has only plain loops (Debian's build for 64-bit Arm)
//   bf16     panels, if bf16 is asked for and the CPU multiplies it
//
// TACHY_CONV=panels or onednn chooses between the first two.
#pragma once

#include <optional>

#include "base/refusal.h"
#include "base/thread_pool.h"
#include "tensor/precision.h"
#include "tensor/tensor.h"

namespace tachy::cpu {

enum class ConvForm { onednn, f32, bf16 };
ConvForm conv_form(Compute compute);  // the form in which weights for this arithmetic are packed
// Returns nothing, or the reason why weights for this arithmetic are packed in another form.
std::optional<Refusal> conv_form_why_not(ConvForm form, Compute compute);

int64_t conv_weight_bytes(int64_t taps, int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w,
                          Compute compute);
// `weight` is [co, ci, taps, kernel_h, kernel_w] of any float dtype, contiguous.
void pack_conv_weight(const Tensor& weight, void* packed, Compute compute, ThreadPool& pool);
// The inverse, as the definitions need it, gives [taps, kernel_h, kernel_w, ci, co] f32, as rounded at
// packing.
void unpack_conv_weight(const void* packed, int64_t taps, int64_t co, int64_t ci, int64_t kernel_h,
                        int64_t kernel_w, float* plain, Compute compute);

}  // namespace tachy::cpu
