#include "api/vae.h"

#include "stages/vae_run.h"

namespace tachy {

struct Vae::State {
  VaeRun run;
};

Vae::Vae(const std::filesystem::path& model, VaeOptions options)
    : state_(new State{VaeRun(model, {.run = {.threads = options.threads,
                                              .device = std::move(options.device),
                                              .level = std::move(options.level),
                                              .dtype = std::move(options.dtype),
                                              .cancel = options.cancel},
                                      .vae_math = std::move(options.vae_math),
                                      .raw = options.raw,
                                      .progress = std::move(options.progress)})}) {}
Vae::~Vae() = default;
Vae::Vae(Vae&&) noexcept = default;
Vae& Vae::operator=(Vae&&) noexcept = default;

std::string Vae::kind() const { return state_->run.kind(); }
int64_t Vae::channels() const { return state_->run.config().z_dim; }
int64_t Vae::spatial_stride() const { return state_->run.config().spatial_stride(); }
int64_t Vae::temporal_stride() const { return state_->run.config().temporal_stride(); }
int64_t Vae::frames_of(int64_t latent_frames) const {
  return state_->run.config().pixel_frames(latent_frames);
}

Vae::Latents Vae::encode(const Clip& clip, const std::function<void(std::span<uint8_t> rgb)>& next) const {
  VaeRun::Latents made = state_->run.encode({clip.frames, clip.height, clip.width}, next);
  return {std::move(made.values), std::move(made.shape)};
}

void Vae::check_latents(std::span<const float> values, std::span<const int64_t> shape) const {
  state_->run.check_latents(values, shape);
}

void Vae::decode(std::span<const float> values, std::span<const int64_t> shape,
                 const std::function<void(const RgbImage& image, int64_t index)>& frame) const {
  state_->run.decode(values, shape, frame);
}

}  // namespace tachy
