// The stages for the sound of a talking photo.
#include <algorithm>
#include <memory>

#include "models/wav2vec2/wav2vec2.h"
#include "report/stage_result.h"
#include "report/stage_runners.h"
#include "session/parts.h"

namespace tachy {
namespace {

// speaker_masks is not 0 where a token of a latent frame belongs to the first speaker, the second speaker or
// the background.
std::vector<uint8_t> clip_regions(const Tensor& x, const WanConfig& c, StageIo& io) {
  const Tensor masks = io.input("speaker_masks", 3, 3);
  expect_shape("stage transformer", "speaker_masks", masks, {3, x.dim(3) / c.patch_h, x.dim(4) / c.patch_w});
  expect_dtype("stage transformer", "speaker_masks", masks, DType::f32);
  const std::span<const float> values(masks.as<float>(), static_cast<size_t>(masks.numel()));
  std::vector<uint8_t> out;
  for (const float v : values) out.push_back(v != 0);
  return out;
}

}  // namespace

ClipAudio clip_audio(const Tensor& x, const WanConfig& c, StageIo& io) {
  const int64_t batch = x.dim(0);
  const bool given = io.has("audio_embeds");
  require(given == c.audio_branch(), "stage transformer: {}",
          given ? "audio_embeds given, but the model has no audio branch (`infinitetalk`)"
                : "the model has an audio branch: expected audio_embeds, zeros where there is no speech");
  if (!given) return {};
  ClipAudio out{.states = io.input("audio_embeds", 4, 5)};
  if (out.states.rank == 5) {
    expect_shape("stage transformer", "audio_embeds", out.states,
                 {batch, 2, -1, c.audio_layers, c.audio_dim});
    out.regions = clip_regions(x, c, io);
  } else {
    expect_shape("stage transformer", "audio_embeds", out.states, {batch, -1, c.audio_layers, c.audio_dim});
    out.states = out.states.view({batch, 1, out.states.dim(1), c.audio_layers, c.audio_dim});
  }
  if (!io.has("audio_start")) return out;
  const Tensor start = io.input("audio_start", 1, 1);
  expect_shape("stage transformer", "audio_start", start, {1});
  expect_dtype("stage transformer", "audio_start", start, DType::i64);
  out.start = *start.as<int64_t>();
  require(out.start >= 0 && out.start <= 1 << 24, "stage transformer: audio_start: expected 0 to {}, got {}",
          1 << 24, out.start);
  return out;
}

void run_audio_encoder(const StageRequest& request, StageIo& io) {
  const auto files = part_of<AudioEncoderFiles>(request, open_audio_encoder, [](const ModelBundle& m) {
    return AudioEncoderFiles{m.audio_encoder, m.audio, {}};
  });
  const Wav2Vec2Config& c = files.config;
  const Tensor given = io.input("input_values", 1, 2);
  expect_dtype("stage audio-encoder", "input_values", given, DType::f32);
  require(given.rank == 1 || given.dim(0) == 1,
          "stage audio-encoder: expected one clip of input_values, got {}", given.dim(0));
  const Tensor samples = given.view({-1});
  constexpr double kFrameRate = 25;
  const auto frames_there = [&] {
    return static_cast<int64_t>(static_cast<double>(samples.dim(0)) / Wav2Vec2Config::kSampleRate *
                                kFrameRate);
  };
  const bool told = !request.shape.empty();
  require(!told || (request.shape.size() == 1 && request.shape[0] > 0 && request.shape[0] <= 1 << 24),
          "`shape`: expected a number of frames, got {}", shape_string(request.shape));
  const int64_t frames = told ? request.shape[0] : std::max<int64_t>(frames_there(), 1);
  const Tensor out = io.output("hidden_states", DType::f32, {frames, c.num_layers, c.hidden_size});
  run_planned(stage_run(request), [&](Stream& stream) {
    nn::ParamStore store({.pack_weights = request.pack_weights}, stream);
    const auto model =
        load_component(files.source, "audio encoder", Wav2Vec2::ignorable(),
                       [&](const Scope& scope) { return std::make_unique<Wav2Vec2>(scope, c, store); });
    const StageResult result(out, store);
    model->forward(samples, result.tensor(), stream);
    result.fetch(stream);
  });
}

}  // namespace tachy
