// Which of two speakers a token follows, as InfiniteTalk finds it in each block: by how much the block's self-attention would
// look at either of them, or at the background, in the first latent frame, which shows the picture. The speaker becomes a place
// on a line (ops/region_rope), and the audio attention's queries and keys are turned by their places: near ones find each other.
//
// The softmax over the first frame's keys is an attention whose values are masks. Its cost is that of self-attention by the
// number of latent frames (1/21 of it at 81 frames), and what it gives goes where self-attention's values were: no memory of its own.
#pragma once

#include <memory>

#include "models/wan/branch.h"
#include "models/wan/wan_config.h"
#include "ops/region_rope/region_rope.h"

namespace tachy {

inline constexpr int64_t kMostSpeakers = ops::RegionRopeArgs::kSpeakers;

std::unique_ptr<WanBranch> make_speakers_branch(const Scope& scope, const WanConfig& config,
                                                nn::ParamStore& store);

// The audio attention's queries [batch·tokens, dim], turned where their tokens' batch item has two speakers.
void turn_by_routes(const WanBlockInput& in, const WanConfig& config, const Tensor& q, Stream& stream);

// The first `dim` columns of an audio token's keys and values, for all blocks: kv [layers, tokens, 2·dim], of which so many lie
// beside each other for one speaker and then for the other. Those of the first are put at the middle of what its tokens of the
// picture may have, those of the second likewise.
void place_speakers(const WanConfig& config, const Tensor& kv, int64_t each, Stream& stream);

}  // namespace tachy
