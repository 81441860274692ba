// cuBLASLt: y = alpha·x·w, perhaps + c, with an epilogue, for row-major matrices, plans kept by shape in
// Gpu::cublaslt. The algorithm is the library's first suggestion, or, with TACHY_TUNE=gemm, the fastest of
// its first suggestions, measured once a shape on buffers of its own when the plan is made (never while a
// graph is captured) and kept on disk in the user's cache folder by GPU, driver and library version.
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include "cuda/gpu.h"
#include "tensor/tensor.h"

namespace tachy::cuda {

struct MatmulShape {
  int64_t m, n, k;                         // y [m, n] = x [m, k] · w
  int64_t x_row, w_row, y_row, c_row = 0;  // row strides in elements
  DType type;                              // of x and w
  DType out;                               // of y, c and bias: `type` or f32; with scales 16 bits
  bool w_is_nk = true;                     // w [n, k] (a layer's weight); false: [k, n]
  bool bias = false, gelu = false;         // y = gelu_tanh(x·w + bias): without scales neither with c
  bool c = false;                          // c is added; it may be y
  bool scales = false;                     // x and w are codes with a scale a row of each: f8_e4m3, w [n, k]
  bool tf32 = false;                       // x and w are f32, and may be rounded to TF32
  int alignment = 16;                      // bytes that every pointer and row begins at a multiple of
};

// What every plan may use: callers take this much scratch, whichever plan they get, so that a measure run
// asks for as much as the real one.
inline constexpr size_t kMatmulWorkspaceBytes = size_t{32} << 20;

struct MatmulPlan {
  virtual ~MatmulPlan() = default;
  std::string why;  // not empty: the library has no algorithm for it
  std::string algorithm;
  size_t workspace_bytes = 0;
};

struct MatmulTensors {
  const void *x, *w;
  const void *x_scale = nullptr, *w_scale = nullptr;  // [m] and [n] f32
  const void *bias = nullptr, *c = nullptr;
  void* y;
  void* workspace = nullptr;
};

class CublasLt : public Gpu::Extra {
 public:
  // Opened when first asked for; null, and why, without the library.
  static CublasLt* of(Gpu& gpu, std::string& why);
  ~CublasLt() override;

  const MatmulPlan& plan(const MatmulShape& shape);
  void run(const MatmulPlan& plan, const MatmulTensors& t, float alpha = 1);
  size_t version() const;

 private:
  CublasLt();
  struct State;
  std::unique_ptr<State> state_;
};

// The step from row to row of a matrix, as plans want it: of one row any that a row fits into.
inline int64_t row_stride(const Tensor& t) {
  return t.dims[0] > 1 ? t.strides[0] : std::max<int64_t>(1, t.dims[1]);
}

// The largest power of two up to 16 that divides all row strides' bytes and the addresses.
int alignment_of(std::initializer_list<const Tensor*> tensors);

}  // namespace tachy::cuda
