// ComfyUI's samplers and schedulers by this engine's names.
#pragma once

#include <string>

#include "workflows/node_values.h"

namespace tachy::workflows {

struct Sampling {
  std::string sampler, grid;  // as in a request
  std::string note;           // how it differs from ComfyUI's; "": only by rounding
};

// Reads `sampler_name` and `scheduler` of a node.
Sampling sampling_of(const Values& values, const Node& node);

}  // namespace tachy::workflows
