// A request's sampler in the form that the schedules take.
#pragma once

#include "request/request.h"
#include "samplers/sampler.h"

namespace tachy {

// `request` must be resolved.
SamplerConfig sampler_config(const VideoRequest& request);

}  // namespace tachy
