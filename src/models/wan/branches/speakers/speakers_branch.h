// Finds which of two speakers a token follows, as InfiniteTalk does in each block: by how much the block's
// self-attention would look at either of them, or at the background, in the first latent frame, which shows
// the picture. The speaker becomes a place on a line (ops/region_rope), and the audio attention's queries and
// keys are turned by their places, so that near ones find each other.
//
// The softmax over the first frame's keys is an attention whose values are masks. It costs a part of
// self-attention, one over the number of latent frames (1/21 at 81 frames). Its result goes where
// self-attention's values were, so it needs no memory of its own.
#pragma once

#include <memory>

#include "models/wan/branch.h"
#include "models/wan/wan_config.h"
#include "ops/region_rope/region_rope.h"

namespace tachy {

inline constexpr int64_t kMostSpeakers = ops::RegionRopeArgs::kSpeakers;

std::unique_ptr<WanBranch> make_speakers_branch(const Scope& scope, const WanConfig& config,
                                                nn::ParamStore& store);

// Turns the audio attention's queries [batch·tokens, dim] whose batch item has two speakers.
void turn_by_routes(const WanBlockInput& in, const WanConfig& config, const Tensor& q, Stream& stream);

// Turns the first `dim` columns of an audio token's keys and values, for all blocks. In kv
// [layers, tokens, 2·dim], `each` tokens of the first speaker alternate with `each` of the second. The first
// speaker's are put at the middle of the range of places that tokens of the picture may have for it, and so
// are the second's.
void place_speakers(const WanConfig& config, const Tensor& kv, int64_t each, Stream& stream);

}  // namespace tachy
