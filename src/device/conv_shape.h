// A convolution of channels-last frames as the GPU's kernels see it:
//   y[t, i, j] = bias + residual + Σ_{r, p, q} W[r, p, q] · in[t·time_stride + r − front, i·stride + p − top,
//                j·stride + q − left]
// `in` has frames 0 … from the chunk and frames −1 … −history from the end of the cache; elsewhere it is
// zero. Phase (a, b), one of four, computes rows 2i + a and columns 2j + b of y, with its own weights and
// with padding that is smaller by (a, b).
#pragma once

namespace tachy::device {

struct ConvShape {
  int in_height, in_width, ci;
  int frames, height, width, co;  // size of the output (of one phase)
  int kernel_t, kernel_h, kernel_w;
  int stride, pad_top, pad_left;
  int time_stride, front, history, cache_frames;
  int phases;                             // 1 or 4
  long long y_frame, y_row, y_column;     // strides of y and the residual, in elements
  long long y_phase_row, y_phase_column;  // where phases (1, 0) and (0, 1) begin
  const void* bias;                       // float, or null
  const void* residual;                   // or null
  void* y;
};

}  // namespace tachy::device
