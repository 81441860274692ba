// The options of a Wan video transformer read off its tensors, for files that come without a config.json:
// ComfyUI's single files, GGUF.
//
//   patch_embedding.weight [d, in, pt, ph, pw]           width, in_channels, patch
//   proj_out.weight        [pt·ph·pw·out, d]             out_channels
//   text_embedder.linear_1 [d, text], time_embedder.linear_1 [d, freq], image_embedder.norm1 [image]
//   blocks.N.…                                           layers, ffn_dim, whether norm2 has parameters
//
// Three things do not follow from any shape: the number of heads (all published models have heads of 128
// channels), the norms' epsilon and the length of the rope tables (equal in all of them).
#pragma once

#include "models/wan/wan_config.h"
#include "weights/tensor_source.h"

namespace tachy {

bool is_wan_transformer(const TensorSource& source);  // under diffusers' names

// Throws `not_found` if this is not a Wan transformer, and `unsupported` for relatives that take other inputs
// (VACE, Animate …) and if the width leaves the number of heads open.
WanConfig infer_wan_config(const TensorSource& source, Sinusoid sinusoid);

// Corrects what the original repository's config.json leaves out or says wrongly: whether there is text, and
// the width of an image's tokens. 2.2's image-to-video experts say model_type i2v like 2.1's, but have no
// CLIP branch; in Matrix-Game 2 that branch is the only context.
void correct_by_tensors(WanConfig& config, const TensorSource& source);

// Throws `corrupt`, naming the option and both values, if `config` contradicts the tensors.
void check_wan_config(const WanConfig& config, const TensorSource& source);

}  // namespace tachy
