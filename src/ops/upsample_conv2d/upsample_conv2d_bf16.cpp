// Upsampling with convolution in bf16 on panels: the four phases read one padded copy of x.
#include "cpu/conv_panels.h"
#include "ops/upsample_conv2d/upsample_conv2d_impl.h"

namespace tachy::ops {

std::optional<Refusal> upsample_conv2d_why_not_bf16(const UpsampleConv2dArgs&, const Stream& stream) {
  if (stream.precision.compute != Compute::bf16) return Refusal::settings("float32 is asked for");
  return cpu::panels_why_not(Compute::bf16);
}

void upsample_conv2d_bf16(const UpsampleConv2dArgs& a, Stream& stream) {
  cpu::PanelConv conv{.h = a.x.dim(1), .w = a.x.dim(2), .ci = a.x.dim(3), .co = a.y.dim(3)};
  conv.kernel_h = conv.kernel_w = 2, conv.upsample = true;
  for (int64_t f = 0; f < a.x.dim(0); ++f) conv.inputs.push_back(a.x.as<float>() + f * a.x.stride(0));
  conv.outputs = a.x.dim(0);
  conv.packed = a.packed.data, conv.y = a.y.as<float>();
  if (a.bias.defined()) conv.bias = a.bias.as<float>();
  cpu::run_panel_conv(conv, stream);
}

}  // namespace tachy::ops
