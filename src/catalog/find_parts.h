// The other parts of a model whose transformer is one file: as they were named, or as they lie in ComfyUI's
// folders, where the transformer is in …/diffusion_models or …/unet, text encoders in …/text_encoders or …/clip,
// VAEs in …/vae and image encoders in …/clip_vision beside it. A part is taken from there if it is the only one that fits.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "catalog/part_files.h"
#include "catalog/part_paths.h"

namespace tachy {

// A umT5 whose embeddings are as wide as the transformer expects them, a VAE of its latents, and a vision model of
// CLIP's as wide as its image branch. Throw not_found
// where there is none and invalid_argument where there are several, naming the field and the candidates.
ComponentFiles find_text_encoder(const std::filesystem::path& transformer, const WanConfig& config);
ComponentFiles find_vae(const std::filesystem::path& transformer, const WanConfig& config);
ComponentFiles find_image_encoder(const std::filesystem::path& transformer, const WanConfig& config);

// What a model in one file lacks: the messages of those errors and of what was named but cannot be opened.
std::vector<std::string> missing_parts(const std::filesystem::path& transformer, const PartPaths& parts);

// A folder or file with a tokenizer that belongs to a text encoder there, or empty.
std::filesystem::path tokenizer_beside(const std::filesystem::path& text_encoder);

// The tensor in which ComfyUI's text encoders carry their spiece.model; null where there is none.
const TensorSource::Entry* carried_tokenizer(const TensorSource& text_encoder);
// That tensor, or the keys of a GGUF file.
bool carries_tokenizer(const TensorSource& text_encoder);

}  // namespace tachy
