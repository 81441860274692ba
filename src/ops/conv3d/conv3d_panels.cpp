// The causal convolution on panels, in float32 or bf16: all taps of time and space in one sum.
#include "cpu/conv_panels.h"
#include "cpu/conv_weights.h"
#include "ops/conv3d/conv3d_impl.h"

namespace tachy::ops {

namespace {

void conv3d_panels(const CausalConv3dArgs& a, Compute compute, Stream& stream) {
  cpu::PanelConv conv{
      .compute = compute, .h = a.x.dim(1), .w = a.x.dim(2), .ci = a.x.dim(3), .co = a.y.dim(3)};
  conv.kernel_t = a.kernel_t, conv.kernel_h = a.kernel_h, conv.kernel_w = a.kernel_w;
  conv.time_stride = a.time_stride;
  conv.pad_top = conv.pad_bottom = (a.kernel_h - 1) / 2;
  conv.pad_left = conv.pad_right = (a.kernel_w - 1) / 2;
  conv.outputs = a.y.dim(0);
  for (int64_t i = 0; i < (conv.outputs - 1) * a.time_stride + a.kernel_t; ++i)
    conv.inputs.push_back(input_frame(a, i));
  conv.packed = a.packed.data, conv.y = a.y.as<float>(), conv.y_frame = a.y.stride(0);
  if (a.bias.defined()) conv.bias = a.bias.as<float>();
  if (a.residual.defined()) conv.residual = a.residual.as<float>();
  cpu::run_panel_conv(conv, stream);
}

}  // namespace

std::optional<Refusal> causal_conv3d_why_not_f32(const CausalConv3dArgs& a, const Stream& stream) {
  if (const auto no = causal_conv3d_plain(a)) return no;
  return cpu::conv_form_why_not(cpu::ConvForm::f32, stream.precision.compute);
}
void causal_conv3d_f32(const CausalConv3dArgs& a, Stream& stream) { conv3d_panels(a, Compute::f32, stream); }
std::optional<Refusal> causal_conv3d_why_not_bf16(const CausalConv3dArgs& a, const Stream& stream) {
  if (const auto no = causal_conv3d_plain(a)) return no;
  return cpu::conv_form_why_not(cpu::ConvForm::bf16, stream.precision.compute);
}
void causal_conv3d_bf16(const CausalConv3dArgs& a, Stream& stream) {
  conv3d_panels(a, Compute::bf16, stream);
}

}  // namespace tachy::ops
