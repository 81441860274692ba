// The decode stage: latents to frames, handed out as they are made.
#include "pipelines/decode_stage.h"

#include <algorithm>
#include <optional>

#include "ops/elementwise/elementwise.h"
#include "pipelines/session.h"
#include "pipelines/stage_clock.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

void show_latents(const Tensor& latents, const VideoCallbacks* callbacks, Stream& stream) {
  if (!callbacks || !callbacks->latents) return;
  std::vector<float> values(static_cast<size_t>(latents.numel()));
  download(latents, values.data(), stream);
  callbacks->latents(values, latents.shape());
}

class DecodeStage final : public Stage {
 public:
  const char* name() const override { return "decode"; }

  uint64_t mapped_bytes(const ModelBundle& model, const Job&) const override {
    return model.vae->mapped_bytes();
  }

  uint64_t run(Job& job, Session& session) const override {
    Stream& stream = session.stream();
    show_latents(job.shared.latents, session.callbacks(), stream);
    const VaeDecoder& vae = *session.vae_decoder().model;
    const ProfileRange range(stream.hooks.profiler, "decode", ProfileKind::group);
    decode_frames(vae, job.shared.latents, session.callbacks(), stream);
    const ResolvedRequest& r = job.request;
    const uint64_t state = align_up(vae.state_bytes(r.latent_height, r.latent_width, r.latent_frames));
    const uint64_t held = session.part_bytes() + state;
    session.give_back(Part::vae_decoder);
    return held;
  }
};

}  // namespace

void decode_frames(const VaeDecoder& vae, const Tensor& latents, const VideoCallbacks* callbacks,
                   Stream& stream) {
  const int64_t total = vae.config().pixel_frames(latents.dim(1));
  // Pixels as bytes, four frames at a time.
  const int64_t stride = vae.config().spatial_stride(),
                chunk = std::min(total, vae.config().temporal_stride());
  const int64_t height = latents.dim(2) * stride, width = latents.dim(3) * stride;
  const ArenaScope scope(*stream.arena);
  const Tensor bytes = stream.arena->tensor(DType::u8, {chunk, height, width, 3});
  std::vector<uint8_t> host(stream.gpu && !stream.measuring() ? static_cast<size_t>(bytes.bytes()) : 0);
  std::optional<StageClock> clock;
  if (!stream.measuring()) clock.emplace(callbacks, "decode", total);
  vae.decode(
      latents,
      [&](const Tensor& frames, int64_t first) {
        const Tensor rgb = bytes.slice(0, 0, frames.dim(0));
        ProfileRange part(stream.hooks.profiler, "pixels", ProfileKind::elementwise);
        ops::to_rgb8(frames, rgb, stream);
        if (stream.measuring()) return;
        const uint8_t* pixels = stream.gpu ? host.data() : rgb.as<uint8_t>();
        if (stream.gpu) download(rgb, host.data(), stream);
        part.next("frames out", ProfileKind::output);
        for (int64_t i = 0; i < frames.dim(0); ++i)
          if (callbacks && callbacks->frame)
            callbacks->frame({{pixels + i * height * width * 3, static_cast<size_t>(height * width * 3)},
                              static_cast<int>(width),
                              static_cast<int>(height)},
                             first + i);
        clock->done(first + frames.dim(0));
      },
      stream);
}

std::unique_ptr<Stage> make_decode_stage() { return std::make_unique<DecodeStage>(); }

}  // namespace tachy
