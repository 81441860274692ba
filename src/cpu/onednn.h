// Our interface to oneDNN (2.6 in Debian 12, 3.x elsewhere): single-threaded kernels for one tile, made once
// per shape and kept, and the blocked weight formats that they read.
//
// A kernel runs on the calling thread, reads dense channels-last tiles and takes its scratch from the
// caller, so that many workers may run the same kernel at once. The weight format depends only on (Co,
// Ci, kh, kw). If the library prefers another one for a tile shape, the kernel first reorders the
// weights into its scratch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace tachy::cpu {

struct ConvShape {  // one tile: x [h, w, ci] → y [ho, wo, co], weights packed by pack_conv
  int64_t h, w, ci, co, kernel_h, kernel_w, stride;
  int64_t pad_top, pad_left, pad_bottom, pad_right;
  bool bias = false;
  bool accumulate = false;  // y += instead of y =
  int64_t out_h() const { return (h + pad_top + pad_bottom - kernel_h) / stride + 1; }
  int64_t out_w() const { return (w + pad_left + pad_right - kernel_w) / stride + 1; }
  auto operator<=>(const ConvShape&) const = default;
};

class TileKernel {
 public:
  virtual ~TileKernel() = default;
  virtual const std::string& impl() const = 0;  // the library's name of the implementation
  virtual int64_t scratch_bytes() const = 0;    // for one call in flight; 256-byte aligned
  virtual void run(const float* x, const void* weights, const float* bias, float* y, void* scratch) const = 0;
  // False if the library would run its scalar fallback code.
  bool fast() const { return impl().rfind("ref", 0) != 0 && impl().find(":ref") == std::string::npos; }
};

// Kernels are made on first use and kept for the life of the process. Any thread may call it.
const TileKernel& conv_kernel(const ConvShape& shape);

// Packs weights [co, ci, kernel_h, kernel_w] f32 (the packed size is a multiple of 256 bytes); unpacking
// gives [kernel_h, kernel_w, ci, co].
int64_t packed_conv_bytes(int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w);
void pack_conv(int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w, const float* weights,
               void* packed);
void unpack_conv(int64_t co, int64_t ci, int64_t kernel_h, int64_t kernel_w, const void* packed,
                 float* plain);

}  // namespace tachy::cpu
