// The tiny image-to-video model of tests/golden/image_pipeline made to talk: an audio branch of random values, and the wav2vec2 of
// tests/golden/wav2vec2.
#pragma once

#include <deque>

#include "image_model.h"
#include "pipelines/part_files.h"
#include "pipelines/speakers.h"
#include "tensor/random.h"

namespace tachy::test {

struct TalkModel {
  TalkModel() {
    const ModelBundle base = ModelBundle::open(image_file("i2v"));
    parts.audio_encoder = golden_path("wav2vec2/base");
    parts.infinitetalk = scratch.path / "infinitetalk.safetensors";
    const Wav2Vec2Config ears = open_audio_encoder(parts.audio_encoder).config;
    const int64_t dim = base.dit.dim(), width = ears.hidden_size, row = ears.num_layers * width;
    constexpr int64_t kHidden = 12, kTokens = 4;
    linear("audio_proj.proj1", 5 * row, kHidden);
    linear("audio_proj.proj1_vf", 8 * row, kHidden);
    linear("audio_proj.proj2", kHidden, kHidden);
    linear("audio_proj.proj3", kHidden, kTokens * width);
    norm("audio_proj.norm", width);
    for (int64_t i = 0; i < base.dit.num_layers; ++i) {
      const std::string block = fmt::format("blocks.{}.", i);
      norm(block + "norm_x", dim);
      linear(block + "audio_cross_attn.q_linear", dim, dim);
      linear(block + "audio_cross_attn.kv_linear", width, 2 * dim);
      linear(block + "audio_cross_attn.proj", dim, dim);
    }
    write_safetensors(parts.infinitetalk, std::move(tensors_));
  }

  ModelBundle open() const { return ModelBundle::open(image_file("i2v"), FileAccess::map, parts); }

  ScratchFolder scratch;
  PartPaths parts;

 private:
  void add(const std::string& name, std::vector<int64_t> dims, float scale, float around = 0) {
    int64_t count = 1;
    for (const int64_t d : dims) count *= d;
    std::vector<float>& values = storage_.emplace_back(static_cast<size_t>(count));
    TorchCpuGenerator(++seed_).normal(values);
    for (float& v : values) v = around + scale * v;
    tensors_.push_back({name, Tensor(values.data(), DType::f32, std::span<const int64_t>(dims))});
  }
  void linear(const std::string& name, int64_t in, int64_t out) {
    add(name + ".weight", {out, in}, 1.5f / std::sqrt(static_cast<float>(in)));
    add(name + ".bias", {out}, 0.1f);
  }
  void norm(const std::string& name, int64_t width) {
    add(name + ".weight", {width}, 0.2f, 1);
    add(name + ".bias", {width}, 0.1f);
  }

  uint64_t seed_ = 0;
  std::deque<std::vector<float>> storage_;
  std::vector<NamedTensor> tensors_;
};

// So many frames of a voice that rises and falls.
inline std::shared_ptr<const Speech> voice(int64_t frames) {
  std::vector<float> samples(static_cast<size_t>(frames * 640 + 100));
  for (size_t i = 0; i < samples.size(); ++i) {
    const double t = static_cast<double>(i) / 16000;
    samples[i] =
        static_cast<float>(0.2 * std::sin(900 * t + 40 * std::sin(3 * t)) * std::abs(std::sin(7 * t)));
  }
  return std::make_shared<Speech>(Speech{std::move(samples)});
}

// Windows of 9 frames that take over 5.
inline VideoRequest talk_request(int64_t frames) {
  VideoRequest r = image_run("i2v_unipc").request;
  r.frames.reset(), r.sampler.reset(), r.shift.reset();
  r.steps = 2, r.guidance = 3, r.audio_guidance = 2;
  r.window_frames = 9, r.motion_frames = 5;
  r.speech = voice(frames);
  return r;
}

inline Result talk(TextToVideo& pipeline, const VideoRequest& request, VideoCallbacks callbacks = {}) {
  Result out;
  ResolvedRequest r = pipeline.resolved(request);
  r.speech = request.speech->samples;  // as the Engine gives it, but for its loudness
  pipeline.generate(pipeline.prepare(std::move(r)), collecting(out, std::move(callbacks)));
  return out;
}

// The second one says something else, and ends earlier.
inline VideoRequest two_talk(int64_t frames) {
  VideoRequest r = talk_request(frames);
  auto other = std::make_shared<Speech>(*r.speech);
  std::ranges::reverse(other->samples);
  other->samples.resize(other->samples.size() - 700);
  r.speech_2 = other;
  return r;
}

// As the Engine completes it, but for loudness: sounds laid in time, and masks of the left and the right part of the tokens.
inline ResolvedRequest complete(const TextToVideo& pipeline, ResolvedRequest r, int64_t left = 0) {
  const WanConfig& c = pipeline.model().dit;
  const int64_t rows = r.latent_height / c.patch_h, columns = r.latent_width / c.patch_w,
                tokens = rows * columns;
  r.speech = r.request.speech->samples, r.speech_2 = r.request.speech_2->samples;
  lay_in_time(*r.request.speakers, r.speech, r.speech_2);
  r.speaker_regions.assign(static_cast<size_t>(3 * tokens), 0);
  for (int64_t t = 0; t < tokens; ++t) {
    const int64_t x = t % columns, of = x < left + 1 ? 0 : x + 1 == columns && t > 0 ? 1 : 2;
    r.speaker_regions[static_cast<size_t>(of * tokens + t)] = 1;
  }
  return r;
}

inline Result talk_of_two(TextToVideo& pipeline, const VideoRequest& request, int64_t left = 0) {
  Result out;
  pipeline.generate(pipeline.prepare(complete(pipeline, pipeline.resolved(request), left)),
                    collecting(out, {}));
  return out;
}

}  // namespace tachy::test
