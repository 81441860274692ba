// Finds the other parts of a model whose transformer is a single file: the user names them, or they are in
// ComfyUI's folders. There the transformer is in …/diffusion_models or …/unet, and beside it text encoders
// are in …/text_encoders or …/clip, VAEs in …/vae and image encoders in …/clip_vision. A part from there is
// used if it is the only one that fits.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "catalog/part_files.h"
#include "catalog/part_paths.h"

namespace tachy {

// They find a umT5 whose embeddings are as wide as the transformer expects, a VAE for its latents, and a
// vision model of CLIP that is as wide as its image branch. They throw not_found if there is none and
// invalid_argument if there are several, naming the field and the candidates.
ComponentFiles find_text_encoder(const std::filesystem::path& transformer, const WanConfig& config);
ComponentFiles find_vae(const std::filesystem::path& transformer, const WanConfig& config);
ComponentFiles find_image_encoder(const std::filesystem::path& transformer, const WanConfig& config);

// The parts that a model in one file lacks: the messages of those errors, and those for named parts that
// cannot be opened.
std::vector<std::string> missing_parts(const std::filesystem::path& transformer, const PartPaths& parts);

// Returns a folder or file with a tokenizer that belongs to the text encoder at that place, or an empty path.
std::filesystem::path tokenizer_beside(const std::filesystem::path& text_encoder);

// Returns the tensor in which ComfyUI's text encoders contain their spiece.model; null if there is none.
const TensorSource::Entry* carried_tokenizer(const TensorSource& text_encoder);
// Says whether there is such a tensor, or the keys of a GGUF file.
bool carries_tokenizer(const TensorSource& text_encoder);

}  // namespace tachy
