// Files in ComfyUI's folders.
#pragma once

#include <filesystem>

#include "workflows/import_graph.h"

namespace tachy::workflows {

// Returns a function that finds a node's file in the folders of ComfyUI 0.3.64 (folder_paths.py) within `models`, such
// as diffusion_models/ and unet/, or in `models` itself, and pictures in `input`. Names are relative and may hold
// folders, with either slash. Names with .. or from the root throw unsupported, missing files not_found.
FindFile files_in(const std::filesystem::path& models, const std::filesystem::path& input);

}  // namespace tachy::workflows
