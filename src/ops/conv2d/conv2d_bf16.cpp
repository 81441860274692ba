// The 2-D convolution in bf16 on panels.
#include "cpu/conv_panels.h"
#include "ops/conv2d/conv2d_impl.h"

namespace tachy::ops {

std::optional<Refusal> conv2d_why_not_bf16(const Conv2dArgs&, const Stream& stream) {
  if (stream.precision.compute != Compute::bf16) return Refusal::settings("float32 is asked for");
  return cpu::panels_why_not(Compute::bf16);
}

void conv2d_bf16(const Conv2dArgs& a, Stream& stream) {
  cpu::PanelConv conv{.h = a.x.dim(1), .w = a.x.dim(2), .ci = a.x.dim(3), .co = a.y.dim(3)};
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

}  // namespace tachy::ops
