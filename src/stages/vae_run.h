// Runs a model's VAE by itself: frames to latents and latents to frames (`tachyscope vae`). Frames come and
// go one by one, so a clip of any length needs no more memory than its latents and the network.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/wan_vae/vae_config.h"
#include "request/request.h"
#include "session/single_run.h"

namespace tachy {

struct VaeRunOptions {
  SingleRun run;
  std::string vae_math = "auto";
  bool raw = false;  // latents on the VAE's own scale; otherwise as the denoiser sees them: (x - mean) / std
  std::function<void(const Progress&)> progress;  // "encode" and "decode", in frames
};

class VaeRun {
 public:
  // `model` is a whole model's folder, or its VAE's. Errors, such as not_found, name the path.
  VaeRun(const std::filesystem::path& model, VaeRunOptions options);
  ~VaeRun();

  const VaeConfig& config() const;
  std::string kind() const;  // names the network: "wan2.1" or "wan2.2", of any width

  struct Clip {
    int64_t frames = 0, height = 0, width = 0;  // 4n + 1 frames; sides are multiples of the spatial stride
  };
  struct Latents {
    std::vector<float> values;
    std::vector<int64_t> shape;  // [z, T, h, w]
  };
  // Fills in the next frame, [height, width, 3].
  using NextFrame = std::function<void(std::span<uint8_t> rgb)>;
  Latents encode(const Clip& clip, const NextFrame& next) const;

  // Throws invalid_argument for another shape, and corrupt for NaN or Inf.
  void check_latents(std::span<const float> values, std::span<const int64_t> shape) const;
  using Frame = std::function<void(const RgbImage& image, int64_t index)>;
  void decode(std::span<const float> values, std::span<const int64_t> shape, const Frame& frame) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tachy
