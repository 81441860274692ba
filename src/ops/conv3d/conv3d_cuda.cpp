// Describes the causal convolution for the GPU's kernels that all convolutions share.
#include "cuda/conv/conv_tf32.h"
#include "ops/conv3d/conv3d_impl.h"

namespace tachy::ops {
namespace {

cuda::ConvProblem problem_of(const CausalConv3dArgs& a) {
  cuda::ConvProblem problem = cuda::conv_problem(a.x, a.y);
  device::ConvShape& s = problem.shape;
  s.kernel_t = static_cast<int>(a.kernel_t);
  s.kernel_h = static_cast<int>(a.kernel_h), s.kernel_w = static_cast<int>(a.kernel_w);
  s.pad_top = (s.kernel_h - 1) / 2, s.pad_left = (s.kernel_w - 1) / 2;
  s.time_stride = static_cast<int>(a.time_stride), s.front = static_cast<int>(a.front);
  s.history = static_cast<int>(a.history);
  s.cache_frames = a.cache.defined() ? static_cast<int>(a.cache.dim(0)) : 0;
  problem.cache = a.cache, problem.packed = a.packed, problem.bias = a.bias, problem.residual = a.residual;
  problem.gamma = a.gamma, problem.normed = a.normed, problem.silu = a.silu;
  return problem;
}

}  // namespace

std::optional<Refusal> causal_conv3d_why_not_head(const CausalConv3dArgs& a, const Stream& stream) {
  if (const auto no = causal_conv3d_plain(a)) return no;
  return cuda::conv_head_why_not(problem_of(a), stream);
}
void causal_conv3d_head(const CausalConv3dArgs& a, Stream& stream) { cuda::conv_head(problem_of(a), stream); }
std::optional<Refusal> causal_conv3d_why_not_stem(const CausalConv3dArgs& a, const Stream& stream) {
  if (const auto no = causal_conv3d_plain(a)) return no;
  return cuda::conv_stem_why_not(problem_of(a), stream);
}
void causal_conv3d_stem(const CausalConv3dArgs& a, Stream& stream) { cuda::conv_stem(problem_of(a), stream); }
std::optional<Refusal> causal_conv3d_why_not_sm90(const CausalConv3dArgs& a, const Stream& stream) {
  return cuda::conv_sm90_why_not(problem_of(a), stream);
}
void causal_conv3d_sm90(const CausalConv3dArgs& a, Stream& stream) { cuda::conv_sm90(problem_of(a), stream); }
std::optional<Refusal> causal_conv3d_why_not_winograd(const CausalConv3dArgs& a, const Stream& stream) {
  return cuda::conv_winograd_why_not(problem_of(a), stream);
}
std::optional<Refusal> causal_conv3d_why_slower_winograd(const CausalConv3dArgs& a, const Stream& stream) {
  if (!cuda::conv_winograd_is_first(*stream.gpu, a.x.dtype, a.y.dim(3), a.x.dim(3), a.x.dim(2)))
    return Refusal::slower("it is for wide frames of bf16 and many channels on Hopper");
  return causal_conv3d_why_not_winograd(a, stream);
}
void causal_conv3d_winograd(const CausalConv3dArgs& a, Stream& stream) {
  cuda::conv_winograd(problem_of(a), stream);
}
std::optional<Refusal> causal_conv3d_why_not_cudnn(const CausalConv3dArgs& a, const Stream& stream) {
  if (const auto no = causal_conv3d_plain(a)) return no;
  return cuda::conv_cudnn_why_not(problem_of(a), stream);
}
std::optional<Refusal> causal_conv3d_why_slower_cudnn(const CausalConv3dArgs& a, const Stream& stream) {
  if (auto why = cuda::conv_sm80_is_faster(problem_of(a), stream)) return why;
  return causal_conv3d_why_not_cudnn(a, stream);
}
void causal_conv3d_cudnn(const CausalConv3dArgs& a, Stream& stream) {
  cuda::conv_cudnn(problem_of(a), stream);
}
std::optional<Refusal> causal_conv3d_why_not_sm80(const CausalConv3dArgs& a, const Stream& stream) {
  return cuda::conv_sm80_why_not(problem_of(a), stream);
}
void causal_conv3d_sm80(const CausalConv3dArgs& a, Stream& stream) { cuda::conv_sm80(problem_of(a), stream); }
std::optional<Refusal> causal_conv3d_why_not_tf32(const CausalConv3dArgs& a, const Stream& stream) {
  return cuda::conv_tf32_why_not(problem_of(a), stream);
}
void causal_conv3d_tf32(const CausalConv3dArgs& a, Stream& stream) { cuda::conv_tf32(problem_of(a), stream); }
std::optional<Refusal> causal_conv3d_why_not_simple(const CausalConv3dArgs& a, const Stream& stream) {
  if (const auto no = causal_conv3d_plain(a)) return no;
  return cuda::conv_simple_why_not(problem_of(a), stream);
}
void causal_conv3d_simple(const CausalConv3dArgs& a, Stream& stream) {
  cuda::conv_simple(problem_of(a), stream);
}

}  // namespace tachy::ops
