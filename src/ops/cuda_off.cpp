// Launchers of a build without CUDA: never reached, since no stream has a GPU, but the tables name them.
#include "ops/activation/activation_impl.h"
#include "ops/add_norm/add_norm_impl.h"
#include "ops/add_rows/add_rows_impl.h"
#include "ops/attention/attention_impl.h"
#include "ops/channel_norm/channel_norm_impl.h"
#include "ops/elementwise/elementwise_impl.h"
#include "ops/gated_residual/gated_residual_impl.h"
#include "ops/gemm/gemm_impl.h"
#include "ops/glu/glu_impl.h"
#include "ops/group_norm/group_norm_impl.h"
#include "ops/layernorm_modulate/layernorm_modulate_impl.h"
#include "ops/patchify/patchify_impl.h"
#include "ops/position_bias/position_bias_impl.h"
#include "ops/qk_norm_rope/qk_norm_rope_impl.h"
#include "ops/quantize/quantize_impl.h"
#include "ops/reparameterize/reparameterize_impl.h"
#include "ops/rmsnorm/rmsnorm_impl.h"
#include "ops/rope/rope_impl.h"
#include "ops/shortcut/shortcut_impl.h"

namespace tachy::ops {
namespace {

[[noreturn]] void no_cuda() { fail(ErrorCode::unsupported, "this build has no CUDA"); }

}  // namespace

void add_rows_cuda(const AddRowsArgs&, Stream&) { no_cuda(); }
void position_bias_cuda(const PositionBiasArgs&, Stream&) { no_cuda(); }
void activation_cuda(const ActivationArgs&, Stream&) { no_cuda(); }
void add_norm_cuda(const AddNormArgs&, Stream&) { no_cuda(); }
void channel_norm_cuda(const ChannelNormArgs&, Stream&) { no_cuda(); }
void lincomb_cuda(const LincombArgs&, Stream&) { no_cuda(); }
void widen_cuda(const WidenArgs&, Stream&) { no_cuda(); }
void copy_cuda(const CopyArgs&, Stream&) { no_cuda(); }
void to_rgb8_cuda(const ToRgb8Args&, Stream&) { no_cuda(); }
void clamp_cuda(const ClampArgs&, Stream&) { no_cuda(); }
void all_finite_cuda(const AllFiniteArgs&, Stream&) { no_cuda(); }
void gated_residual_cuda(const GatedResidualArgs&, Stream&) { no_cuda(); }
void glu_cuda(const GluArgs&, Stream&) { no_cuda(); }
void group_norm_cuda(const GroupNormArgs&, Stream&) { no_cuda(); }
void group_norm_cuda_resident(const GroupNormArgs&, Stream&) { no_cuda(); }
std::optional<std::string> group_norm_why_not_resident(const GroupNormArgs&, const Stream&) { no_cuda(); }
void layernorm_modulate_cuda(const LayerNormModulateArgs&, Stream&) { no_cuda(); }
void patchify_cuda(const PatchifyArgs&, Stream&) { no_cuda(); }
void unpatchify_cuda(const UnpatchifyArgs&, Stream&) { no_cuda(); }
void qk_norm_rope_cuda(const QkNormRopeArgs&, Stream&) { no_cuda(); }
void quantize_cuda(const QuantizeArgs&, Stream&) { no_cuda(); }
void dequantize_cuda(const DequantizeArgs&, Stream&) { no_cuda(); }
void reparameterize_cuda(const ReparameterizeArgs&, Stream&) { no_cuda(); }
void rmsnorm_cuda(const RmsNormArgs&, Stream&) { no_cuda(); }
void rope_cuda(const RopeArgs&, Stream&) { no_cuda(); }
void shortcut_cuda(const ShortcutArgs&, Stream&) { no_cuda(); }

std::optional<std::string> gemm_why_not_cublaslt(const GemmArgs&, const Stream&) { no_cuda(); }
void gemm_cublaslt(const GemmArgs&, Stream&) { no_cuda(); }

std::optional<std::string> attention_why_not_sm90(const AttentionArgs&, const Stream&) { no_cuda(); }
std::optional<std::string> attention_why_not_sm90_many_keys(const AttentionArgs&, const Stream&) {
  no_cuda();
}
void attention_sm90(const AttentionArgs&, Stream&) { no_cuda(); }
std::optional<std::string> attention_why_not_cudnn(const AttentionArgs&, const Stream&) { no_cuda(); }
std::optional<std::string> attention_why_not_few_keys(const AttentionArgs&, const Stream&) { no_cuda(); }
std::optional<std::string> attention_why_not_sm80(const AttentionArgs&, const Stream&) { no_cuda(); }
std::optional<std::string> attention_why_not_softmax_gemm(const AttentionArgs&, const Stream&) { no_cuda(); }
void attention_cudnn(const AttentionArgs&, Stream&) { no_cuda(); }
void attention_few_keys(const AttentionArgs&, Stream&) { no_cuda(); }
void attention_sm80(const AttentionArgs&, Stream&) { no_cuda(); }
void attention_softmax_gemm(const AttentionArgs&, Stream&) { no_cuda(); }
void attention_plain_cuda(const AttentionArgs&, Stream&) { no_cuda(); }

void activation_backward_cuda(const ActivationBackwardArgs&, Stream&) { no_cuda(); }
void add_norm_backward_cuda(const AddNormBackwardArgs&, Stream&) { no_cuda(); }
void channel_norm_backward_cuda(const ChannelNormBackwardArgs&, Stream&) { no_cuda(); }
void glu_backward_cuda(const GluBackwardArgs&, Stream&) { no_cuda(); }
void group_norm_backward_cuda(const GroupNormBackwardArgs&, Stream&) { no_cuda(); }
void layernorm_modulate_backward_cuda(const LayerNormModulateBackwardArgs&, Stream&) { no_cuda(); }
void qk_norm_rope_backward_cuda(const QkNormRopeBackwardArgs&, Stream&) { no_cuda(); }
void reparameterize_backward_cuda(const ReparameterizeBackwardArgs&, Stream&) { no_cuda(); }
void rmsnorm_backward_cuda(const RmsNormBackwardArgs&, Stream&) { no_cuda(); }
void rope_backward_cuda(const RopeBackwardArgs&, Stream&) { no_cuda(); }

std::optional<std::string> attention_backward_why_not_sm80(const AttentionBackwardArgs&, const Stream&) {
  no_cuda();
}
void attention_backward_sm80(const AttentionBackwardArgs&, Stream&) { no_cuda(); }
std::optional<std::string> attention_backward_why_not_one_pass(const AttentionBackwardArgs&, const Stream&) {
  no_cuda();
}
void attention_backward_one_pass(const AttentionBackwardArgs&, Stream&) { no_cuda(); }
void attention_backward_plain_cuda(const AttentionBackwardArgs&, Stream&) { no_cuda(); }

}  // namespace tachy::ops
