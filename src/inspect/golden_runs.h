// Makes the run that a golden folder describes with the engine: a clip from a prompt, a talking photo, or a
// walk through a world.
#pragma once

#include "catalog/model_bundle.h"
#include "inspect/golden_compare.h"

namespace tachy {

struct GoldenRun {
  TensorFile::Values latents;                  // [z, T, h, w]; for a talking photo those of the last window
  std::vector<std::vector<uint8_t>> pictures;  // [height, width, 3] each
  RunPrecision precision;
  int steps_reused = 0;  // number of steps that the step cache saved
};

// `run` is "run" in golden.json's "generation"; its kind is "clip" (default), "talk" or "world". Its files
// are in `folder`.
VideoRequest golden_request(const nlohmann::json& run, const std::filesystem::path& folder,
                            const ValidateOptions& options);
// Returns the precision of a clip or a talking photo at the options' level and on their device.
RunPrecision precision_of(TextToVideo& pipeline, const VideoRequest& request);
GoldenRun run_clip(TextToVideo& pipeline, const nlohmann::json& run, const std::filesystem::path& folder,
                   const std::string& name, const ValidateOptions& options);
GoldenRun run_world(ModelBundle model, const nlohmann::json& run, const std::filesystem::path& folder,
                    const std::string& name, const ValidateOptions& options);

}  // namespace tachy
