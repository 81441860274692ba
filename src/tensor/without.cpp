#include "tensor/without.h"

#include <algorithm>

namespace tachy {

using enum Optimisation;

std::span<const OptimisationInfo> optimisations() {
  static constexpr OptimisationInfo all[] = {
      {batched_guidance, "batched-guidance", "all branches of guidance are one forward pass"},
      {few_keys, "few-keys", "the padding behind a prompt is one key that counts for all of them"},
      {joined_qkv, "joined-qkv", "q, k and v of self-attention are one product"},
      {fused_norms, "fused-norms", "a residual add and the norm behind it are one pass over memory"},
      {fused_rope, "fused-rope", "the norms of q and k, the rope and attention's scale are one pass"},
      {fused_activations, "fused-activations", "the feed-forward's GELU is applied inside its product"},
      {norm_codes, "norm-codes",
       "with products in e4m3, norms write the codes that the next product reads (GPU)"},
      {conv_norms, "conv-norms",
       "the VAE's convolutions write their results' norms, too (GPU: Hopper; cuDNN elsewhere)"},
      {kernel_overlap, "kernel-overlap",
       "a kernel is brought in while the one before it is ending (GPU: Hopper)"},
      {graphs, "graphs", "a step is replayed as a CUDA graph (GPU)"},
      {step_cache, "step-cache", "steps whose input changed little are skipped (level extreme)"},
  };
  return all;
}

std::span<const OptimisationGroup> optimisation_groups() {
  static const OptimisationGroup all[] = {
      {"fused-block",
       "the block's whole chain of fused passes",
       {joined_qkv, fused_norms, fused_rope, fused_activations, norm_codes}}};
  return all;
}

void Without::add_kernel(std::string op, std::string impl) {
  std::vector<Kernel> all = kernels_ ? *kernels_ : std::vector<Kernel>();
  all.push_back({std::move(op), std::move(impl)});
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  kernels_ = std::make_shared<const std::vector<Kernel>>(std::move(all));
}

bool Without::names(std::string_view op, std::string_view impl) const {
  return std::ranges::any_of(*kernels_, [&](const Kernel& k) { return k.op == op && k.impl == impl; });
}

uint64_t Without::signature() const {
  uint64_t hash = mask_;
  const auto mix = [&](const std::string& text) {
    for (const char c : text + ":") hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  };
  if (kernels_)
    for (const Kernel& k : *kernels_) mix(k.op), mix(k.impl);
  return hash;
}

}  // namespace tachy
