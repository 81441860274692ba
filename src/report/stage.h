// Runs one stage of the engine on given tensors, named as in diffusers, to compare it with any other
// implementation.
//
//   tokenize       text → input_ids, attention_mask [1, 512] i64
//   text-encoder   input_ids, attention_mask [B, L] → last_hidden_state [B, L, d]
//   transformer    hidden_states [B, C, T, H, W], timestep [B] or [B, tokens], encoder_hidden_states
//                  [B, n, text_dim], encoder_hidden_states_image [B, m, image_dim] (optional) → sample
//                  [B, C_out, T, H, W]; with InfiniteTalk's tensors also audio_embeds [B, frames, layers, d]
//                  for the whole clip (zeros: no speech), and optionally audio_start [1]: the pixel frame
//                  that latent frame 0 shows; for two speakers audio_embeds [B, 2, frames, layers, d] and
//                  speaker_masks [3, rows, columns]: the tokens of a frame that show each of them, and the
//                  background
//   vae-encode     video [B, 3, T, H, W] in [−1, 1] → mean, logvar [B, z, T', h, w]
//   vae-decode     latents [B, z, T', h, w], un-normalised → decoded [B, 3, T, H, W]
//   image-encoder  pixel_values [B, 3, S, S] → image_embeds [B, tokens, d], CLIP's hidden_states[-2]
//   audio-encoder  input_values [1, n] at 16 kHz, optionally shape FRAMES → hidden_states [frames, layers, d]
//                  of wav2vec2's layers 1 to the last; frames: 25 per second, unless they are given
//   rollout        for a model that makes a video block by block (Self-Forcing, Matrix-Game 2): noise
//                  [z, T, h, w] for the frames to come, blocks [n] (latent frames in each), timesteps and
//                  sigmas [steps], fresh [steps - 1, z, T, h, w] (the noise added between steps), window
//                  [frames, sinks, 0 or 1: sinks follow], optionally given [z, n, h, w] (the first blocks),
//                  condition [c, n + T, h, w], encoder_hidden_states [rows, text_dim] or
//                  encoder_hidden_states_image [m, image_dim], keyboard and mouse [pixel frames, d] → latents
//                  [z, T, h, w], velocities [all passes' values, one after the other]
//   sampler        → sigmas [steps + 1], timesteps [steps]
//   noise          seed, shape → noise f32
//   fit-image      a picture's file, stretch or crop, shape H,W → image [H, W, 3] u8, as the VAE gets it
//   image-processor  a picture's file, processor or original → pixel_values [1, 3, S, S] for CLIP; with the
//                  image encoder as model, S and the processor's options are its own, else 224 and the usual
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tachy {

struct ModelBundle;

struct StageRequest {
  std::string name;
  std::filesystem::path model;  // a component's folder (config.json and weights) or a whole model
  // A model whose parts are open already, in place of `model`. `expert` says which of its transformers is
  // meant, 0 or 1.
  const ModelBundle* opened = nullptr;
  int expert = 0;
  std::filesystem::path input;  // .safetensors
  std::filesystem::path out;    // .safetensors
  std::string prompt;           // for tokenize
  int max_text_tokens = 512;
  std::string sampler = "unipc", grid = "diffusers";
  int steps = 50;
  double shift = 5;
  uint64_t seed = 0;  // for noise
  std::vector<int64_t> shape;
  std::string rng = "cpu";
  int rng_multiprocessors = 132;
  std::filesystem::path image;  // for fit-image, image-processor
  std::string image_fit = "stretch";
  std::string clip_preparation = "processor";  // for image-processor: this or "original"
  // For transformer: InfiniteTalk's file, whose tensors are added to the model.
  std::filesystem::path infinitetalk;
  // For transformer: diffusers or original; the default depends on the model's layout.
  std::optional<std::string> sinusoid;
  // The dtype of products, f32 or bf16; on a GPU the dtype of activations, f32, f16 or bf16. "": the level
  // decides.
  std::string dtype;
  // "cuda", "cuda:1", "auto": models run on this GPU; the other stages do not use it.
  std::string device = "cpu";
  bool pack_weights = true;
  std::string level = "safe";  // none, safe, aggressive, extreme (request/level.h)
  int threads = 0;
  const std::atomic<bool>* cancel = nullptr;
};

std::vector<std::string> stage_names();

// Runs the stage and writes request.out. Errors name the stage's tensors.
void run_stage(const StageRequest& request);

}  // namespace tachy
