// A model's VAE by itself: turns frames into latents and latents into frames. Frames come and go one by one,
// so that a clip of any length needs no more memory than its latents and the network do.
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
  int threads = 0;             // 0: as many as this process may use
  std::string device = "cpu";  // as choose_device() returns it
  std::string level = "safe";  // as in VideoRequest, like the next two members
  std::string dtype;           // "": the level decides
  std::string vae_math = "auto";
  bool raw = false;  // latents on the VAE's own scale; otherwise as the denoiser sees them: (x - mean) / std
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(const Progress&)> progress;  // stages "encode" and "decode", in frames
};

class Vae {
 public:
  // `model` is the folder of a whole model, or the folder or file of its VAE. Errors, such as not_found,
  // name the path.
  Vae(const std::filesystem::path& model, VaeOptions options = {});
  ~Vae();
  Vae(Vae&&) noexcept;
  Vae& operator=(Vae&&) noexcept;

  std::string kind() const;         // which network it is, of any width: "wan2.1" or "wan2.2"
  int64_t channels() const;         // z, the channels of latents
  int64_t spatial_stride() const;   // side of a latent pixel in pixels: 8, or 16 for Wan 2.2
  int64_t temporal_stride() const;  // frames in each latent frame: 4; the first latent frame has only one
  int64_t frames_of(int64_t latent_frames) const;

  struct Clip {
    // `frames` is 1 plus a multiple of the temporal stride; the sides are multiples of the spatial stride.
    int64_t frames = 0, height = 0, width = 0;
  };
  struct Latents {
    std::vector<float> values;
    std::vector<int64_t> shape;  // [z, T, h, w]
  };
  // `next` fills in the next frame, [height, width, 3]. Throws numerical, out_of_memory, cancelled, and what
  // `next` throws.
  Latents encode(const Clip& clip, const std::function<void(std::span<uint8_t> rgb)>& next) const;

  // Throws invalid_argument for a wrong shape, and corrupt for NaN or Inf.
  void check_latents(std::span<const float> values, std::span<const int64_t> shape) const;
  // Decodes latents of `shape` [z, T, h, w]. Checks them first; frames come in order, in the calling thread.
  void decode(std::span<const float> values, std::span<const int64_t> shape,
              const std::function<void(const RgbImage& image, int64_t index)>& frame) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tachy
