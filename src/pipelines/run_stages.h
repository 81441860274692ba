// What TextToVideo's plan and its run share: the tensors between the stages, decoding, and the frame round a
// stage on a device (its arena, its name in errors and in the table of what holds memory).
#pragma once

#include <functional>

#include "pipelines/stages.h"

namespace tachy {

// What lives across stages: text embeddings, the picture's latents, and the latents.
struct Shared {
  Tensor text, negative, condition, latents;
  Shared(const ResolvedRequest& request, const ModelBundle& model, size_t positive, size_t negative_count,
         nn::ParamStore& store);
};

void decode(const VaeDecoder& vae, const Tensor& latents, const VideoCallbacks* callbacks, Stream& stream);

const StagePlan& stage_plan(const VideoPlan& plan, std::string_view name);

// Runs `body` with an arena of the planned size; `stream` has `between` before and after. Errors of a device
// name the stage.
void in_stage(const char* name, const VideoPlan& plan, Stream& stream, Arena& between,
              const std::function<void()>& body);

// Says once which blocks do not stay on the GPU, unless the caller asked for it.
void report_offload(const VideoPlan& plan, bool asked);

}  // namespace tachy
