#include "nn/windows.h"

#include "ops/elementwise/elementwise.h"

namespace tachy::nn {

Tensor windows(const Tensor& x, int64_t width, int64_t stride, DType dtype, Stream& stream) {
  check(x.rank == 2 && x.contiguous(), ErrorCode::internal, "windows: expected contiguous rows, got {}",
        shape_string(x));
  const int64_t channels = x.dim(1), count = windows_of(x.dim(0), width, stride);
  Tensor view(x.data, x.dtype, {count, width * channels}, x.device);
  view.strides[0] = stride * channels;
  if (!stream.gpu) {
    check(x.dtype == dtype, ErrorCode::internal, "windows: {} as {}", dtype_name(x.dtype), dtype_name(dtype));
    return view;
  }
  const Tensor copied = stream.arena->tensor(dtype, view.shape());
  ops::copy({.x = view, .y = copied}, stream);
  return copied;
}

}  // namespace tachy::nn
