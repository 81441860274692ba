// The GPU's convolutions in a build without CUDA: never reached, since no stream has a GPU.
#include "cuda/conv.h"

namespace tachy::cuda {
namespace {

[[noreturn]] void fail_off() { fail(ErrorCode::unsupported, "convolution: this build has no CUDA"); }

}  // namespace

int64_t conv_packed_bytes(DType, int64_t, int64_t, int64_t, int64_t) { fail_off(); }
void conv_pack(DType, int64_t, int64_t, int64_t, int64_t, const std::function<void(int64_t, float*)>&,
               const Tensor&, Stream&) {
  fail_off();
}
ConvProblem conv_problem(const Tensor&, const Tensor&, int64_t) { fail_off(); }
std::optional<std::string> conv_sm90_why_not(const ConvProblem&, const Stream&) { fail_off(); }
void conv_sm90(const ConvProblem&, Stream&) { fail_off(); }
std::optional<std::string> conv_cudnn_why_not(const ConvProblem&, const Stream&) { fail_off(); }
void conv_cudnn(const ConvProblem&, Stream&) { fail_off(); }
std::optional<std::string> conv_sm80_why_not(const ConvProblem&, const Stream&) { fail_off(); }
void conv_sm80(const ConvProblem&, Stream&) { fail_off(); }
std::optional<std::string> conv_head_why_not(const ConvProblem&, const Stream&) { fail_off(); }
void conv_head(const ConvProblem&, Stream&) { fail_off(); }
std::optional<std::string> conv_stem_why_not(const ConvProblem&, const Stream&) { fail_off(); }
void conv_stem(const ConvProblem&, Stream&) { fail_off(); }
std::optional<std::string> conv_simple_why_not(const ConvProblem&, const Stream&) { fail_off(); }
void conv_simple(const ConvProblem&, Stream&) { fail_off(); }

}  // namespace tachy::cuda
