// What the transformer makes of speech once a window: keys and values for every block; and of where two speakers are in the
// picture, what its blocks find them by.
#include <algorithm>
#include <cmath>

#include "models/wan/dit.h"
#include "nn/adapter_set.h"
#include "ops/elementwise/elementwise.h"
#include "ops/region_rope/region_rope.h"
#include "tensor/transfer.h"

namespace tachy {

namespace {
constexpr int64_t kMostSpeakers = ops::RegionRopeArgs::kSpeakers;
}

WanRegions WanDit::make_regions(std::span<const uint8_t> masks, nn::ParamStore& store) const {
  constexpr int64_t kRegions = ops::RegionRopeArgs::kRegions;
  const auto tokens = static_cast<int64_t>(masks.size()) / kRegions;
  require(tokens > 0 && tokens * kRegions == static_cast<int64_t>(masks.size()),
          "transformer: expected {} masks of regions, got {} values", kRegions, masks.size());
  check(config_.head_dim >= kRegions, ErrorCode::unsupported,
        "transformer: two speakers need heads of at least {} channels, this model's have {}", kRegions,
        config_.head_dim);
  Stream& stream = store.stream();
  const ArenaScope scope(*stream.arena);
  const Tensor made = stream.arena->f32({tokens, config_.num_heads, config_.head_dim});
  WanRegions out{.values = store.allocate(stream.precision.activation, {tokens, config_.dim()})};
  float sizes[kRegions] = {};
  for (int64_t i = 0; i < kRegions * tokens; ++i)
    if (masks[static_cast<size_t>(i)]) ++sizes[i / tokens];
  out.sizes = store.uploaded(sizes, DType::f32, {kRegions});
  make_on_host(stream, {made}, [&](Stream& host, std::span<const Tensor> to) {
    if (host.measuring()) return;
    auto* values = to[0].as<float>();
    std::fill_n(values, to[0].numel(), 0.0f);
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t h = 0; h < config_.num_heads; ++h, values += config_.head_dim)
        for (int64_t m = 0; m < kRegions; ++m)
          values[m] = masks[static_cast<size_t>(m * tokens + t)] ? 1.0f : 0.0f;
  });
  ops::copy({.x = made.view({tokens, config_.dim()}), .y = out.values}, stream);
  return out;
}

WanAudio WanDit::allocate_audio(int64_t latent_frames, nn::ParamStore& store,
                                const WanRegions& regions) const {
  require(config_.audio_branch(),
          "transformer: speech given, but the model has no audio branch (InfiniteTalk's tensors)");
  const int64_t tokens = latent_frames * config_.audio_tokens * (regions.defined() ? kMostSpeakers : 1);
  return {.kv = store.allocate(store.stream().precision.activation,
                               {config_.num_layers, tokens, 2 * config_.dim()}),
          .frames = latent_frames,
          .regions = regions};
}

void WanDit::make_audio(std::span<const AudioWindow> speakers, const WanAudio& audio, Stream& stream) const {
  expect_same_weights("transformer", precision_, stream.precision);
  nn::expect_own_adapters("transformer", stream, *linears_);
  const auto count = static_cast<int64_t>(speakers.size());
  require(count == (audio.regions.defined() ? kMostSpeakers : 1),
          "transformer: the speech of {} speakers given, {} are in the picture", count,
          audio.regions.defined() ? kMostSpeakers : 1);
  const ArenaScope scope(*stream.arena);
  const int64_t row = config_.audio_tokens * config_.audio_dim;
  // A frame's tokens lie together, speaker after speaker.
  const Tensor tokens = stream.arena->tensor(stream.precision.activation, {audio.frames, count, row});
  for (int64_t s = 0; s < count; ++s) {
    const ArenaScope one(*stream.arena);
    const Tensor made = stream.arena->f32({audio.frames * config_.audio_tokens, config_.audio_dim});
    make_on_host(stream, {made}, [&](Stream& host, std::span<const Tensor> to) {
      audio_(speakers[static_cast<size_t>(s)], audio.frames, to[0], host);
    });
    ops::copy({.x = made.view({audio.frames, row}), .y = tokens.select(1, s)}, stream);
  }
  const Tensor all = tokens.view({audio.frames * count * config_.audio_tokens, config_.audio_dim});
  each_block([&](const WanBlock& block, int64_t i) { block.audio_keys(all, audio.kv.select(0, i), stream); });
  if (audio.regions.defined()) place_speakers(audio, stream);
}

// Keys of the first speaker at the middle of what its tokens of the picture may have, those of the second likewise.
void WanDit::place_speakers(const WanAudio& audio, Stream& stream) const {
  const int64_t half = config_.head_dim / 2, each = config_.audio_tokens, rows = audio.kv.dim(1);
  const ArenaScope scope(*stream.arena);
  const Tensor cos = stream.arena->f32({rows, half}), sin = stream.arena->f32({rows, half});
  make_on_host(stream, {cos, sin}, [&](Stream& host, std::span<const Tensor> to) {
    if (host.measuring()) return;
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t i = 0; i < half; ++i) {
        const double angle =
            ops::RegionRopeArgs::kOfKeys[t / each % kMostSpeakers] *
            std::pow(ops::RegionRopeArgs::kTheta, -static_cast<double>(i) / static_cast<double>(half));
        to[0].as<float>()[t * half + i] = static_cast<float>(std::cos(angle));
        to[1].as<float>()[t * half + i] = static_cast<float>(std::sin(angle));
      }
  });
  for (int64_t i = 0; i < config_.num_layers; ++i)
    blocks_[static_cast<size_t>(i)].place_audio_keys(audio.kv.select(0, i), cos, sin, stream);
}

void WanDit::expect_audio(const WanInput& in) const {
  const WanConfig& c = config_;
  require(c.audio_branch() || in.audio.empty(),
          "transformer: speech given, but the model has no audio branch");
  if (!c.audio_branch()) return;
  const int64_t batch = in.latents.dim(0), frames = in.grid->frames;
  require(static_cast<int64_t>(in.audio.size()) == batch,
          "transformer: the model has an audio branch: expected the speech of {} batch items, got {}", batch,
          in.audio.size());
  // Attention is for each frame by itself, so a frame's tokens must lie together.
  check(c.patch_t == 1 && in.grid->places.empty(), ErrorCode::unsupported,
        "transformer: the audio branch needs tokens in the order of their frames: no block-sparse attention");
  for (const WanAudio* audio : in.audio) {
    const bool two = audio->regions.defined();
    expect_shape("transformer", "audio keys and values", audio->kv,
                 {c.num_layers, frames * c.audio_tokens * (two ? kMostSpeakers : 1), 2 * c.dim()});
    if (two)
      expect_shape("transformer", "regions", audio->regions.values,
                   {in.grid->rows * in.grid->columns, c.dim()});
  }
}

}  // namespace tachy
