// Finds the other parts of a model whose transformer is a single file. The user names them, or they are in
// ComfyUI's folders: if the transformer is in …/diffusion_models or …/unet, text encoders are beside it in
// …/text_encoders or …/clip, VAEs in …/vae and image encoders in …/clip_vision. A part from there is used if
// no other one fits.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "catalog/part_files.h"
#include "catalog/part_paths.h"

namespace tachy {

// These find a umT5 whose embeddings are as wide as the transformer expects, a VAE for its latents, and a
// CLIP vision model as wide as its image branch. They throw not_found if there is none, and invalid_argument
// with the field and the candidates if there are several.
ComponentFiles find_text_encoder(const std::filesystem::path& transformer, const WanConfig& config);
ComponentFiles find_vae(const std::filesystem::path& transformer, const WanConfig& config);
ComponentFiles find_image_encoder(const std::filesystem::path& transformer, const WanConfig& config);

// Returns one message for each part that a model in one file lacks, or that was named and cannot be opened.
std::vector<std::string> missing_parts(const std::filesystem::path& transformer, const PartPaths& parts);

// Returns a folder or file with a tokenizer beside the text encoder at this path, or an empty path.
std::filesystem::path tokenizer_beside(const std::filesystem::path& text_encoder);

// Returns the tensor in which ComfyUI's text encoders contain their spiece.model, or null.
const TensorSource::Entry* carried_tokenizer(const TensorSource& text_encoder);
// Says whether the source has such a tensor or a GGUF file's keys for a tokenizer.
bool carries_tokenizer(const TensorSource& text_encoder);

}  // namespace tachy
