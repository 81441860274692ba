// The latents with which a run begins.
#pragma once

#include "denoise/noise_source.h"
#include "resolve/resolved.h"
#include "session/stage.h"

namespace tachy {

// Fills shared.latents from the state that a run resumes from, from given latents, or with noise. `noise` makes what it
// draws here before anything else.
void make_first_latents(const Resolved& resolved, const RunState* resume, const Shared& shared,
                        NoiseSource& noise, Stream& stream);

}  // namespace tachy
