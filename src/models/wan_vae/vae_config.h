// Options of a Wan VAE (diffusers' AutoencoderKLWan), from its config.json. The original layout has no such
// file; its options are wan21() or wan22(), with the width of the tensors.
//
// A latent frame stands for temporal_stride() pixel frames (the first one for a single frame), and a latent
// pixel for spatial_stride()² pixels.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "weights/tensor_source.h"

namespace tachy {

struct VaeConfig {
  int64_t base_dim = 96;
  int64_t decoder_base_dim = 96;
  int64_t z_dim = 16;
  std::vector<int64_t> dim_mult{1, 2, 4, 4};
  int64_t num_res_blocks = 2;
  // One for each change of level; the file spells it temperal_downsample.
  std::vector<bool> temporal_downsample{false, true, true};
  std::vector<float> latents_mean, latents_std;  // [z_dim]; if empty, latents cannot be normalised
  bool is_residual = false;                      // Wan2.2's averaging shortcuts around each block
  int64_t in_channels = 3, out_channels = 3;     // after patchify
  int64_t patch_size = 1;

  static VaeConfig from_json(const nlohmann::json& config);
  // Returns wan21() or wan22(), according to tensors with diffusers' names. Throws `not_found` for other
  // tensors.
  static VaeConfig from_tensors(const TensorSource& source);
  static VaeConfig wan21();
  static VaeConfig wan22();

  // Throws `unsupported` or `corrupt`, with the key. from_json calls it.
  void validate() const;

  int64_t levels() const { return static_cast<int64_t>(dim_mult.size()); }
  int64_t temporal_stride() const;  // 4
  int64_t spatial_stride() const;   // 8; 16 for Wan2.2
  int64_t image_channels() const { return out_channels / (patch_size * patch_size); }
  int64_t latent_frames(int64_t frames) const;  // 1 + ⌊(frames − 1)/4⌋ for 4; a remainder is not encoded
  // Returns on how many earlier frames an encoded latent frame depends (112 for Wan 2.1's shape). After so
  // many equal frames, all latent frames are equal.
  int64_t encoder_past() const;
  // The same for the output of the first layer that halves time; 0 if there is none.
  int64_t full_rate_past() const;
  int64_t pixel_frames(int64_t latents) const;  // 1 + 4(latents − 1)
};

bool is_wan_vae(const TensorSource& source);

}  // namespace tachy
