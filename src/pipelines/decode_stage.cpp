// The decode stage: latents to frames, handed out as they are made.
#include "pipelines/decode_stage.h"

#include <algorithm>
#include <optional>

#include "ops/elementwise/elementwise.h"
#include "pipelines/condition.h"
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

ops::LabStatistics colors_of(const Picture& picture, Stream& stream) {
  std::vector<float> pixels = pixels_of(picture);
  const Tensor x(pixels.data(), DType::f32, {picture.height, picture.width, 3});
  ops::LabStatistics out;
  if (!stream.gpu) return ops::lab_statistics(x, stream);
  run_on_host(stream, [&](Stream& host) { out = ops::lab_statistics(x, host); });
  return out;
}

// In place. Beside a GPU on the host, at about 20 ns a pixel and core: a window of 81 frames of 1024x1024 takes it 1.7 s of one
// core, and a GPU's attention half a minute.
void correct_colors(const Tensor& frames, const FramesOut& out, Stream& stream) {
  if (out.color_correction == 0) return;
  const ProfileRange range(stream.hooks.profiler, "colours", ProfileKind::elementwise);
  ops::MatchColorsArgs args{
      .x = frames, .picture = out.picture, .strength = out.color_correction, .y = frames};
  if (!stream.gpu) return ops::match_colors(args, stream);
  if (stream.measuring()) return;
  std::vector<float> values(static_cast<size_t>(frames.numel()));
  download(frames, values.data(), stream);
  args.x = args.y = Tensor(values.data(), DType::f32, frames.shape());
  run_on_host(stream, [&](Stream& host) { ops::match_colors(args, host); });
  upload(values.data(), frames, stream);
}

FramesOut frames_out(const Job& job, Stream& stream) {
  const TalkWindows& talk = job.request.talk;
  if (talk.frames == 0) return {};
  const int64_t taken_over = talk.taken_over(job.window);
  const double correction = job.request.request.color_correction.value_or(0);
  return {.skip = taken_over,
          .first = talk.first_new(job.window),
          .total = talk.frames,
          .color_correction = correction,
          .picture = correction > 0 ? colors_of(*job.request.request.image, stream) : ops::LabStatistics(),
          .tail = job.window + 1 < talk.count() ? job.shared.tail : Tensor()};
}

// Frames of the clip, from number `first` on, into those of `tail` that they are.
void keep_tail(const Tensor& frames, int64_t first, int64_t total, const Tensor& tail, Stream& stream) {
  if (!tail.defined()) return;
  const int64_t begin = std::max(first, total - tail.dim(0)), end = first + frames.dim(0);
  if (begin >= end) return;
  const int64_t to = begin - (total - tail.dim(0));
  ops::copy({.x = frames.slice(0, begin - first, end - first), .y = tail.slice(0, to, to + end - begin)},
            stream);
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
    decode_frames(vae, job.shared.latents, session.callbacks(), stream, frames_out(job, stream));
    const ResolvedRequest& r = job.request;
    const uint64_t state = align_up(vae.state_bytes(r.latent_height, r.latent_width, r.latent_frames));
    const uint64_t held = session.part_bytes() + state;
    session.give_back(Part::vae_decoder);
    return held;
  }
};

}  // namespace

void decode_frames(const VaeDecoder& vae, const Tensor& latents, const VideoCallbacks* callbacks,
                   Stream& stream, const FramesOut& out) {
  const int64_t clip = vae.config().pixel_frames(latents.dim(1)), total = out.total > 0 ? out.total : clip;
  // Pixels as bytes, four frames at a time.
  const int64_t stride = vae.config().spatial_stride(),
                chunk = std::min(clip, vae.config().temporal_stride());
  const int64_t height = latents.dim(2) * stride, width = latents.dim(3) * stride;
  const ArenaScope scope(*stream.arena);
  const Tensor bytes = stream.arena->tensor(DType::u8, {chunk, height, width, 3});
  std::vector<uint8_t> host(stream.gpu && !stream.measuring() ? static_cast<size_t>(bytes.bytes()) : 0);
  std::optional<StageClock> clock;
  if (!stream.measuring()) clock.emplace(callbacks, "decode", total, out.first);
  vae.decode(
      latents,
      [&](const Tensor& frames, int64_t first) {
        const Tensor rgb = bytes.slice(0, 0, frames.dim(0));
        correct_colors(frames, out, stream);
        ProfileRange part(stream.hooks.profiler, "pixels", ProfileKind::elementwise);
        keep_tail(frames, first, clip, out.tail, stream);
        ops::to_rgb8(frames, rgb, stream);
        if (stream.measuring()) return;
        const uint8_t* pixels = stream.gpu ? host.data() : rgb.as<uint8_t>();
        if (stream.gpu) download(rgb, host.data(), stream);
        part.next("frames out", ProfileKind::output);
        for (int64_t i = 0; i < frames.dim(0); ++i) {
          const int64_t index = first + i - out.skip + out.first;
          if (first + i < out.skip || index >= total || !callbacks || !callbacks->frame) continue;
          callbacks->frame({{pixels + i * height * width * 3, static_cast<size_t>(height * width * 3)},
                            static_cast<int>(width),
                            static_cast<int>(height)},
                           index);
        }
        clock->done(std::min(total, std::max(first + frames.dim(0) - out.skip, int64_t{0}) + out.first));
      },
      stream);
}

std::unique_ptr<Stage> make_decode_stage() { return std::make_unique<DecodeStage>(); }

}  // namespace tachy
