// A model's VAE by itself: frames to latents and latents to frames. Frames come and go one by one, so that a clip of any length
// needs no more memory than its latents and the network's.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "request/request.h"

namespace tachy {

struct VaeOptions {
  int threads = 0;             // 0: all that this process may use
  std::string device = "cpu";  // as choose_device() returns it
  std::string level = "safe";  // as in VideoRequest, and the next two
  std::string dtype;           // "": the level's
  std::string vae_math = "auto";
  bool raw = false;  // latents on the VAE's own scale; otherwise as the denoiser sees them: (x - mean) / std
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(const Progress&)> progress;  // stages "encode" and "decode", in frames
};

class Vae {
 public:
  // model: a whole model's folder, or its VAE's folder or file. Throws not_found and the like, naming the path.
  Vae(const std::filesystem::path& model, VaeOptions options = {});
  ~Vae();
  Vae(Vae&&) noexcept;
  Vae& operator=(Vae&&) noexcept;

  std::string kind() const;         // whose network it is: "wan2.1" or "wan2.2", of any width
  int64_t channels() const;         // z: of latents
  int64_t spatial_stride() const;   // sides of a latent pixel, in pixels: 8; 16 of Wan 2.2's
  int64_t temporal_stride() const;  // frames of each latent frame but the first, which is one frame: 4
  int64_t frames_of(int64_t latent_frames) const;

  struct Clip {
    int64_t frames = 0, height = 0,
            width = 0;  // frames: 1 and a multiple of the stride; sides: multiples of it
  };
  struct Latents {
    std::vector<float> values;
    std::vector<int64_t> shape;  // [z, T, h, w]
  };
  // next fills the frame that comes next, [height, width, 3]. Throws numerical, out_of_memory, cancelled, and what next throws.
  Latents encode(const Clip& clip, const std::function<void(std::span<uint8_t> rgb)>& next) const;

  // Throws invalid_argument for another shape, corrupt for NaN or Inf.
  void check_latents(std::span<const float> values, std::span<const int64_t> shape) const;
  // shape: [z, T, h, w]. Checks them first; frames come in order, in the calling thread.
  void decode(std::span<const float> values, std::span<const int64_t> shape,
              const std::function<void(const RgbImage& image, int64_t index)>& frame) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tachy
