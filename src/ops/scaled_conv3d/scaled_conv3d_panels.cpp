// The causal convolution in 8 bits on a CPU's panels: bf16 and float32 hold every code, and a product
// of two codes is exact in float32, so that only sums round. The scale and the steps after it are
// applied while sums are in cache.
#include "cpu/conv_panels.h"
#include "cpu/conv_weights.h"
#include "ops/scaled_conv3d/scaled_conv3d_impl.h"

namespace tachy::ops {
namespace {

void scaled_conv3d_panels(const ScaledConv3dArgs& a, Compute compute, Stream& stream) {
  cpu::PanelConv conv{.compute = compute, .h = a.x.dim(1), .w = a.x.dim(2), .ci = a.x.dim(3)};
  conv.co = scaled_conv3d_result(a).dim(3), conv.kernel_t = 3;
  conv.outputs = a.x.dim(0), conv.x = a.x.dtype;
  for (int64_t i = 0; i < conv.outputs + 2; ++i) conv.inputs.push_back(scaled_conv3d_frame(a, i));
  conv.packed = a.packed.data;
  conv.finish = [&a](int64_t at, float* sums) { scaled_conv3d_finish(a, at, sums); };
  cpu::run_panel_conv(conv, stream);
}

}  // namespace

std::optional<Refusal> scaled_conv3d_why_not_bf16(const ScaledConv3dArgs&, const Stream&) {
  return cpu::conv_form_why_not(cpu::ConvForm::bf16, kScaledConvCompute);
}
void scaled_conv3d_bf16(const ScaledConv3dArgs& a, Stream& stream) {
  scaled_conv3d_panels(a, Compute::bf16, stream);
}
std::optional<Refusal> scaled_conv3d_why_not_f32(const ScaledConv3dArgs&, const Stream&) {
  return cpu::conv_form_why_not(cpu::ConvForm::f32, kScaledConvCompute);
}
void scaled_conv3d_f32(const ScaledConv3dArgs& a, Stream& stream) {
  scaled_conv3d_panels(a, Compute::f32, stream);
}

}  // namespace tachy::ops
