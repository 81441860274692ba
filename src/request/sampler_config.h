// A request's sampler as the schedules take it.
#pragma once

#include "request/request.h"
#include "samplers/sampler.h"

namespace tachy {

// request: resolved.
SamplerConfig sampler_config(const VideoRequest& request);

}  // namespace tachy
