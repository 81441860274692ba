#include "worlds/world_condition.h"

#include <algorithm>

#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

namespace tachy {

int64_t world_condition_frames(const VaeConfig& vae, int64_t latent_frames) {
  const int64_t stride = vae.temporal_stride(), distinct = vae.encoder_past() / stride + 2;
  return latent_frames > 0 ? std::min(latent_frames, distinct) : distinct;
}

uint64_t encode_world_condition(const VaeEncoder& vae, const std::vector<float>& picture,
                                const Tensor& channels, Stream& stream) {
  const VaeConfig& c = vae.config();
  const int64_t stride = c.temporal_stride(), frames = c.pixel_frames(channels.dim(1)),
                height = channels.dim(2) * c.spatial_stride(), width = channels.dim(3) * c.spatial_stride();
  const ArenaScope scope(*stream.arena);
  const Tensor chunk =
      stream.arena->f32({std::min<int64_t>(frames, VaeEncoder::kChunkFrames), height, width, 3});
  check(stream.measuring() || picture.size() == static_cast<size_t>(height * width * 3), ErrorCode::internal,
        "image: {} values for a picture of {}x{}", picture.size(), width, height);
  const auto source = [&](int64_t first, int64_t count) {
    const Tensor part = chunk.slice(0, 0, count);
    if (first == 0)
      upload(picture.data(), part, stream);
    else
      zero(part, stream);
    return part;
  };
  const Tensor latents = channels.slice(0, stride, channels.dim(0));
  vae.encode({frames, height, width}, source, latents, Tensor(), stream);
  check(ops::all_finite(latents, stream), ErrorCode::numerical,
        "image: the VAE's encoding of the picture holds NaN or Inf: its weights are damaged");
  const Tensor mask = channels.slice(0, 0, stride);
  std::vector<float> values(static_cast<size_t>(mask.numel()));
  const int64_t plane = mask.dim(2) * mask.dim(3);
  for (int64_t i = 0; i < stride; ++i) std::fill_n(values.begin() + i * mask.dim(1) * plane, plane, 1.0f);
  upload(values.data(), mask, stream);
  return align_up(vae.state_bytes(height, width, frames));
}

}  // namespace tachy
