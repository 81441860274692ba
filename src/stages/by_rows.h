// Runs what the VAE's decoder does on a session's ranks, which divide the rows of the picture: threads of a CPU, or GPUs.
#pragma once

#include <functional>

#include "models/wan_vae/wan_vae.h"
#include "session/session.h"

namespace tachy {

// Computes a rank's part. `comm` is null if there is one rank. The decoder and the stream are the rank's own.
using DecodeRows = std::function<void(const VaeDecoder& vae, Stream& stream, runtime::Comm* comm)>;

// Whether several GPUs share the decoder's work, too: with TACHY_RANK_DECODE=rows. By default the first one decodes,
// since nobody has measured the other way yet.
bool gpus_decode_by_rows();

// Calls body() on as many ranks as there are rows of latents, at most. On GPUs a measuring session takes every rank's
// place in turn, so that the plan has room for the largest share, and counts the work of the first. Throws what
// body() throws; the other ranks then end.
void decode_by_rows(Session& session, int64_t latent_rows, const DecodeRows& body);

// Returns the bytes of state that a decoder of the session holds meanwhile; on GPUs those on the first one.
uint64_t decoder_state_bytes(Session& session, const VaeDecoder& vae, std::span<const int64_t> latent_shape);

}  // namespace tachy
