// The audio branch of InfiniteTalk: tensors that lie beside a Wan image-to-video transformer's, in a file of their own or in one
// with it. Its names: audio_proj.…, blocks.N.norm_x, blocks.N.audio_cross_attn.….
#pragma once

#include "models/wan/wan_config.h"
#include "weights/tensor_source.h"

namespace tachy {

bool has_audio_branch(const TensorSource& source);

// Fills in the sizes of the branch from the tensors' shapes; without a branch nothing changes. Throws corrupt for shapes
// that contradict one another, naming the file.
void add_audio_branch(WanConfig& config, const TensorSource& source);

}  // namespace tachy
