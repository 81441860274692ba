// The 2-D convolution on panels, in float32 or bf16.
#include "cpu/conv_panels.h"
#include "cpu/conv_weights.h"
#include "ops/conv2d/conv2d_impl.h"

namespace tachy::ops {

namespace {

void conv2d_panels(const Conv2dArgs& a, Compute compute, Stream& stream) {
  cpu::PanelConv conv{
      .compute = compute, .h = a.x.dim(1), .w = a.x.dim(2), .ci = a.x.dim(3), .co = a.y.dim(3)};
  conv.kernel_h = a.kernel_h, conv.kernel_w = a.kernel_w, conv.stride = a.stride;
  conv.pad_top = a.pad_top, conv.pad_left = a.pad_left;
  conv.pad_bottom = a.pad_bottom, conv.pad_right = a.pad_right;
  for (int64_t f = 0; f < a.x.dim(0); ++f) conv.inputs.push_back(a.x.as<float>() + f * a.x.stride(0));
  conv.outputs = a.x.dim(0);
  conv.packed = a.packed.data, conv.y = a.y.as<float>();
  if (a.bias.defined()) conv.bias = a.bias.as<float>();
  if (a.residual.defined()) conv.residual = a.residual.as<float>();
  cpu::run_panel_conv(conv, stream);
}

}  // namespace

std::optional<Refusal> conv2d_why_not_f32(const Conv2dArgs&, const Stream& stream) {
  return cpu::conv_form_why_not(cpu::ConvForm::f32, stream.precision.compute);
}
void conv2d_f32(const Conv2dArgs& a, Stream& stream) { conv2d_panels(a, Compute::f32, stream); }
std::optional<Refusal> conv2d_why_not_bf16(const Conv2dArgs&, const Stream& stream) {
  return cpu::conv_form_why_not(cpu::ConvForm::bf16, stream.precision.compute);
}
void conv2d_bf16(const Conv2dArgs& a, Stream& stream) { conv2d_panels(a, Compute::bf16, stream); }

}  // namespace tachy::ops
