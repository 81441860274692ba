// Describes the 2-D convolution for the GPU's kernels that all convolutions share.
#include "cuda/conv/conv_tf32.h"
#include "ops/conv2d/conv2d_impl.h"

namespace tachy::ops {
namespace {

cuda::ConvProblem problem_of(const Conv2dArgs& a) {
  cuda::ConvProblem problem = cuda::conv_problem(a.x, a.y);
  device::ConvShape& s = problem.shape;
  s.kernel_h = static_cast<int>(a.kernel_h), s.kernel_w = static_cast<int>(a.kernel_w);
  s.stride = static_cast<int>(a.stride);
  s.pad_top = static_cast<int>(a.pad_top), s.pad_left = static_cast<int>(a.pad_left);
  problem.packed = a.packed, problem.bias = a.bias, problem.residual = a.residual;
  return problem;
}

}  // namespace

std::optional<Refusal> conv2d_why_not_sm90(const Conv2dArgs& a, const Stream& stream) {
  return cuda::conv_sm90_why_not(problem_of(a), stream);
}
void conv2d_sm90(const Conv2dArgs& a, Stream& stream) { cuda::conv_sm90(problem_of(a), stream); }
std::optional<Refusal> conv2d_why_not_cudnn(const Conv2dArgs& a, const Stream& stream) {
  return cuda::conv_cudnn_why_not(problem_of(a), stream);
}
std::optional<Refusal> conv2d_why_slower_cudnn(const Conv2dArgs& a, const Stream& stream) {
  if (auto why = cuda::conv_sm80_is_faster(problem_of(a), stream)) return why;
  return conv2d_why_not_cudnn(a, stream);
}
void conv2d_cudnn(const Conv2dArgs& a, Stream& stream) { cuda::conv_cudnn(problem_of(a), stream); }
std::optional<Refusal> conv2d_why_not_sm80(const Conv2dArgs& a, const Stream& stream) {
  return cuda::conv_sm80_why_not(problem_of(a), stream);
}
void conv2d_sm80(const Conv2dArgs& a, Stream& stream) { cuda::conv_sm80(problem_of(a), stream); }
std::optional<Refusal> conv2d_why_not_tf32(const Conv2dArgs& a, const Stream& stream) {
  return cuda::conv_tf32_why_not(problem_of(a), stream);
}
void conv2d_tf32(const Conv2dArgs& a, Stream& stream) { cuda::conv_tf32(problem_of(a), stream); }
std::optional<Refusal> conv2d_why_not_simple(const Conv2dArgs& a, const Stream& stream) {
  return cuda::conv_simple_why_not(problem_of(a), stream);
}
void conv2d_simple(const Conv2dArgs& a, Stream& stream) { cuda::conv_simple(problem_of(a), stream); }

}  // namespace tachy::ops
