// Finds the options of a Wan video transformer by its tensors, for files that come without a config.json,
// such as ComfyUI's single files and GGUF.
//
//   patch_embedding.weight [d, in, pt, ph, pw]           width, in_channels, patch
//   proj_out.weight        [pt·ph·pw·out, d]             out_channels
//   text_embedder.linear_1 [d, text], time_embedder.linear_1 [d, freq], image_embedder.norm1 [image]
//   blocks.N.…                                           layers, ffn_dim, whether norm2 has parameters
//   vace_blocks.N.…, vace_patch_embedding.weight         VACE's control blocks and their channels
//
// No shape tells the number of heads (all published models have heads of 128 channels), the epsilon of the
// norms, or the length of the rope tables (both are the same in all of them).
#pragma once

#include "models/wan/wan_config.h"
#include "weights/tensor_source.h"

namespace tachy {

bool is_wan_transformer(const TensorSource& source);  // expects diffusers' names

// Throws `not_found` if this is not a Wan transformer. Throws `unsupported` for relatives with other inputs
// (Animate, S2V …), and if the width does not determine the number of heads.
WanConfig infer_wan_config(const TensorSource& source, Sinusoid sinusoid);

// Corrects what the config.json of the original repository omits or gets wrong: whether there is text, and
// the width of an image's tokens. 2.2's image-to-video experts have the model_type i2v like 2.1's, but no
// CLIP branch; in Matrix-Game 2 this branch is the only context.
void correct_by_tensors(WanConfig& config, const TensorSource& source);

// Returns the attention that the transformer was trained with, by its tensors: no config tells.
TrainedSparse find_trained_sparse(const TensorSource& source);

// Throws `corrupt`, with the option and both values, if `config` contradicts the tensors.
void check_wan_config(const WanConfig& config, const TensorSource& source);

}  // namespace tachy
