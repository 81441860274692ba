// Convolutions of channels-last frames on panels (cpu/panels.h), in float32 or bf16: an implicit matrix
// product whose rows are output pixels and whose segments are (time tap, kernel row) pairs. The kernel's
// columns and the channels of one kernel row are contiguous memory in channels-last pixels, so a segment
// needs no gathering.
//
// The work is divided into stripes of output rows: all workers copy the stripe's input with its zero padding,
// rounded to bf16 if the weights are bf16 (at most about 8 M values), and then share its tiles. The division
// and the order depend only on the shape.
#pragma once

#include <functional>
#include <vector>

#include "cpu/panels.h"
#include "tensor/stream.h"

namespace tachy::cpu {

// The weights of all time taps are one matrix [taps · kernel_h · depth(kernel_w · ci), co].
int64_t conv_panels_bytes(int64_t taps, int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w,
                          Compute compute);
// `weight` is [co, ci, taps, kernel_h, kernel_w] of any float dtype, contiguous.
void pack_conv_panels(const Tensor& weight, void* packed, Compute compute, ThreadPool& pool);
// The inverse gives [taps, kernel_h, kernel_w, ci, co] f32 (with the values rounded at packing).
void unpack_conv_panels(const void* packed, int64_t taps, int64_t co, int64_t ci, int64_t kernel_h,
                        int64_t kernel_w, float* plain, Compute compute);

// Rounds x[0 .. pixel.size()) to bf16, for the definitions.
const float* round_pixel(const float* x, std::vector<float>& pixel);

struct PanelConv {
  Compute compute;       // the one with which the weights were packed
  int64_t h, w, ci, co;  // size and channels of an input frame; output channels
  int64_t kernel_t = 1, kernel_h = 3, kernel_w = 3, stride = 1, time_stride = 1;
  int64_t pad_top = 1, pad_left = 1, pad_bottom = 1, pad_right = 1;
  // For upsampling: four 2x2 kernels (packed one after the other) on the frame padded by 1; phase (a, b)
  // reads from row and column (a, b) on and writes y[2i + a, 2j + b].
  bool upsample = false;
  // Dtype of the inputs; codes of f8_e4m3 and i8 lose nothing in either kind of panel.
  DType x = DType::f32;
  std::vector<const void*> inputs;  // frames t·time_stride + tap; null for zeros (only before all others)
  int64_t outputs = 1;              // number of output frames
  const void* packed = nullptr;
  const float* bias = nullptr;
  const float* residual = nullptr;  // in y's layout
  float* y = nullptr;
  int64_t y_frame = 0;  // distance between y's frames, in values; 0 if they lie one after another
  // Used in place of bias, residual and y: receives the sums [co] of output pixel `at`,
  // counted through all frames.
  std::function<void(int64_t at, float* sums)> finish = {};
};

// Takes its scratch from the stream's arena; returns at once in a measure run.
void run_panel_conv(const PanelConv& conv, Stream& stream);

}  // namespace tachy::cpu
