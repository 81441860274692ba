// The stages of a talking photo's sound.
#include <algorithm>
#include <memory>

#include "inspect/stage_result.h"
#include "inspect/stage_runners.h"
#include "models/wav2vec2/wav2vec2.h"
#include "pipelines/parts.h"

namespace tachy {

void run_audio_encoder(const StageRequest& request, StageIo& io) {
  const AudioEncoderFiles files = naming("`model`", [&] { return open_audio_encoder(request.model); });
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
  run_planned(stage_run(request), [&](Stream& stream, bool plan_only) {
    nn::ParamStore store({.plan_only = plan_only, .pack_weights = request.pack_weights}, stream);
    const auto model =
        load_component(files.source, "audio encoder", Wav2Vec2::ignorable(),
                       [&](const Scope& scope) { return std::make_unique<Wav2Vec2>(scope, c, store); });
    const StageResult result(out, store);
    model->forward(samples, result.tensor(), stream);
    result.fetch(stream);
  });
}

}  // namespace tachy
