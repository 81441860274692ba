// Fills in how a run's self-attention leaves out keys, if it does.
#pragma once

#include "catalog/model_bundle.h"
#include "request/gpu_mode.h"
#include "request/request.h"

namespace tachy {

// `r` is the request with the model's defaults filled in.
void resolve_sparse(const ModelBundle& model, VideoRequest& r, const GpuMode* gpu);

}  // namespace tachy
