// cuBLASLt's product y = alpha·x·w for row-major matrices, with c added on request and an epilogue. Plans are
// kept by shape in Gpu::cublaslt. The algorithm is the library's first suggestion or, with TACHY_TUNE=gemm,
// the fastest of its first suggestions. These are measured once per shape on separate buffers when the plan
// is made (never while a graph is captured), and the choice is kept on disk in the user's cache folder by
// GPU, driver and library version.
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
  DType type;                              // dtype of x and w
  DType out;                               // dtype of y, c and bias: `type` or f32; with scales a 16-bit one
  bool w_is_nk = true;                     // w is [n, k] (a layer's weight), otherwise [k, n]
  // y = gelu_tanh(x·w + bias); if there are no scales, not together with c.
  bool bias = false, gelu = false;
  bool c = false;  // c is added; it may be y
  // x and w are codes with a scale per row of each: f8_e4m3, w [n, k].
  bool scales = false;
  bool tf32 = false;   // x and w are f32, and may be rounded to TF32
  int alignment = 16;  // every pointer and row begins at a multiple of this many bytes
  // If it is not 0, the algorithm is that of a product with this many rows, provided that it runs here. Rows that are
  // divided among calls or GPUs are then added up in one order, however few a call has.
  int64_t like = 0;
};

// The workspace that every plan may use: callers take this much scratch, whichever plan they get, so that a
// measure run takes as much as the real one.
inline constexpr size_t kMatmulWorkspaceBytes = size_t{32} << 20;

struct MatmulPlan {
  virtual ~MatmulPlan() = default;
  std::string why;  // if not empty, the reason why the library has no algorithm for the product
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
  // The library's state on this GPU, opened on first use. Without the library it is null, and `why` gives the
  // reason.
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

// The step from row to row of a matrix, in the form that plans need: a matrix with one row may have any step
// into which the row fits.
inline int64_t row_stride(const Tensor& t) {
  return t.dims[0] > 1 ? t.strides[0] : std::max<int64_t>(1, t.dims[1]);
}

// The largest power of two up to 16 that divides all addresses and all row strides in bytes.
int alignment_of(std::initializer_list<const Tensor*> tensors);

}  // namespace tachy::cuda
