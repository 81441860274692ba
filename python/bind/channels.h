// Functions that the norms of images and clips share: x is [N, C, ...] as torch stores it, while the ops take
// channels last.
#pragma once

#include "bind/convert.h"
#include "bind/op.h"

namespace tachy::python {

// Returns a view of x with its channels last, in the same memory: [N, ..., C].
inline Tensor channels_last(const Tensor& x) {
  Tensor t = x;
  for (int i = 1; i + 1 < x.rank; ++i) t.dims[i] = x.dims[i + 1], t.strides[i] = x.strides[i + 1];
  t.dims[x.rank - 1] = x.dims[1], t.strides[x.rank - 1] = x.strides[1];
  return t;
}

inline Tensor three_dims(const Tensor& last) { return last.view({last.dim(0), -1, last.dim(-1)}); }

// Describes a result laid out like x: contiguous, or with channels last if x is stored only that way.
inline Result like_channels(const Tensor& x) {
  const Tensor last = channels_last(x);
  if (x.contiguous() || !last.contiguous()) return Result::contiguous(x.dtype, x.shape());
  const Result order = Result::contiguous(x.dtype, last.shape());
  Result r = order;
  for (int i = 1; i + 1 < x.rank; ++i) r.dims[i + 1] = order.dims[i], r.strides[i + 1] = order.strides[i];
  r.dims[1] = order.dims[x.rank - 1], r.strides[1] = 1;
  return r;
}

// Runs body(x, y) on the tensors if `direct` says that the op takes them as they are. Otherwise runs it on
// one sample at a time, in scratch of the dtype in which the op computes; the scratch holds the sample before
// and the result after.
template <class Body>
void sample_by_sample(const Tensor& x, const Tensor& y, bool direct, Context& context, Body&& body) {
  if (direct) return body(x, y);
  Tensor sample = x;
  sample.dims[0] = 1;
  const Tensor slab = context.scratch(work_dtype(x.dtype, context), sample.shape());
  for (int64_t n = 0; n < x.dim(0); ++n) {
    convert(x.slice(0, n, n + 1), slab, context);
    body(slab, slab);
    convert(slab, y.slice(0, n, n + 1), context);
  }
}

}  // namespace tachy::python
