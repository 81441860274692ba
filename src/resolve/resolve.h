// Fills in and checks every value of a request, for one model.
#pragma once

#include "catalog/model_bundle.h"
#include "request/gpu_mode.h"
#include "resolve/resolved.h"

namespace tachy {

// Fills the request from the model's defaults and checks it. Errors name the option, its value and what would
// work. `gpu` says how a GPU is to compute; it is null on the CPU.
Resolved resolve(const ModelBundle& model, const VideoRequest& request, const GpuMode* gpu = nullptr);

}  // namespace tachy
