// The picture that shows what a LoRA does, where other programs for such models keep it: beside the file, or in it.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "web_api/fields/loras.h"

namespace tachy::web_api {

// Returns NAME.preview.ENDING or else NAME.ENDING beside the file, the first that is there, holds a picture that
// browsers show (PNG, JPEG, WebP, GIF, AVIF), and has at most 16 MiB; or "". These are the names that ComfyUI takes, of
// which one made for this comes first.
std::filesystem::path picture_of_lora(const OfferedLora& lora);

// Returns the first picture of `ssmd_cover_images` in the metadata of a .safetensors file, a list of pictures in
// base64, which ComfyUI takes where none lies beside the file; or "".
std::string cover_in(const std::map<std::string, std::string>& metadata);

// Reads the metadata of the LoRA's file. Returns "" if it has no cover, or cannot be read.
std::string cover_of_lora(const OfferedLora& lora);

}  // namespace tachy::web_api
