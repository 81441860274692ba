// Runs what the VAE's decoder does on a session's ranks, which divide the rows of the picture: threads of a CPU, or GPUs
// of this process or of several.
#pragma once

#include <functional>

#include "models/wan_vae/wan_vae.h"
#include "session/session.h"

namespace tachy {

// Computes a rank's part. `comm` is null if there is one rank. The decoder and the stream are the rank's own.
using DecodeRows = std::function<void(const VaeDecoder& vae, Stream& stream, runtime::Comm* comm)>;

// Whether several GPUs share the decoder's work, too. TACHY_RANK_DECODE says `rows` or `first`; otherwise they do where
// a frame's work is as much as that of 3,000 latents or more by the published decoders. Neighbours exchange rows some 40
// times for each piece of a decode, in about 60 us each, which a small picture does not earn, nor any between hosts (not `near`).
bool gpus_decode_by_rows(const VaeConfig& config, int64_t rows, int64_t columns, bool near = true);

// The same for a video made block by block, whose frames the GPUs of its passes decode. Returns how many of these do.
int gpus_of_block_rows(const VaeConfig& config, int64_t rows, int64_t columns, int gpus);

// Says whether all processes of the session's crew decode the video, and not the first one alone: those with GPUs do, if
// all are on one host.
bool crew_decodes_by_rows(Session& session, int64_t latent_rows, int64_t latent_columns);

// Calls body() on as many ranks as there are rows of latents, at most. On GPUs a measuring session takes every rank's
// place in turn, so that the plan has room for the largest share, and counts the work of the first. Throws what
// body() throws; the other ranks then end.
void decode_by_rows(Session& session, int64_t latent_rows, int64_t latent_columns, const DecodeRows& body);

// Returns the bytes of state that a decoder of the session holds meanwhile; on GPUs those on the first one.
uint64_t decoder_state_bytes(Session& session, const VaeDecoder& vae, std::span<const int64_t> latent_shape);

}  // namespace tachy
