#include "bind/modulation.h"

#include "bind/convert.h"

namespace tachy::python {

void expect_modulation(const char* op, const char* name, const Tensor& t, const Tensor& x) {
  if (!t.defined()) return;
  expect_value(op, name, t);
  bool fits = t.rank <= x.rank && t.dim(-1) == x.dim(-1);
  for (int i = 2; fits && i <= t.rank; ++i) fits = t.dim(-i) == 1 || t.dim(-i) == x.dim(-i);
  require(fits, "{}: expected {} {} or with dims of 1 before the last, got {}", op, name, shown(x), shown(t));
  require((x.dtype == DType::f64) == (t.dtype == DType::f64), "{}: expected {} {} beside {}, got {}", op,
          name, x.dtype == DType::f64 ? "f64" : "f32, f16 or bf16", dtype_name(x.dtype), dtype_name(t.dtype));
}

void expect_pair(const char* op, const char* first, const Tensor& a, const char* second, const Tensor& b) {
  if (!a.defined() && !b.defined()) return;
  if (a.defined() && b.defined() && same_shape(a, b)) return;
  fail(ErrorCode::invalid_argument, "{}: expected {} and {} of one shape, got {} and {}", op, first, second,
       a.defined() ? shape_string(a) : "none", b.defined() ? shape_string(b) : "none");
}

void expect_scale_and_shift(const char* op, const Tensor& scale, const Tensor& shift, const Tensor& x) {
  expect_modulation(op, "scale", scale, x);
  expect_modulation(op, "shift", shift, x);
  expect_pair(op, "scale", scale, "shift", shift);
}

Tensor modulation_result(GradientPass& pass, const Tensor& t, const Tensor& x, const Tensor& to) {
  const Tensor made = pass.parameter_result(t, to);
  return made.defined() ? made.view({-1, x.dim(-1)}) : made;
}

Tensor modulation_table(const Tensor& t, const Tensor& x, Context& context) {
  if (!t.defined()) return t;
  return parameter(t, x.dtype, context).view({-1, x.dim(-1)});
}

Tensor modulation_rows(const Tensor& t, const Tensor& x, Context& context) {
  const int64_t channels = x.dim(-1), rows = x.numel() / channels;
  if (!t.defined() || t.numel() == channels) return {};
  const auto fill = [&](const Tensor& to) {
    for (int64_t i = 0; i < rows; ++i) {
      int64_t rest = i, at = 0, step = 1;
      for (int axis = 2; axis <= x.rank; ++axis) {
        const int64_t index = rest % x.dim(-axis), extent = axis <= t.rank ? t.dim(-axis) : 1;
        rest /= x.dim(-axis);
        if (extent > 1) at += index * step;
        step *= extent;
      }
      to.as<int32_t>()[i] = static_cast<int32_t>(at);
    }
  };
  const std::string words = "rows of " + shape_string(t) + " beside " + shape_string(x);
  return context.table(words, DType::i32, {rows}, fill);
}

}  // namespace tachy::python
