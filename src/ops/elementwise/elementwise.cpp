#include "ops/count_work.h"
#include "ops/elementwise/elementwise_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {
namespace {

std::optional<Refusal> widen_cpu_why_not(const WidenArgs& a, const Stream&) {
  if (dtype_size(a.x.dtype) <= 2) return std::nullopt;
  return Refusal::arguments("for 8- and 16-bit floats only");
}

}  // namespace

std::span<const Impl<LincombArgs>> lincomb_table() {
  static constexpr Impl<LincombArgs> table[] = {
      gpu_impl<lincomb_cuda>("cuda"), {"cpu", nullptr, lincomb_cpu}, {"ref", nullptr, lincomb_ref}};
  return table;
}
std::span<const Impl<WidenArgs>> widen_table() {
  static constexpr Impl<WidenArgs> table[] = {
      gpu_impl<widen_cuda>("cuda"), {"cpu", widen_cpu_why_not, widen_cpu}, {"ref", nullptr, widen_ref}};
  return table;
}
std::span<const Impl<CopyArgs>> copy_table() {
  static constexpr Impl<CopyArgs> table[] = {
      gpu_impl<copy_cuda>("cuda"), {"cpu", nullptr, copy_cpu}, {"ref", nullptr, copy_ref}};
  return table;
}
std::span<const Impl<ToRgb8Args>> to_rgb8_table() {
  static constexpr Impl<ToRgb8Args> table[] = {
      gpu_impl<to_rgb8_cuda>("cuda"), {"cpu", nullptr, to_rgb8_cpu}, {"ref", nullptr, to_rgb8_ref}};
  return table;
}
std::span<const Impl<ClampArgs>> clamp_table() {
  static constexpr Impl<ClampArgs> table[] = {
      gpu_impl<clamp_cuda>("cuda"), {"cpu", nullptr, clamp_cpu}, {"ref", nullptr, clamp_ref}};
  return table;
}
std::span<const Impl<AllFiniteArgs>> all_finite_table() {
  static constexpr Impl<AllFiniteArgs> table[] = {
      gpu_impl<all_finite_cuda>("cuda"), {"cpu", nullptr, all_finite_cpu}, {"ref", nullptr, all_finite_ref}};
  return table;
}
std::span<const Impl<MarkNonfiniteArgs>> mark_nonfinite_table() {
  static constexpr Impl<MarkNonfiniteArgs> table[] = {gpu_impl<mark_nonfinite_cuda>("cuda"),
                                                      {"cpu", nullptr, mark_nonfinite_cpu},
                                                      {"ref", nullptr, mark_nonfinite_ref}};
  return table;
}

namespace {

void expect_flat(const char* op, const char* name, const Tensor& t, DType dtype) {
  require(t.defined(), "{}: expected {}, got no tensor", op, name);
  expect_dtype(op, name, t, dtype);
  expect_contiguous(op, name, t);
}

void expect_same_shape(const char* op, const Tensor& x, const Tensor& y) {
  if (same_shape(x, y)) return;
  fail(ErrorCode::invalid_argument, "{}: expected x and y of the same shape, got {} and {}", op,
       shape_string(x), shape_string(y));
}

}  // namespace

void lincomb(const LincombArgs& a, Stream& stream) {
  const char* op = "lincomb";
  require(a.count >= 1 && a.count <= 8, "{}: expected 1 to 8 terms, got {}", op, a.count);
  expect_flat(op, "out", a.out, DType::f32);
  for (int i = 0; i < a.count; ++i) {
    expect_flat(op, "x", a.terms[i].x, DType::f32);
    expect_same_shape(op, a.terms[i].x, a.out);
  }
  double bytes = bytes_of({a.out});
  for (int i = 0; i < a.count; ++i) bytes += bytes_of({a.terms[i].x});
  if (count_work({.op = op, .numbers = DType::f32, .bytes = bytes}, stream)) return;
  const auto& impl = pick<LincombArgs>(op, lincomb_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

void widen(const Tensor& x, const Tensor& y, Stream& stream) {
  const char* op = "widen";
  require(is_float(x.dtype), "{}: expected x of a float dtype, got {}", op, dtype_name(x.dtype));
  expect_flat(op, "x", x, x.dtype);
  expect_float_dtype(op, "y", y, stream);
  expect_flat(op, "y", y, y.dtype);
  expect_same_shape(op, x, y);
  if (count_pass(op, y.dtype, {x, y}, stream)) return;
  const WidenArgs args{x, y};
  const auto& impl = pick<WidenArgs>(op, widen_table(), args, stream);
  if (!stream.measuring()) impl.run(args, stream);
}

void copy(const CopyArgs& a, Stream& stream) {
  const char* op = "copy";
  require(a.x.defined() && a.y.defined(), "{}: expected x and y, got no tensor", op);
  expect_float_dtype(op, "x", a.x, stream);
  expect_float_dtype(op, "y", a.y, stream);
  expect_same_shape(op, a.x, a.y);
  require(a.channel_axis >= 0 && a.channel_axis < a.x.rank, "{}: expected channel_axis in [0, {}), got {}",
          op, static_cast<int>(a.x.rank), a.channel_axis);
  if (a.scale.defined()) expect_f32(op, "scale", a.scale, {a.x.dim(a.channel_axis)});
  if (a.shift.defined()) expect_f32(op, "shift", a.shift, {a.x.dim(a.channel_axis)});
  if (count_pass(op, a.y.dtype, {a.x, a.y}, stream)) return;
  const auto& impl = pick<CopyArgs>(op, copy_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

void to_rgb8(const Tensor& x, const Tensor& y, Stream& stream) {
  const char* op = "to_rgb8";
  expect_float_dtype(op, "x", x, stream);
  expect_flat(op, "x", x, x.dtype);
  require(x.dim(-1) == 3, "{}: expected x with 3 colours last, got {}", op, shape_string(x));
  expect_flat(op, "y", y, DType::u8);
  expect_same_shape(op, x, y);
  if (count_pass(op, x.dtype, {x, y}, stream)) return;
  const ToRgb8Args args{x, y};
  const auto& impl = pick<ToRgb8Args>(op, to_rgb8_table(), args, stream);
  if (!stream.measuring()) impl.run(args, stream);
}

void clamp(const Tensor& x, float lo, float hi, Stream& stream) {
  const char* op = "clamp";
  expect_float_dtype(op, "x", x, stream);
  expect_flat(op, "x", x, x.dtype);
  require(lo <= hi, "{}: expected lo <= hi, got {} and {}", op, lo, hi);
  if (count_pass(op, x.dtype, {x, x}, stream)) return;
  const ClampArgs args{x, lo, hi};
  const auto& impl = pick<ClampArgs>(op, clamp_table(), args, stream);
  if (!stream.measuring()) impl.run(args, stream);
}

bool all_finite(const Tensor& x, Stream& stream) {
  const char* op = "all_finite";
  expect_float_dtype(op, "x", x, stream);
  expect_flat(op, "x", x, x.dtype);
  bool result = true;
  if (count_pass(op, x.dtype, {x}, stream)) return true;
  const AllFiniteArgs args{x, &result};
  const auto& impl = pick<AllFiniteArgs>(op, all_finite_table(), args, stream);
  if (!stream.measuring() || stream.gpu) impl.run(args, stream);  // on the GPU it takes scratch
  return result;
}

void mark_nonfinite(const Tensor& x, const Tensor& flag, Stream& stream) {
  const char* op = "mark_nonfinite";
  expect_float_dtype(op, "x", x, stream);
  expect_flat(op, "x", x, x.dtype);
  expect_flat(op, "flag", flag, DType::i32);
  require(flag.numel() == 1, "{}: expected a flag of one value, got {}", op, shape_string(flag));
  if (count_pass(op, x.dtype, {x}, stream)) return;
  const MarkNonfiniteArgs args{x, flag};
  const auto& impl = pick<MarkNonfiniteArgs>(op, mark_nonfinite_table(), args, stream);
  if (!stream.measuring()) impl.run(args, stream);
}

}  // namespace tachy::ops
