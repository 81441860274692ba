#include "models/wan/branches/audio/audio.h"

#include "models/wan/branches/audio/audio_branch.h"
#include "models/wan/branches/speakers/speakers_branch.h"
#include "models/wan/dit.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/transfer.h"

namespace tachy {

std::vector<Tensor> WanSpeech::tensors() const {
  std::vector<Tensor> all;
  for (const WanAudio& audio : items)
    for (const Tensor& t : {audio.kv, audio.regions.values, audio.regions.sizes}) all.push_back(t);
  return all;
}

WanAudio allocate_audio(const WanDit& dit, int64_t latent_frames, nn::ParamStore& store,
                        const WanRegions& regions) {
  const WanConfig& c = dit.config();
  require(c.audio_branch(),
          "transformer: speech given, but the model has no audio branch (InfiniteTalk's tensors)");
  const int64_t tokens = latent_frames * c.audio_tokens * (regions.defined() ? kMostSpeakers : 1);
  return {.kv = store.allocate(store.stream().precision.activation, {c.num_layers, tokens, 2 * c.dim()}),
          .frames = latent_frames,
          .regions = regions};
}

void make_audio(const WanDit& dit, std::span<const AudioWindow> speakers, const WanAudio& audio,
                Stream& stream) {
  dit.expect_own(stream);
  const WanConfig& c = dit.config();
  const auto& branch = *dit.branch<AudioBranch>();
  const auto count = static_cast<int64_t>(speakers.size());
  require(count == (audio.regions.defined() ? kMostSpeakers : 1),
          "transformer: the speech of {} speakers given, {} are in the picture", count,
          audio.regions.defined() ? kMostSpeakers : 1);
  const ArenaScope scope(*stream.arena);
  const int64_t row = c.audio_tokens * c.audio_dim;
  // The tokens of a frame are adjacent, those of the first speaker before those of the second.
  const Tensor tokens = stream.arena->tensor(stream.precision.activation, {audio.frames, count, row});
  for (int64_t s = 0; s < count; ++s) {
    const ArenaScope one(*stream.arena);
    const Tensor made = stream.arena->f32({audio.frames * c.audio_tokens, c.audio_dim});
    make_on_host(stream, {made}, [&](Stream& host, std::span<const Tensor> to) {
      branch.projection()(speakers[static_cast<size_t>(s)], audio.frames, to[0], host);
    });
    ops::copy({.x = made.view({audio.frames, row}), .y = tokens.select(1, s)}, stream);
  }
  const Tensor all = tokens.view({audio.frames * count * c.audio_tokens, c.audio_dim});
  dit.each_block([&](int64_t i) { branch.make_keys(i, all, audio.kv.select(0, i), stream); });
  if (audio.regions.defined()) place_speakers(c, audio.kv, c.audio_tokens, stream);
}

}  // namespace tachy
