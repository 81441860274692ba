// Self-attention that a model was trained with in place of attending to all keys. Tokens lie in blocks (sparse.h),
// and each block of queries attends to the blocks of keys whose means fit its own best:
//
//   Video Sparse Attention (FastWan; Zhang et al., 2025). Blocks are cubes of 4x4x4 tokens.
//     a = softmax over the chosen cubes' keys + (u·Wg + bg) ⊙ softmax(mean q · mean kᵀ / √d)·mean v
//     where u is what q, k and v are made of, and the second softmax is between cubes.
//   Sparse-Linear Attention (TurboDiffusion; Zhang et al., 2025). Blocks have 128 queries and 64 keys.
//     a = softmax over the chosen blocks' keys + P(φ(q)·(φ(k)ᵀv) / (1e-5 + φ(q)·Σφ(k)))
//     where φ is the softmax over a head's channels, and P a layer of a head's width that all heads share.
//
// TurboDiffusion's SageSLA is the second with q, k and v in 8 bits. Its files are the same, and this computes them as
// SLA does. A run that attends to everything, or to other blocks (WanKeys::trained is false), does without a branch.
#pragma once

#include <memory>

#include "models/wan/branch.h"
#include "models/wan/wan_config.h"

namespace tachy {

// Null for a model that was trained with all keys.
std::unique_ptr<WanBranch> make_trained_branch(const Scope& scope, const WanConfig& config,
                                               nn::ParamStore& store);

}  // namespace tachy
