// The run that a golden folder describes, made by the engine: a clip of a prompt, a talking photo, or a world that is walked through.
#pragma once

#include "catalog/model_bundle.h"
#include "inspect/golden_compare.h"

namespace tachy {

struct GoldenRun {
  TensorFile::Values latents;                  // [z, T, h, w]; of a talking photo the last window's
  std::vector<std::vector<uint8_t>> pictures;  // [height, width, 3] each
  RunPrecision precision;
  int steps_reused = 0;  // by the step cache
};

// run: "run" of golden.json's "generation"; its kind is "clip" (default), "talk" or "world". Files in it lie beside `folder`.
VideoRequest golden_request(const nlohmann::json& run, const std::filesystem::path& folder,
                            const ValidateOptions& options);
// How a clip or a talking photo is computed at the options' level and device.
RunPrecision precision_of(TextToVideo& pipeline, const VideoRequest& request);
GoldenRun run_clip(TextToVideo& pipeline, const nlohmann::json& run, const std::filesystem::path& folder,
                   const std::string& name, const ValidateOptions& options);
GoldenRun run_world(ModelBundle model, const nlohmann::json& run, const std::filesystem::path& folder,
                    const std::string& name, const ValidateOptions& options);

}  // namespace tachy
