// The denoise stage of a request that is made block by block (`block`).
#pragma once

#include "denoise/causal_denoiser.h"
#include "samplers/sampler.h"
#include "session/session.h"

namespace tachy {

std::unique_ptr<CausalDenoiser> make_causal_denoiser(const Job& job, Session& session,
                                                     const Sampler& sampler);

// From the noise in the job's latents to what they show, in place; each block's frames leave before the next one begins.
// Returns the bytes of Buffers that it held, with those of the parts, but without the denoiser's.
uint64_t denoise_blocks(const Job& job, Session& session, const Sampler& sampler, CausalDenoiser& denoiser);

}  // namespace tachy
