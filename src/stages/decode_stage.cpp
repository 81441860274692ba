// The decode stage turns latents into frames and hands them out as they are made.
#include "stages/decode_stage.h"

#include <algorithm>
#include <optional>

#include "ops/elementwise/elementwise.h"
#include "session/stage_clock.h"
#include "stages/by_rows.h"
#include "stages/frame_colors.h"
#include "stages/late_frames.h"
#include "stages/stages.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

void show_latents(const Tensor& latents, const VideoCallbacks* callbacks, Stream& stream) {
  if (!callbacks || !callbacks->latents) return;
  std::vector<float> values(static_cast<size_t>(latents.numel()));
  download(latents, values.data(), stream);
  callbacks->latents(values, latents.shape());
}

// References are latent frames before the clip's, and no part of the video.
Tensor without_references(const Job& job, Stream& stream) {
  const Tensor& all = job.shared.latents;
  const int64_t before = job.request.control.references;
  if (before == 0) return all;
  const Tensor out = stream.arena->f32({all.dim(0), all.dim(1) - before, all.dim(2), all.dim(3)});
  ops::copy({.x = all.slice(1, before, all.dim(1)), .y = out}, stream);
  return out;
}

// Frames as bytes, in the arena: at most as many at a time as `chunk` latent frames give. They are float32 there if the
// host makes their bytes.
class Pixels {
 public:
  Pixels(const VaeConfig& c, const Tensor& latents, int64_t frames, int64_t chunk, bool to_host, DType dtype,
         Stream& stream)
      : height_(latents.dim(2) * c.spatial_stride()),
        width_(latents.dim(3) * c.spatial_stride()),
        count_(std::min(frames, chunk * c.temporal_stride())),
        dtype_(dtype),
        all_(stream.arena->tensor(DType::u8,
                                  {(count_ * height_ * width_ * 3 * dtype_size(dtype) + 3) / 4 * 4 + 4})),
        bytes_(all_.data, dtype, {count_, height_, width_, 3}, all_.device),
        host_(to_host && stream.gpu && !stream.measuring() ? static_cast<size_t>(bytes_.bytes()) : 0) {}

  const Tensor& all() const { return all_; }  // as LateFrames takes it
  Tensor made(const Tensor& frames, Stream& stream) const {
    const Tensor rgb = bytes_.slice(0, 0, frames.dim(0));
    const ProfileRange part(stream.hooks.profiler, "pixels", ProfileKind::elementwise);
    if (dtype_ == DType::u8)
      ops::to_rgb8(frames, rgb, stream);
    else
      ops::copy({.x = frames, .y = rgb}, stream);
    return rgb;
  }
  // Views what made() returned for `count` frames, where it has been copied to.
  Tensor there(void* data, int64_t count) const { return Tensor(data, dtype_, {count, height_, width_, 3}); }

  // Calls take(image, i) for the i-th of `frames` [n, H, W, 3] f32.
  template <class Take>
  void hand_out(const Tensor& frames, Stream& stream, Take&& take) const {
    const Tensor rgb = made(frames, stream);
    if (stream.measuring()) return;
    const uint8_t* pixels = stream.gpu ? host_.data() : rgb.as<uint8_t>();
    ProfileRange part(stream.hooks.profiler, "copy to host", ProfileKind::output);
    if (stream.gpu) download(rgb, host_.data(), stream);
    part.next("frames out", ProfileKind::output);
    images(pixels, frames.dim(0), take);
  }
  template <class Take>
  void images(const uint8_t* pixels, int64_t count, Take&& take) const {
    const int64_t each = height_ * width_ * 3;
    for (int64_t i = 0; i < count; ++i)
      take({{pixels + i * each, static_cast<size_t>(each)},
            static_cast<int>(width_),
            static_cast<int>(height_)},
           i);
  }

  // Calls take(frames) with frames `begin` to `end` of `frames`, which stay where they are.
  template <class Take>
  void leave(const Tensor& frames, int64_t begin, int64_t end, Stream& stream, Take&& take) const {
    const Tensor rgb = made(frames, stream);
    if (stream.measuring() || begin >= end) return;
    if (stream.gpu) stream.memory->synchronize();
    take(DeviceFrames{.rgb = rgb.as<uint8_t>() + begin * height_ * width_ * 3,
                      .gpu = stream.gpu ? stream.device().index : -1,
                      .width = static_cast<int>(width_),
                      .height = static_cast<int>(height_),
                      .count = end - begin});
  }

 private:
  int64_t height_, width_, count_;
  DType dtype_;
  Tensor all_, bytes_;
  mutable std::vector<uint8_t> host_;
};

class DecodeStage final : public Stage {
 public:
  explicit DecodeStage(FramesOutOf out) : out_(out) {}
  const char* name() const override { return "decode"; }

  uint64_t mapped_bytes(const ModelBundle& model, const Job&) const override {
    return model.vae->mapped_bytes();
  }

  uint64_t run(Job& job, Session& session) const override {
    Stream& stream = session.stream();
    const ArenaScope scope(*stream.arena);
    const Tensor latents = without_references(job, stream);
    show_latents(latents, session.callbacks(), stream);
    const VaeDecoder& vae = *session.vae_decoder().model;
    const ProfileRange range(stream.hooks.profiler, "decode", ProfileKind::group);
    decode_frames(session, latents, out_ ? out_(job, stream) : FramesOut());
    const uint64_t held = session.part_bytes() + decoder_state_bytes(session, vae, latents.shape());
    session.give_back(Part::vae_decoder);
    return held;
  }

 private:
  FramesOutOf out_;
};

// Shows the latents of a video whose frames have been handed out already.
class LatentsStage final : public Stage {
 public:
  const char* name() const override { return "decode"; }
  uint64_t mapped_bytes(const ModelBundle&, const Job&) const override { return 0; }
  uint64_t run(Job& job, Session& session) const override {
    show_latents(job.shared.latents, session.callbacks(), session.stream());
    return 0;
  }
};

// Decodes `chunk` latent frames at a time. Calls run(body), where body(vae, stream, comm) decodes on a stream; `stream`
// is the first rank's. If there are `slots`, a device, or the first of several, queues the whole clip, and frames leave
// the device meanwhile.
template <class Run>
void decode_clip(const VaeConfig& config, const Tensor& latents, const VideoCallbacks* callbacks,
                 Stream& stream, const FramesOut& out, int64_t chunk, PinnedSlots* slots, const Run& run) {
  const int64_t clip = config.pixel_frames(latents.dim(1)), total = out.total > 0 ? out.total : clip;
  const ArenaScope scope(*stream.arena);
  const bool left = callbacks && callbacks->device_frames;
  const bool may_be_late = slots && !left && StreamingMemory::of(stream.memory);
  const bool colored_late = may_be_late && out.color_correction != 0;
  const Pixels pixels(config, latents, clip, chunk, !may_be_late && !left,
                      colored_late ? DType::f32 : DType::u8, stream);
  LateColors colors(out, clip);
  std::optional<StageClock> clock;
  if (!stream.measuring()) clock.emplace(callbacks, "decode", total, out.first);
  const auto done = [&](int64_t first, int64_t count) {
    clock->done(std::min(total, std::max(first + count - out.skip, int64_t{0}) + out.first));
  };
  const auto show = [&](int64_t first) {
    return [&, first](const RgbImage& image, int64_t i) {
      const int64_t index = first + i - out.skip + out.first;
      if (first + i < out.skip || index >= total || !callbacks || !callbacks->frame) return;
      callbacks->frame(image, index);
    };
  };
  const auto hand_out = [&](const Tensor& decoded, int64_t first, Stream& own, LateFrames* late) {
    const ArenaScope of_frames(*own.arena);
    if (colored_late) {
      pixels.made(decoded, own);
      if (late) late->fetch(first, decoded.dim(0));
      return;
    }
    const Tensor frames = correct_colors(decoded, out, own);
    keep_tail(frames, first, clip, out.tail, own);
    const int64_t index_of_first = first - out.skip + out.first, count = frames.dim(0);
    if (left) {
      const int64_t begin = std::max(out.skip - first, int64_t{0});
      pixels.leave(frames, begin, std::min(count, total - index_of_first), own, [&](DeviceFrames now) {
        now.first = index_of_first + begin;
        callbacks->device_frames(now);
      });
    } else if (late) {
      pixels.made(frames, own);
      return late->fetch(first, count);
    } else {
      pixels.hand_out(frames, own, show(first));
    }
    if (!own.measuring()) done(first, count);
  };
  run([&](const VaeDecoder& vae, Stream& own, runtime::Comm* comm) {
    std::optional<LateFrames> late;
    const Tensor mark = may_be_late ? LateFrames::mark_of(pixels.all()) : Tensor();
    if (mark.defined() && !own.measuring() && (!comm || comm->rank() == 0))
      late.emplace(pixels.all(), *slots, own, [&](uint8_t* there, int64_t first, int64_t count) {
        const Tensor frames = pixels.there(there, count);
        pixels.images(colored_late ? colors.bytes_of(frames, own) : there, count, show(first));
        if (colored_late) colors.keep_tail_of(frames, first, own);
        done(first, count);
      });
    vae.decode(
        latents,
        [&](const Tensor& decoded, int64_t first) { hand_out(decoded, first, own, late ? &*late : nullptr); },
        own, chunk, comm, mark);
    if (late) late->hand_out_all();
  });
}

}  // namespace

void decode_frames(const VaeDecoder& vae, const Tensor& latents, const VideoCallbacks* callbacks,
                   Stream& stream, const FramesOut& out) {
  decode_clip(vae.config(), latents, callbacks, stream, out, 1, nullptr,
              [&](const DecodeRows& body) { body(vae, stream, nullptr); });
}

void decode_frames(Session& session, const Tensor& latents, const FramesOut& out) {
  decode_clip(session.vae_decoder().model->config(), latents, session.callbacks(), session.stream(), out,
              session.placement().vae_latents, &session.frame_slots(),
              [&](const DecodeRows& body) { decode_by_rows(session, latents.dim(2), latents.dim(3), body); });
}

std::unique_ptr<Stage> make_decode_stage(FramesOutOf out) { return std::make_unique<DecodeStage>(out); }

std::unique_ptr<Stage> make_latents_stage() { return std::make_unique<LatentsStage>(); }

}  // namespace tachy
