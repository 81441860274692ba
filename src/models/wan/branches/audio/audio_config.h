// The audio branch of InfiniteTalk: its tensors lie beside a Wan image-to-video transformer's, in a file of
// their own or in the same one. Their names are audio_proj.…, blocks.N.norm_x, blocks.N.audio_cross_attn.….
#pragma once

#include "models/wan/wan_config.h"
#include "weights/tensor_source.h"

namespace tachy {

bool has_audio_branch(const TensorSource& source);

// Fills in the branch's sizes from the tensors' shapes; without a branch nothing changes. Throws `corrupt`,
// naming the file, for shapes that contradict one another.
void add_audio_branch(WanConfig& config, const TensorSource& source);

}  // namespace tachy
