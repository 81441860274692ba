// Describes the causal convolution in 8 bits for the kernels of Hopper and of other GPUs.
#include "cuda/conv/conv8_sm80.h"
#include "cuda/conv/conv8_sm90.h"
#include "ops/scaled_conv3d/scaled_conv3d_impl.h"

namespace tachy::ops {
namespace {

cuda::Conv8Problem problem_of(const ScaledConv3dArgs& a) {
  cuda::Conv8Problem problem{.conv = cuda::conv_problem(a.x, scaled_conv3d_result(a))};
  cuda::ConvProblem& conv = problem.conv;
  device::ConvShape& s = conv.shape;
  s.kernel_t = s.kernel_h = s.kernel_w = 3;
  s.pad_top = s.pad_left = 1, s.front = 2;
  s.history = static_cast<int>(a.history);
  s.cache_frames = a.cache.defined() ? static_cast<int>(a.cache.dim(0)) : 0;
  conv.cache = a.cache, conv.packed = a.packed, conv.bias = a.bias, conv.residual = a.residual;
  conv.gamma = a.gamma, conv.normed = a.normed, conv.silu = a.silu;
  problem.sums = a.y, problem.normed_scale = a.normed_scale;
  problem.scale = static_cast<const char*>(a.packed.data) + scaled_conv3d_scales_at(a);
  return problem;
}

}  // namespace

bool scaled_conv3d_on_gpu(const Stream& stream, DType codes) {
  return stream.precision.activation == DType::bf16 &&
         (cuda::conv8_sm90_available(stream, codes) || cuda::conv8_sm80_available(stream, codes));
}

std::optional<Refusal> scaled_conv3d_why_not_sm90(const ScaledConv3dArgs& a, const Stream& stream) {
  return cuda::conv8_sm90_why_not(problem_of(a), stream);
}
void scaled_conv3d_sm90(const ScaledConv3dArgs& a, Stream& stream) {
  cuda::conv8_sm90(problem_of(a), stream);
}
std::optional<Refusal> scaled_conv3d_why_not_sm80(const ScaledConv3dArgs& a, const Stream& stream) {
  return cuda::conv8_sm80_why_not(problem_of(a), stream);
}
void scaled_conv3d_sm80(const ScaledConv3dArgs& a, Stream& stream) {
  cuda::conv8_sm80(problem_of(a), stream);
}

}  // namespace tachy::ops
