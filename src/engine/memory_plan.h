// The plan of a request: exact bytes of every stage by a walk in a measuring session, and on a GPU how many
// blocks must stay on the host for it to keep within what it may take.
#pragma once

#include "request/stage_plan.h"
#include "session/session.h"

namespace tachy {

struct PlanInput {
  Model* model = nullptr;
  std::shared_ptr<cuda::Gpu> gpu;  // on which nobody computes meanwhile; null: none
  const Resolved* request = nullptr;
  const Prompts* prompts = nullptr;
  Products vae = Products::as_activations;  // of the VAE's residual blocks
  const RequestAdapters* adapters = nullptr;
  uint64_t room = 0;  // of a `gpu` that is not the model's (cuda/absent_gpu.h): what a run may take there
};
VideoPlan make_plan(const PlanInput& in);

// Says once which blocks do not stay on the GPU, unless the caller asked for it.
void report_offload(const VideoPlan& plan, bool asked);

}  // namespace tachy
