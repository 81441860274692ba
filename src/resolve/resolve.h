// Fills in and checks every value of a request, for one model.
#pragma once

#include "catalog/model_bundle.h"
#include "request/context_windows.h"
#include "request/gpu_mode.h"

namespace tachy {

// The windows that a request asks for, in latent frames. Throws invalid_argument where neighbours would share all of one.
WindowPlan window_plan(const VideoRequest& request, const ModelBundle& model);

// Fills the request from the model's defaults and checks it.
// Errors name the option, its value and what would work.
// gpu: how a GPU is to compute; null on the CPU.
ResolvedRequest resolve(const ModelBundle& model, const VideoRequest& request, const GpuMode* gpu = nullptr);

}  // namespace tachy
