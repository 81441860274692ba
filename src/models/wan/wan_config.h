// Options of a Wan video transformer, from the checkpoint's config.json. This has one of two dialects:
// diffusers' WanTransformer3DModel or the original repository's WanModel.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "models/wan/branches/actions/action_config.h"
#include "models/wan/branches/vace/vace_config.h"

namespace tachy {

// How the time sinusoid is computed: in float32 as diffusers does, or in float64 as the original does. The
// output of a small model differs by 1e-6 to 9e-6 between the two.
enum class Sinusoid { diffusers, original };

Sinusoid parse_sinusoid(std::string_view name);  // "diffusers" or "original"

// Attention that a model was trained with in place of attending to all keys (branches/trained).
enum class TrainedSparse {
  none,
  cubes,   // Video Sparse Attention: cubes of tokens, of which each attends to some and to the means of all
  linear,  // Sparse-Linear Attention: blocks of tokens, and linear attention to everything
};

struct WanConfig {
  int64_t patch_t = 1, patch_h = 2, patch_w = 2;
  int64_t num_heads = 40, head_dim = 128;
  int64_t in_channels = 16, out_channels = 16;
  int64_t text_dim = 4096;  // 0 if the image's tokens are the only context (Matrix-Game 2)
  int64_t freq_dim = 256, ffn_dim = 13824, num_layers = 40;
  bool cross_attn_norm = true;
  float eps = 1e-6f;
  int64_t image_dim = 0;          // > 0: width of the rows from which the image's tokens are made
  int64_t pos_embed_seq_len = 0;  // > 0 in first-last-frame models (two images)
  int64_t rope_max_seq_len = 1024;
  // If audio_dim > 0, the model has InfiniteTalk's audio branch. The sizes come from its tensors
  // (add_audio_branch): the width of an audio token and of the speech encoder's states, how many of the
  // encoder's layers are used, tokens per latent frame, the projection's width.
  int64_t audio_dim = 0, audio_layers = 12, audio_tokens = 32, audio_hidden = 512;
  // For models that make a video block by block: how many latent frames a block looks at, including its own,
  // and how many of them are the first ones. -1 stands for all frames of a clip.
  int64_t window = -1, sinks = 0;
  WanActionConfig actions;
  WanVaceConfig vace;
  TrainedSparse trained = TrainedSparse::none;  // its tensors tell (find_trained_sparse)
  Sinusoid sinusoid = Sinusoid::diffusers;

  int64_t dim() const { return num_heads * head_dim; }
  // Says whether the image's tokens have separate keys and values beside the text's, as in 2.1
  // image-to-video.
  bool image_branch() const { return image_dim > 0 && text_dim > 0; }
  bool audio_branch() const { return audio_dim > 0; }
  // The share of the keys' blocks that a block of queries attends to in published models of this size.
  double trained_share() const;

  bool operator==(const WanConfig&) const = default;

  static WanConfig from_json(const nlohmann::json& config);  // tells the dialect by its keys
};

}  // namespace tachy
