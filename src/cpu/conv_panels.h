// Convolutions of channels-last frames in bf16 on panels (cpu/panels.h): an implicit matrix product whose
// rows are output pixels and whose segments are (time tap, kernel row) pairs. The kernel's columns and the
// channels of one kernel row are contiguous memory in channels-last pixels, so a segment needs no gathering.
//
// A stripe of output rows at a time, all workers round the stripe's input to bf16 with its zero padding (at
// most about 16 MB), then share its tiles. Cut and order depend on the shape alone.
#pragma once

#include <vector>

#include "cpu/panels.h"
#include "tensor/stream.h"

namespace tachy::cpu {

// Weights of all time taps as one matrix [taps · kernel_h · depth(kernel_w · ci), co].
int64_t conv_panels_bytes(int64_t taps, int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w);
// weight [co, ci, taps, kernel_h, kernel_w], any float dtype, contiguous.
void pack_conv_panels(const Tensor& weight, void* packed, ThreadPool& pool);
// The inverse: [taps, kernel_h, kernel_w, ci, co] f32 (of rounded values).
void unpack_conv_panels(const void* packed, int64_t taps, int64_t co, int64_t ci, int64_t kernel_h,
                        int64_t kernel_w, float* plain);

// x[0 .. pixel.size()) rounded to bf16, for the definitions.
const float* round_pixel(const float* x, std::vector<float>& pixel);

struct PanelConv {
  int64_t h, w, ci, co;  // of an input frame
  int64_t kernel_t = 1, kernel_h = 3, kernel_w = 3, stride = 1, time_stride = 1;
  int64_t pad_top = 1, pad_left = 1, pad_bottom = 1, pad_right = 1;
  // Upsampling: four 2x2 kernels (packed one after the other) on the frame padded by 1; phase (a, b) reads
  // from row and column (a, b) on and writes y[2i + a, 2j + b].
  bool upsample = false;
  std::vector<const float*> inputs;  // frames t·time_stride + tap; null: zeros (only before all others)
  int64_t outputs = 1;               // frames
  const void* packed = nullptr;
  const float* bias = nullptr;
  const float* residual = nullptr;  // laid out as y
  float* y = nullptr;
  int64_t y_frame = 0;  // values from one of y's frames to the next; 0: they lie one after another
};

// Takes its scratch from the stream's arena; returns at once in a measure run.
void run_panel_conv(const PanelConv& conv, Stream& stream);

}  // namespace tachy::cpu
