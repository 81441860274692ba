#include "ops/add_norm/add_norm_impl.h"
#include "ops/count_work.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

void add_norm_cuda(const AddNormArgs& args, Stream& stream);        // add_norm_sm80.cu
void add_norm_codes_cuda(const AddNormArgs& args, Stream& stream);  // add_norm_codes_sm80.cu
std::optional<Refusal> add_norm_why_not_codes(const AddNormArgs& args, const Stream& stream);

namespace {

std::optional<Refusal> why_not_floats(const AddNormArgs& a, const Stream&) {
  if (a.y.dtype == DType::f8_e4m3) return Refusal::arguments("it does not make codes");
  return std::nullopt;
}

}  // namespace

std::span<const Impl<AddNormArgs>> add_norm_table() {
  static constexpr Impl<AddNormArgs> table[] = {
      gpu_impl<add_norm_cuda, why_not_floats>("cuda"),
      gpu_impl<add_norm_codes_cuda, add_norm_why_not_codes>("codes"),
      {"cpu", why_not_floats, add_norm_cpu},
      {"ref", nullptr, add_norm_ref}};
  return table;
}

void add_norm(const AddNormArgs& a, Stream& stream) {
  const char* op = "add_norm";
  expect_float(op, "x", a.x, {-1, -1}, stream);
  const int64_t m = a.x.dim(0), c = a.x.dim(1);
  expect_float(op, "u", a.u, {m, c}, stream);
  if (a.gate.defined()) {
    expect_f32(op, "gate", a.gate, {-1, c});
    expect_rows(op, a.row, m, a.gate.dim(0), stream);
  }
  require(a.scale.defined() == a.shift.defined(), "{}: expected scale and shift together, got only one", op);
  if (a.scale.defined()) {
    expect_f32(op, "scale", a.scale, {-1, c});
    expect_f32(op, "shift", a.shift, {a.scale.dim(0), c});
    expect_rows(op, a.row, m, a.scale.dim(0), stream);
  }
  if (a.weight.defined()) expect_parameter(op, "weight", a.weight, c, a.x, a.u, stream);
  if (a.bias.defined()) expect_parameter(op, "bias", a.bias, c, a.x, a.u, stream);
  if (a.weight.defined() && a.bias.defined()) expect_same_dtype(op, "bias", a.bias, a.weight);
  require(!a.round_twice ||
              (a.kind == NormKind::rms && a.weight.defined() && !a.bias.defined() && !a.scale.defined()),
          "{}: round_twice needs RMSNorm with a weight, without bias and modulation", op);
  if (a.sum.defined()) {
    expect_float(op, "sum", a.sum, {m, c}, stream);
    require(a.sum.data != a.y.data || a.y.numel() == 0 || stream.measuring(),
            "{}: expected sum and y in different places, got the same", op);
  }
  const bool codes = a.y.dtype == DType::f8_e4m3;
  require(codes == a.y_scale.defined(), "{}: expected y_scale with a y of codes, and only then", op);
  if (codes) {
    expect_shape(op, "y", a.y, {m, c});
    require(a.y.inner_contiguous(), "{}: expected y with a contiguous last dim, got stride {}", op,
            a.y.stride(-1));
    expect_here(op, "y", a.y, stream);
    expect_f32(op, "y_scale", a.y_scale, {m});
  } else {
    expect_float(op, "y", a.y, {m, c}, stream);
    expect_same_dtype(op, "y", a.y, a.u);
  }
  if (a.sum.defined()) expect_same_dtype(op, "sum", a.sum, a.x);
  if (count_pass(op, a.u.dtype, {a.x, a.u, a.sum, a.y}, stream)) return;
  const auto& impl = pick<AddNormArgs>(op, add_norm_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
