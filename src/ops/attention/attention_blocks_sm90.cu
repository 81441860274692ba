// Attention over lists of key blocks by flash_sm90.cuh on Hopper, in bf16 and f16, for head dims up to 64 and
// up to 128. Lists of neighbouring blocks of queries have little in common, so there are no clusters.
#include "ops/attention/flash_params.cuh"
#include "ops/attention/flash_sm90_launch.cuh"

namespace tachy::ops {
namespace {

constexpr int kStepKeys = BlockLists::kTokens, kCluster = 1;

template <class T, int kDim>
void run_typed(const AttentionArgs& a, Stream& stream) {
  flash::run90_partial<T, kDim, kStepKeys, kCluster, flash::Keys90::lists>(a, stream);
}

template <class T>
void run_typed(const AttentionArgs& a, Stream& stream) {
  a.q.dims[3] <= 64 ? run_typed<T, 64>(a, stream) : run_typed<T, 128>(a, stream);
}

}  // namespace

std::optional<Refusal> attention_why_not_blocks_sm90(const AttentionArgs& a, const Stream& stream) {
  if (!a.blocks.defined()) return Refusal::arguments("no lists of key blocks");
  if (a.blocks.cut()) return Refusal::arguments("blocks of other sizes");
  if (auto why = flash::why_not_sm90(a, stream)) return why;
  return flash::why_not(a, stream, flash::Tile90<__nv_bfloat16, 128, kStepKeys, kCluster>::kSharedBytes);
}

void attention_blocks_sm90(const AttentionArgs& a, Stream& stream) {
  a.q.dtype == DType::bf16 ? run_typed<__nv_bfloat16>(a, stream) : run_typed<__half>(a, stream);
}

}  // namespace tachy::ops
