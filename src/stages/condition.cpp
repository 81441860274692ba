#include "stages/condition.h"

#include <algorithm>
#include <vector>

#include "runtime/run_on_ranks.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

// Copies the picture to where the stream computes.
void put_picture(const Picture& picture, const Tensor& frame, Stream& stream) {
  check(frame.dim(0) == picture.height && frame.dim(1) == picture.width, ErrorCode::internal,
        "image: a picture of {}x{} for frames of {}x{}", picture.width, picture.height, frame.dim(1),
        frame.dim(0));
  upload(pixels_of(picture).data(), frame, stream);
}

// Fills mask [s, T, h, w]: entry s·t + c is pixel frame max(0, s·t + c - (s - 1)).
void fill_mask(const Tensor& mask, bool last) {
  const int64_t s = mask.dim(0), frames = mask.dim(1), plane = mask.dim(2) * mask.dim(3);
  for (int64_t c = 0; c < s; ++c)
    for (int64_t t = 0; t < frames; ++t) {
      const bool known = t == 0 || (last && t == frames - 1 && c == s - 1);
      float* out = mask.as<float>() + (c * frames + t) * plane;
      std::fill(out, out + plane, known ? 1.0f : 0.0f);
    }
}

}  // namespace

std::vector<float> pixels_of(const Picture& picture) {
  std::vector<float> out(picture.rgb.size());
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = 2.0f * (static_cast<float>(picture.rgb[i]) / 255.0f) - 1.0f;
  return out;
}

std::vector<int64_t> condition_dims(const ModelBundle& model, const ResolvedRequest& r) {
  if (!r.pictured) return {};
  if (model.family->image_input == ImageInput::first_frame)
    return {r.latent_channels, 1, r.latent_height, r.latent_width};
  return {model.vae_config.temporal_stride() + r.latent_channels, r.latent_frames, r.latent_height,
          r.latent_width};
}

uint64_t encode_condition(const ModelBundle& model, const VaeEncoder& vae, const ResolvedRequest& r,
                          const Tensor& condition, Stream& stream, runtime::RankTeam* ranks) {
  const bool whole = model.family->image_input == ImageInput::channels;
  const int64_t frames = whole ? r.clip_frames : 1, height = *r.request.height, width = *r.request.width;
  const ArenaScope scope(*stream.arena);
  // Frames come in chunks. Most of them are zeros, so one buffer is enough and only changes are written.
  const Tensor chunk =
      stream.arena->f32({std::min<int64_t>(frames, VaeEncoder::kChunkFrames), height, width, 3});
  const auto source = [&](int64_t first, int64_t count) {
    const Tensor part = chunk.slice(0, 0, count);
    if (stream.measuring()) return part;
    zero(part, stream);
    if (first == 0) put_picture(*r.request.image, part.select(0, 0), stream);
    if (r.request.last_image && first + count == frames)
      put_picture(*r.request.last_image, part.select(0, count - 1), stream);
    return part;
  };
  const int64_t mask = whole ? vae.config().temporal_stride() : 0;
  const Tensor latents = condition.slice(0, mask, condition.dim(0));
  runtime::run_on_rows(ranks, r.latent_height, stream, [&](Stream& own, runtime::Comm* comm) {
    vae.encode({frames, height, width}, source, latents, Tensor(), own, comm,
               {.begin = 1, .end = r.request.last_image ? frames - 1 : frames});
  });
  if (whole) {
    const Tensor known = condition.slice(0, 0, mask);
    std::vector<float> values(static_cast<size_t>(known.numel()));
    fill_mask(Tensor(values.data(), DType::f32, known.shape()), r.request.last_image != nullptr);
    upload(values.data(), known, stream);
  }
  return align_up(vae.state_bytes(height, width, frames, runtime::ranks_of_rows(ranks, r.latent_height)));
}

Tensor image_embeds(const ModelBundle& model, const ResolvedRequest& r) {
  if (!r.request.image_embeds) return {};
  const ImageEmbeds& given = *r.request.image_embeds;
  const int64_t width = model.dit.image_dim;
  return Tensor(const_cast<float*>(given.values.data()), DType::f32,
                {static_cast<int64_t>(given.values.size()) / width, width});
}

}  // namespace tachy
