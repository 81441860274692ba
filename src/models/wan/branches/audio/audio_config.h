// The audio branch of InfiniteTalk. Its tensors come with those of a Wan image-to-video transformer, in the
// same file or in another one. They are named audio_proj.…, blocks.N.norm_x, blocks.N.audio_cross_attn.….
#pragma once

#include "models/wan/wan_config.h"
#include "weights/tensor_source.h"

namespace tachy {

bool has_audio_branch(const TensorSource& source);

// Fills in the branch's sizes from the tensors' shapes; changes nothing if there is no branch. Throws
// `corrupt`, with the file's name, for contradictory shapes.
void add_audio_branch(WanConfig& config, const TensorSource& source);

}  // namespace tachy
