// The speech stage: the audio encoder turns what each speaker says into states for each frame of the video,
// which the transformer's audio branch hears (models/wav2vec2). As in InfiniteTalk it computes in float32,
// whatever the request's dtype is.
#include <algorithm>

#include "models/wav2vec2/wav2vec2.h"
#include "ops/elementwise/elementwise.h"
#include "session/session.h"
#include "session/stage_clock.h"
#include "stages/stages.h"
#include "tensor/transfer.h"

namespace tachy {
namespace {

// Adds the rows after the last frame, in which speech runs backwards: row L + j is row L - 1 - j, or the
// first one if there are no more.
void fill_behind(const Tensor& states, int64_t frames) {
  const int64_t row = states.numel() / states.dim(0);
  auto* values = states.as<float>();
  for (int64_t i = frames; i < states.dim(0); ++i)
    std::copy_n(values + std::max<int64_t>(2 * frames - 1 - i, 0) * row, row, values + i * row);
}

class SpeechStage final : public Stage {
 public:
  const char* name() const override { return "speech"; }

  uint64_t mapped_bytes(const ModelBundle& model, const Job&) const override {
    return model.audio_encoder->mapped_bytes();
  }

  uint64_t run(Job& job, Session& session) const override {
    StageClock clock(session.callbacks(), "speech", 1);
    const LoadedAudioEncoder& encoder = session.audio_encoder();
    Stream stream = session.stream();
    stream.precision = audio_encoder_precision(stream.precision);
    const ProfileRange range(stream.hooks.profiler, "audio encoder", ProfileKind::group);
    for (int64_t s = 0; s < job.request.speakers(); ++s)
      hear(*encoder.model, s == 0 ? job.request.speech : job.request.speech_2, job.shared.speech.select(0, s),
           job.request.talk.spoken, stream);
    clock.done(1);
    const uint64_t held = session.part_bytes();
    session.give_back(Part::audio_encoder, "after the last pass");
    return held;
  }

 private:
  static void hear(const Wav2Vec2& model, const std::vector<float>& samples, const Tensor& states,
                   int64_t frames, Stream& stream) {
    const Tensor sound(const_cast<float*>(samples.data()), DType::f32,
                       {static_cast<int64_t>(samples.size())});  // the samples are only read
    const Tensor own = states.slice(0, 0, frames);
    const ArenaScope scope(*stream.arena);
    const Tensor made = stream.memory ? stream.arena->f32({frames, states.dim(1), states.dim(2)}) : own;
    model.forward(sound, made, stream);
    check(ops::all_finite(made, stream), ErrorCode::numerical,
          "audio encoder: the result holds NaN or Inf: its weights are damaged");
    if (stream.measuring()) return;
    if (stream.memory) download(made, own.as<float>(), stream);
    fill_behind(states, frames);
  }
};

}  // namespace

std::unique_ptr<Stage> make_speech_stage() { return std::make_unique<SpeechStage>(); }

}  // namespace tachy
