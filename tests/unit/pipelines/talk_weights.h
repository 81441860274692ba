// The parts that make the tiny image-to-video model of tests/golden/image_pipeline talk: an audio branch with
// random values, in a file like InfiniteTalk's, and the wav2vec2 of tests/golden/wav2vec2.
#pragma once

#include <cmath>
#include <deque>
#include <fstream>

#include "catalog/model_bundle.h"
#include "catalog/part_files.h"
#include "tensor/random.h"
#include "weights/safetensors.h"

namespace tachy::test {

class TalkWeights {
 public:
  // Writes the branch into this folder.
  explicit TalkWeights(const std::filesystem::path& folder) {
    const std::string golden = std::string(TACHY_SOURCE_DIR) + "/tests/golden/";
    const ModelBundle base = ModelBundle::open(golden + "image_pipeline/i2v");
    parts.audio_encoder = golden + "wav2vec2/base";
    parts.infinitetalk = folder / "infinitetalk.safetensors";
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

// Returns this many frames of a voice that rises and falls.
inline std::vector<float> voice_samples(int64_t frames) {
  std::vector<float> samples(static_cast<size_t>(frames * 640 + 100));
  for (size_t i = 0; i < samples.size(); ++i) {
    const double t = static_cast<double>(i) / 16000;
    samples[i] =
        static_cast<float>(0.2 * std::sin(900 * t + 40 * std::sin(3 * t)) * std::abs(std::sin(7 * t)));
  }
  return samples;
}

// Writes such a voice as a wave file of one channel at 16 kHz.
inline void write_voice(const std::filesystem::path& path, int64_t frames) {
  std::string data;
  for (const float v : voice_samples(frames)) {
    const auto sample = static_cast<int16_t>(std::lround(v * 32767));
    data.append(reinterpret_cast<const char*>(&sample), 2);
  }
  const auto size = static_cast<uint32_t>(data.size());
  const auto u32 = [](uint32_t v) { return std::string(reinterpret_cast<const char*>(&v), 4); };
  std::ofstream(path, std::ios::binary)
      << "RIFF" << u32(36 + size) << "WAVEfmt " << u32(16) << u32(1 | 1 << 16) << u32(16000) << u32(32000)
      << u32(2 | 16 << 16) << "data" << u32(size) << data;
}

}  // namespace tachy::test
