// Divides a convolution of channels-last frames into bands of output rows, with one kernel call each.
//
// A band reads its rows and their halo in place (whole rows of a frame are contiguous memory); the first and
// last bands have the zero padding. The division depends only on the shape, never on the thread count. Packed
// weights are one block per time tap (or phase), each in the library's format for (Co, Ci, kh, kw).
#pragma once

#include <optional>
#include <vector>

#include "base/refusal.h"
#include "base/thread_pool.h"
#include "cpu/onednn.h"
#include "tensor/memory.h"

namespace tachy::cpu {

struct Band {
  int64_t first_row, rows;  // rows of the output
  int64_t first_input, input_rows;
};

class ConvTiles {
 public:
  // `frame` describes the convolution of a whole frame; its flags are ignored.
  explicit ConvTiles(const ConvShape& frame);

  int64_t count() const { return static_cast<int64_t>(bands_.size()); }
  const Band& band(int64_t index) const { return bands_[static_cast<size_t>(index)]; }
  int64_t max_rows() const { return bands_.front().rows; }

  // Makes the kernels of every band. Call it for each combination of bias and accumulate before run().
  void prepare(bool bias, bool accumulate);
  int64_t scratch_bytes() const { return scratch_bytes_; }  // for one call in flight
  std::optional<Refusal> why_not() const { return why_not_; }

  // Computes the band's rows of y (+)= conv of the frame; x and y point to whole frames.
  void run(int64_t index, const float* frame, const void* weights, const float* bias, bool accumulate,
           float* y, void* scratch) const;
  // The same, but with y pointing to the band's first row.
  void run_band(int64_t index, const float* frame, const void* weights, const float* bias, bool accumulate,
                float* y_band, void* scratch) const;

 private:
  ConvShape frame_;
  std::vector<Band> bands_;
  std::vector<const TileKernel*> kernels_[4];  // by bias + 2·accumulate
  int64_t scratch_bytes_ = 0;
  std::optional<Refusal> why_not_;
};

// Packs a weight [Co, Ci, parts, kh, kw] (any float dtype, contiguous) as `parts`
// blocks, one after the other.
void pack_conv_parts(const Tensor& weight, int64_t parts, int64_t kernel_h, int64_t kernel_w, void* packed,
                     ThreadPool& pool);
// The inverse, as the definitions need it, gives [parts, kh, kw, Ci, Co] f32.
void unpack_conv_parts(const void* packed, int64_t parts, int64_t co, int64_t ci, int64_t kernel_h,
                       int64_t kernel_w, float* plain);

// The inner loop of the definitions: sums[o] += Σ_c x[c]·w[c, o] for one pixel and one tap.
template <class Sum>
void accumulate_tap(const float* x, const float* w, int64_t ci, int64_t co, Sum* sums) {
  for (int64_t c = 0; c < ci; ++c) {
    const Sum value = x[c];
    for (int64_t o = 0; o < co; ++o) sums[o] += value * w[c * co + o];
  }
}

}  // namespace tachy::cpu
