// The keys and values that the transformer makes of speech for every block, once per window.
#pragma once

#include <vector>

#include "models/wan/branches/audio/audio_projection.h"
#include "models/wan/branches/speakers/regions.h"

namespace tachy {

// Keys and values of the audio tokens of a window's latent frames, for every block.
struct WanAudio {
  // [layers, frames·tokens per frame, 2·dim] of the activations' dtype: a token's key and then its value.
  Tensor kv;
  int64_t frames = 0;       // number of latent frames
  WanRegions regions = {};  // of two speakers, whose tokens follow each other in each frame
};

// The speech that the batch items of a pass follow (WanInput::given).
struct WanSpeech {
  static constexpr const char* kName = "speech";
  std::vector<WanAudio> items;
  std::vector<Tensor> tensors() const;
};

// allocate_audio makes room for the audio of a window of `latent_frames`. make_audio fills it once for each
// window, at the same addresses. With undefined states it makes the audio of guidance without speech. For two
// speakers there are two windows, and regions.
WanAudio allocate_audio(const WanDit& dit, int64_t latent_frames, nn::ParamStore& store,
                        const WanRegions& regions = {});
void make_audio(const WanDit& dit, std::span<const AudioWindow> speakers, const WanAudio& audio,
                Stream& stream);
inline void make_audio(const WanDit& dit, const AudioWindow& window, const WanAudio& audio, Stream& stream) {
  make_audio(dit, std::span(&window, 1), audio, stream);
}

}  // namespace tachy
