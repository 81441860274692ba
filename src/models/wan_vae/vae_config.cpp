#include "models/wan_vae/vae_config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "weights/json_file.h"

namespace tachy {
namespace {

constexpr float kMean21[16] = {-0.7571f, -0.7089f, -0.9113f, 0.1075f,  -0.1745f, 0.9653f,
                               -0.1517f, 1.5508f,  0.4134f,  -0.0715f, 0.5517f,  -0.3632f,
                               -0.1922f, -0.9497f, 0.2503f,  -0.2921f};
constexpr float kStd21[16] = {2.8184f, 1.4541f, 2.3275f, 2.6558f, 1.2196f, 1.7708f, 2.6052f, 2.0743f,
                              3.2687f, 2.1526f, 2.8652f, 1.5579f, 1.6382f, 1.1253f, 2.8251f, 1.9160f};
constexpr float kMean22[48] = {
    -0.2289f, -0.0052f, -0.1323f, -0.2339f, -0.2799f, 0.0174f,  0.1838f,  0.1557f,  -0.1382f, 0.0542f,
    0.2813f,  0.0891f,  0.1570f,  -0.0098f, 0.0375f,  -0.1825f, -0.2246f, -0.1207f, -0.0698f, 0.5109f,
    0.2665f,  -0.2108f, -0.2158f, 0.2502f,  -0.2055f, -0.0322f, 0.1109f,  0.1567f,  -0.0729f, 0.0899f,
    -0.2799f, -0.1230f, -0.0313f, -0.1649f, 0.0117f,  0.0723f,  -0.2839f, -0.2083f, -0.0520f, 0.3748f,
    0.0152f,  0.1957f,  0.1433f,  -0.2944f, 0.3573f,  -0.0548f, -0.1681f, -0.0667f};
constexpr float kStd22[48] = {0.4765f, 1.0364f, 0.4514f, 1.1677f, 0.5313f, 0.4990f, 0.4818f, 0.5013f,
                              0.8158f, 1.0344f, 0.5894f, 1.0901f, 0.6885f, 0.6165f, 0.8454f, 0.4978f,
                              0.5759f, 0.3523f, 0.7135f, 0.6804f, 0.5833f, 1.4146f, 0.8986f, 0.5659f,
                              0.7069f, 0.5338f, 0.4889f, 0.4917f, 0.4069f, 0.4999f, 0.6866f, 0.4093f,
                              0.5709f, 0.6065f, 0.6415f, 0.4944f, 0.5726f, 1.2042f, 0.5458f, 1.6887f,
                              0.3971f, 1.0600f, 0.3943f, 0.5537f, 0.5444f, 0.4089f, 0.7468f, 0.7744f};

constexpr size_t kMaxLevels = 8;
constexpr int64_t kMaxChannels = 1 << 14;

std::vector<bool> read_bools(const nlohmann::json& j, const char* key, std::vector<bool> fallback) {
  const auto it = j.find(key);
  if (it == j.end() || it->is_null()) return fallback;
  check(it->is_array() && it->size() <= kMaxLevels, ErrorCode::corrupt,
        "vae config: expected {} a list of at most {} booleans", key, kMaxLevels);
  std::vector<bool> out;
  for (const auto& value : *it) {
    check(value.is_boolean(), ErrorCode::corrupt, "vae config: expected {} a list of booleans", key);
    out.push_back(value.get<bool>());
  }
  return out;
}

std::vector<float> read_floats(const nlohmann::json& j, const char* key) {
  const std::vector<double> wide = json_doubles(j, key, 4096);
  return {wide.begin(), wide.end()};
}

}  // namespace

bool is_wan_vae(const TensorSource& source) {
  const TensorSource::Entry* input = source.find("decoder.conv_in.weight");
  return input && input->dims.size() == 5 && source.has("decoder.mid_block.resnets.0.conv1.weight");
}

VaeConfig VaeConfig::from_tensors(const TensorSource& source) {
  const TensorSource::Entry* input = source.find("decoder.conv_in.weight");
  check(input && input->dims.size() == 5, ErrorCode::not_found, "vae: no 'decoder.conv_in.weight' in {}",
        source.files_text());
  VaeConfig c = input->dims[1] == 48 ? wan22() : wan21();
  if (!c.is_residual) c.base_dim = c.decoder_base_dim = input->dims[0] / c.dim_mult.back();
  check(
      input->dims[1] == c.z_dim && c.base_dim > 0 && c.base_dim <= kMaxChannels, ErrorCode::unsupported,
      "vae: {}: it decodes latents of {} channels to {}; without a config.json those of Wan 2.1 (16) and 2.2 "
      "(48) are known",
      source.files_text(), input->dims[1], input->dims[0]);
  c.validate();
  return c;
}

VaeConfig VaeConfig::wan21() {
  VaeConfig c;
  c.latents_mean.assign(std::begin(kMean21), std::end(kMean21));
  c.latents_std.assign(std::begin(kStd21), std::end(kStd21));
  return c;
}

VaeConfig VaeConfig::wan22() {
  VaeConfig c;
  c.base_dim = 160;
  c.decoder_base_dim = 256;
  c.z_dim = 48;
  c.is_residual = true;
  c.in_channels = c.out_channels = 12;
  c.patch_size = 2;
  c.latents_mean.assign(std::begin(kMean22), std::end(kMean22));
  c.latents_std.assign(std::begin(kStd22), std::end(kStd22));
  return c;
}

VaeConfig VaeConfig::from_json(const nlohmann::json& j) {
  VaeConfig c;
  c.base_dim = json_int(j, "base_dim", 96, 1, kMaxChannels);
  c.decoder_base_dim = json_int(j, "decoder_base_dim", c.base_dim, 1, kMaxChannels);
  c.z_dim = json_int(j, "z_dim", 16, 1, 4096);
  if (auto mult = json_ints(j, "dim_mult", 1, 64, kMaxLevels); !mult.empty()) c.dim_mult = std::move(mult);
  c.num_res_blocks = json_int(j, "num_res_blocks", 2, 1, 64);
  check(json_doubles(j, "attn_scales", kMaxLevels).empty(), ErrorCode::unsupported,
        "vae config: attn_scales is not supported (no published model has it, the reference cannot run it)");
  c.temporal_downsample = read_bools(j, "temperal_downsample", c.temporal_downsample);
  c.is_residual = json_bool(j, "is_residual", false);
  c.in_channels = json_int(j, "in_channels", 3, 1, 4096);
  c.out_channels = json_int(j, "out_channels", 3, 1, 4096);
  c.patch_size = json_int(j, "patch_size", 1, 1, 16);
  c.latents_mean = read_floats(j, "latents_mean");
  c.latents_std = read_floats(j, "latents_std");
  if (c.z_dim == 16 && c.latents_mean.empty() && c.latents_std.empty()) {  // use the reference's defaults
    c.latents_mean = wan21().latents_mean;
    c.latents_std = wan21().latents_std;
  }
  c.validate();
  return c;
}

void VaeConfig::validate() const {
  const auto steps = static_cast<size_t>(levels() - 1);
  check(temporal_downsample.size() == steps, ErrorCode::unsupported,
        "vae config: expected one temperal_downsample for each of {} level changes, got {}", steps,
        temporal_downsample.size());
  // The reference always encodes four frames at a time, so each chunk must become whole latent frames.
  check(4 % temporal_stride() == 0, ErrorCode::unsupported,
        "vae config: temperal_downsample makes {} frames a latent frame; 1, 2 and 4 are supported",
        temporal_stride());
  for (int64_t mult : dim_mult)
    check(std::max(base_dim, decoder_base_dim) * mult <= kMaxChannels &&
              (is_residual || levels() == 1 || decoder_base_dim * mult % 2 == 0),
          ErrorCode::unsupported, "vae config: expected an even number of channels up to {}, got {} times {}",
          kMaxChannels, decoder_base_dim, mult);
  const int64_t area = patch_size * patch_size;
  check(in_channels % area == 0 && out_channels % area == 0, ErrorCode::corrupt,
        "vae config: in_channels {} and out_channels {} are not multiples of patch_size {} squared",
        in_channels, out_channels, patch_size);
  check(latents_mean.size() == latents_std.size() &&
            (latents_mean.empty() || static_cast<int64_t>(latents_mean.size()) == z_dim),
        ErrorCode::corrupt, "vae config: expected {} latents_mean and latents_std, got {} and {}", z_dim,
        latents_mean.size(), latents_std.size());
  for (size_t i = 0; i < latents_std.size(); ++i)
    check(std::isfinite(latents_mean[i]) && std::isfinite(latents_std[i]) && latents_std[i] > 0,
          ErrorCode::corrupt, "vae config: channel {} has latents_mean {} and latents_std {}", i,
          latents_mean[i], latents_std[i]);
}

int64_t VaeConfig::temporal_stride() const {
  return int64_t{1} << std::count(temporal_downsample.begin(), temporal_downsample.end(), true);
}

int64_t VaeConfig::spatial_stride() const { return patch_size << (levels() - 1); }

int64_t VaeConfig::latent_frames(int64_t frames) const {
  return frames < 1 ? 0 : 1 + (frames - 1) / 4 * (4 / temporal_stride());
}

// Each causal convolution over three frames looks back two frames, at the rate of its level.
int64_t VaeConfig::encoder_past() const {
  int64_t rate = 1, past = 2;  // the past of conv_in
  for (int64_t level = 0; level < levels(); ++level) {
    past += num_res_blocks * 2 * 2 * rate;
    if (level + 1 == levels() || !temporal_downsample[static_cast<size_t>(level)]) continue;
    past += 2 * rate, rate *= 2;
  }
  return past + (2 * 2 * 2 + 2) * rate;  // the two middle blocks, and conv_out
}

int64_t VaeConfig::full_rate_past() const {
  int64_t past = 2;  // as in encoder_past
  for (int64_t level = 0; level + 1 < levels(); ++level) {
    past += num_res_blocks * 2 * 2;
    if (temporal_downsample[static_cast<size_t>(level)]) return past + 2;
  }
  return 0;
}

int64_t VaeConfig::pixel_frames(int64_t latents) const {
  return latents < 1 ? 0 : 1 + (latents - 1) * temporal_stride();
}

}  // namespace tachy
