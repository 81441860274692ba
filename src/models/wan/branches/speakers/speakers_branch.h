// Finds which of two speakers a token follows, as InfiniteTalk does in each block. What counts is how much
// the block's self-attention would look at either speaker, or at the background, in the first latent frame,
// which shows the picture. The speaker becomes a place on a line (ops/region_rope), and the queries and keys
// of the audio attention are turned by their places, so that near ones find each other.
//
// The softmax over the keys of the first frame is computed as an attention whose values are masks. Its cost
// is that of self-attention divided by the number of latent frames (1/21 at 81 frames). Its result overwrites
// self-attention's values, so it needs no extra memory.
#pragma once

#include <memory>

#include "models/wan/branch.h"
#include "models/wan/wan_config.h"
#include "ops/region_rope/region_rope.h"

namespace tachy {

inline constexpr int64_t kMostSpeakers = ops::RegionRopeArgs::kSpeakers;

std::unique_ptr<WanBranch> make_speakers_branch(const Scope& scope, const WanConfig& config,
                                                nn::ParamStore& store);

// Turns the audio attention's queries [batch·tokens, dim] of each batch item that has two speakers.
void turn_by_routes(const WanBlockInput& in, const WanConfig& config, const Tensor& q, Stream& stream);

// Turns the first `dim` columns of audio keys and values, for all blocks. In kv [layers, tokens, 2·dim],
// `each` tokens of the first speaker alternate with `each` of the second. Either speaker's tokens get the
// middle of the range of places that tokens of the picture may have for this speaker.
void place_speakers(const WanConfig& config, const Tensor& kv, int64_t each, Stream& stream);

}  // namespace tachy
