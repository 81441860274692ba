#include <atomic>
#include <cmath>

#include "ops/dtype_switch.h"
#include "ops/elementwise/elementwise_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

constexpr int64_t kPiece = 16384;

}  // namespace

void lincomb_ref(const LincombArgs& a, Stream& stream) {
  float* out = a.out.as<float>();
  parallel_ranges(stream, a.out.numel(), kPiece, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      float sum = a.terms[0].coefficient * static_cast<const float*>(a.terms[0].x.data)[i];
      for (int t = 1; t < a.count; ++t) {
        const float product = a.terms[t].coefficient * static_cast<const float*>(a.terms[t].x.data)[i];
        sum += product;
      }
      out[i] = sum;
    }
  });
}

void widen_ref(const WidenArgs& a, Stream& stream) {
  float* y = a.y.as<float>();
  switch_float("widen", a.x.dtype, [&]<class T>() {
    const T* x = a.x.as<T>();
    parallel_ranges(stream, a.x.numel(), kPiece, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) y[i] = widened(x[i]);
    });
  });
}

void copy_ref(const CopyArgs& a, Stream& stream) {
  const float *scale = row_ptr(a.scale, 0), *shift = row_ptr(a.shift, 0);
  const int last = a.x.rank - 1;
  const int64_t inner = a.x.dims[last], lines = inner ? a.x.numel() / inner : 0;
  parallel_ranges(stream, lines, rows_per_tile(inner), [&](int64_t begin, int64_t end, int) {
    for (int64_t line = begin; line < end; ++line) {
      int64_t rest = line, from = 0, to = 0, index[kMaxDims] = {};
      for (int axis = last - 1; axis >= 0; --axis) {
        index[axis] = rest % a.x.dims[axis], rest /= a.x.dims[axis];
        from += index[axis] * a.x.strides[axis], to += index[axis] * a.y.strides[axis];
      }
      const float* x = a.x.as<float>() + from;
      float* y = a.y.as<float>() + to;
      for (index[last] = 0; index[last] < inner; ++index[last]) {
        const int64_t i = index[last], c = index[a.channel_axis];
        const float scaled = scale ? x[i * a.x.strides[last]] * scale[c] : x[i * a.x.strides[last]];
        y[i * a.y.strides[last]] = shift ? scaled + shift[c] : scaled;
      }
    }
  });
}

void to_rgb8_ref(const ToRgb8Args& a, Stream& stream) {
  const float* x = a.x.as<float>();
  uint8_t* y = a.y.as<uint8_t>();
  parallel_ranges(stream, a.x.numel(), kPiece, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const float half = (x[i] + 1.0f) / 2.0f;
      const float unit = half > 0.0f ? (half < 1.0f ? half : 1.0f) : 0.0f;  // NaN is black
      y[i] = static_cast<uint8_t>(std::nearbyint(unit * 255.0f));           // half to even, as NumPy rounds
    }
  });
}

void clamp_ref(const ClampArgs& a, Stream& stream) {
  float* x = a.x.as<float>();
  parallel_ranges(stream, a.x.numel(), kPiece, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      x[i] = x[i] < a.lo ? a.lo : x[i] > a.hi ? a.hi : x[i];  // NaN stays NaN
  });
}

void all_finite_ref(const AllFiniteArgs& a, Stream& stream) {
  const float* x = a.x.as<float>();
  std::atomic<bool> finite{true};
  parallel_ranges(stream, a.x.numel(), kPiece, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      if (!std::isfinite(x[i])) finite.store(false, std::memory_order_relaxed);
  });
  *a.result = finite.load();
}

void mark_nonfinite_ref(const MarkNonfiniteArgs& a, Stream& stream) {
  bool finite = true;
  all_finite_ref({a.x, &finite}, stream);
  if (!finite) *a.flag.as<int32_t>() = 1;
}

}  // namespace tachy::ops
