// The functions that run the stages listed in stage.h.
#pragma once

#include "report/stage_io.h"

namespace tachy {

struct WanConfig;

// Defined in stage_models.cpp.
void run_text_encoder(const StageRequest& request, StageIo& io);
void run_transformer(const StageRequest& request, StageIo& io);
void run_vae_encode(const StageRequest& request, StageIo& io);
void run_vae_decode(const StageRequest& request, StageIo& io);
void run_image_encoder(const StageRequest& request, StageIo& io);

// Defined in stage_causal.cpp.
void run_rollout(const StageRequest& request, StageIo& io);

// stage_audio.cpp defines these. ClipAudio is the speech input of a model with an audio branch.
struct ClipAudio {
  Tensor states;                 // [B, speakers, frames, layers, width]
  std::vector<uint8_t> regions;  // for two speakers, in the form that make_regions takes
  int64_t start = 0;
};
ClipAudio clip_audio(const Tensor& hidden_states, const WanConfig& config, StageIo& io);
void run_audio_encoder(const StageRequest& request, StageIo& io);

// Defined in stage_host.cpp.
void run_tokenize(const StageRequest& request, StageIo& io);
void run_sampler(const StageRequest& request, StageIo& io);
void run_noise(const StageRequest& request, StageIo& io);
void run_fit_image(const StageRequest& request, StageIo& io);
void run_image_processor(const StageRequest& request, StageIo& io);

}  // namespace tachy
