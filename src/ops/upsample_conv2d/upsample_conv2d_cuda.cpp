// Describes upsampling with convolution for the GPU's kernels that all convolutions share.
#include "cuda/conv/conv_tf32.h"
#include "ops/upsample_conv2d/upsample_conv2d_impl.h"

namespace tachy::ops {
namespace {

cuda::ConvProblem problem_of(const UpsampleConv2dArgs& a) {
  cuda::ConvProblem problem = cuda::conv_problem(a.x, a.y, 4);
  device::ConvShape& s = problem.shape;
  s.kernel_h = s.kernel_w = 2, s.pad_top = s.pad_left = 1;
  problem.packed = a.packed, problem.bias = a.bias;
  return problem;
}

}  // namespace

std::optional<Refusal> upsample_conv2d_why_not_sm90(const UpsampleConv2dArgs& a, const Stream& stream) {
  return cuda::conv_sm90_why_not(problem_of(a), stream);
}
void upsample_conv2d_sm90(const UpsampleConv2dArgs& a, Stream& stream) {
  cuda::conv_sm90(problem_of(a), stream);
}
std::optional<Refusal> upsample_conv2d_why_not_sm80(const UpsampleConv2dArgs& a, const Stream& stream) {
  return cuda::conv_sm80_why_not(problem_of(a), stream);
}
void upsample_conv2d_sm80(const UpsampleConv2dArgs& a, Stream& stream) {
  cuda::conv_sm80(problem_of(a), stream);
}
std::optional<Refusal> upsample_conv2d_why_not_tf32(const UpsampleConv2dArgs& a, const Stream& stream) {
  return cuda::conv_tf32_why_not(problem_of(a), stream);
}
void upsample_conv2d_tf32(const UpsampleConv2dArgs& a, Stream& stream) {
  cuda::conv_tf32(problem_of(a), stream);
}
std::optional<Refusal> upsample_conv2d_why_not_simple(const UpsampleConv2dArgs& a, const Stream& stream) {
  return cuda::conv_simple_why_not(problem_of(a), stream);
}
void upsample_conv2d_simple(const UpsampleConv2dArgs& a, Stream& stream) {
  cuda::conv_simple(problem_of(a), stream);
}

}  // namespace tachy::ops
