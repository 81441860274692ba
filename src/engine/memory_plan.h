// Plans a request: a walk in a measuring session gives the exact bytes of every stage, and on a GPU how many
// blocks must stay on the host to keep the run within its limit.
#pragma once

#include "request/stage_plan.h"
#include "session/session.h"

namespace tachy {

struct PlanInput {
  Model* model = nullptr;
  std::shared_ptr<cuda::Gpu> gpu;  // a GPU on which nobody else computes now; null: the CPU
  const Resolved* request = nullptr;
  const Prompts* prompts = nullptr;
  Products vae = Products::as_activations;  // products of the VAE's residual blocks
  const RequestAdapters* adapters = nullptr;
  const std::atomic<bool>* cancel = nullptr;  // ends the planning
  uint64_t room = 0;  // if `gpu` is not the model's (cuda/absent_gpu.h): what a run may take there
};
VideoPlan make_plan(const PlanInput& in);

// Says whether layers that a request needs once may stay on the GPU, provided there is room (Placement::keys_stay).
bool keys_may_stay(const PlanInput& in);
// Sets the limit of a plan that was made earlier to today's. Returns whether the plan is within it.
bool set_budget(const PlanInput& in, VideoPlan& plan);

// Reports once which blocks do not stay on the GPU, unless the caller asked for this.
void report_offload(const VideoPlan& plan, bool asked);

}  // namespace tachy
