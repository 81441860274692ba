#include "bind/convert.h"

#include <algorithm>
#include <cstring>

#include "ops/dtype_switch.h"
#include "ops/elementwise/elementwise.h"
#include "ops/op_helpers.h"
#include "tensor/transfer.h"

namespace tachy::python {
namespace {

inline void store(float v, float& to) { to = v; }
inline void store(float v, double& to) { to = v; }
inline void store(float v, bf16_t& to) { to = to_bf16(v); }
inline void store(float v, f16_t& to) { to = to_f16(v); }
inline void store(double v, double& to) { to = v; }
template <class To>
void store(double v, To& to) {
  store(static_cast<float>(v), to);
}
inline double load(double v) { return v; }
template <class From>
float load(From v) {
  return to_float(v);
}

template <class From, class To>
void convert_row(const From* from, int64_t from_step, To* to, int64_t to_step, int64_t count) {
  if (from_step == 1 && to_step == 1) {  // compilers vectorise this loop
    for (int64_t i = 0; i < count; ++i) store(load(from[i]), to[i]);
    return;
  }
  for (int64_t i = 0; i < count; ++i) store(load(from[i * from_step]), to[i * to_step]);
}

// Returns the offset at which the row with this number begins; rows are counted over all dims but the last.
int64_t row_offset(const Tensor& t, int64_t row) {
  int64_t offset = 0;
  for (int i = t.rank - 2; i >= 0; --i) {
    offset += row % t.dims[i] * t.strides[i];
    row /= t.dims[i];
  }
  return offset;
}

template <class From, class To>
void convert_cpu(const Tensor& from, const Tensor& to, Stream& stream) {
  const int64_t columns = from.dims[from.rank - 1];
  if (from.numel() == 0) return;
  const int64_t rows = from.numel() / columns;
  const int last = from.rank - 1;
  ops::parallel_ranges(stream, rows, ops::rows_per_tile(columns), [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      convert_row(static_cast<const From*>(from.data) + row_offset(from, row), from.strides[last],
                  static_cast<To*>(to.data) + row_offset(to, row), to.strides[last], columns);
  });
}

template <class Body>
void switch_value(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::f32:
      return body.template operator()<float>();
    case DType::f16:
      return body.template operator()<f16_t>();
    case DType::bf16:
      return body.template operator()<bf16_t>();
    case DType::f64:
      return body.template operator()<double>();
    default:
      fail(ErrorCode::internal, "convert: no way for {}", dtype_name(dtype));
  }
}

// The GPU's copies keep the dtype and follow strides; widening takes contiguous tensors.
void convert_gpu(const Tensor& from, const Tensor& to, Context& context) {
  if (from.dtype == to.dtype) return ops::copy({.x = from, .y = to}, context.stream());
  const Tensor packed = contiguous_as(from, from.dtype, context);
  if (to.contiguous()) return ops::widen(packed, to, context.stream());
  const Tensor widened = context.scratch(to.dtype, to.shape());
  ops::widen(packed, widened, context.stream());
  ops::copy({.x = widened, .y = to}, context.stream());
}

}  // namespace

void convert(const Tensor& from, const Tensor& to, Context& context) {
  if (context.on_gpu()) return convert_gpu(from, to, context);
  switch_value(from.dtype, [&]<class From>() {
    switch_value(to.dtype, [&]<class To>() { convert_cpu<From, To>(from, to, context.stream()); });
  });
}

void zero(const Tensor& to, Context& context) {
  if (!to.defined() || to.numel() == 0) return;
  if (context.on_gpu() && to.contiguous())
    return context.stream().memory->fill(to.data, 0, static_cast<size_t>(to.bytes()));
  const Tensor zeros = context.scratch(to.dtype, to.shape());
  if (context.on_gpu())
    context.stream().memory->fill(zeros.data, 0, static_cast<size_t>(to.bytes()));
  else
    std::memset(zeros.data, 0, static_cast<size_t>(to.bytes()));
  convert(zeros, to, context);
}

Tensor contiguous_as(const Tensor& t, DType dtype, Context& context) {
  if (t.dtype == dtype && t.contiguous()) return t;
  const Tensor copy = context.scratch(dtype, t.shape());
  convert(t, copy, context);
  return copy;
}

Tensor as_rows(const Tensor& t) {
  const int last = t.rank - 1;
  if (t.dims[last] != 1 && t.strides[last] != 1) return {};
  Tensor rows = t;
  rows.rank = 2;
  rows.dims[0] = 1, rows.dims[1] = t.dims[last];
  rows.strides[0] = t.dims[last], rows.strides[1] = 1;
  bool first = true;  // the dims with more than one index, beginning with the innermost
  for (int i = last - 1; i >= 0; --i) {
    if (t.dims[i] == 1) continue;
    if (first)
      rows.strides[0] = t.strides[i];
    else if (t.strides[i] != rows.strides[0] * rows.dims[0])
      return {};
    first = false;
    rows.dims[0] *= t.dims[i];
  }
  return rows;
}

void round_through(const Tensor& t, DType dtype, Context& context) {
  if (dtype == t.dtype) return;
  ops::parallel_ranges(
      context.stream(), t.dims[0], ops::rows_per_tile(t.dims[1]), [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
          float* values = static_cast<float*>(t.data) + row * t.strides[0];
          for (int64_t i = 0; i < t.dims[1]; ++i)
            values[i] = dtype == DType::bf16 ? to_float(to_bf16(values[i])) : to_float(to_f16(values[i]));
        }
      });
}

void round_and_weigh(const Tensor& t, DType dtype, const Tensor& weight, Context& context) {
  round_through(t, dtype, context);
  ops::copy({.x = t, .scale = weight, .channel_axis = 1, .y = t}, context.stream());
}

}  // namespace tachy::python
