// Tests the VAE with its residual blocks in e4m3 and int8: how far its frames are from float32's, and that plans,
// pieces and repetitions work as without codes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "wan_vae_golden.h"

namespace tachy::test {
namespace {

const std::string kModels = std::string(TACHY_SOURCE_DIR) + "/models/";

struct Frames {
  std::vector<float> values;
  VaeDecoder::Sink collect() {
    return [this](const Tensor& frames, int64_t) {
      if (frames.device != Device::null)
        values.insert(values.end(), frames.as<float>(), frames.as<float>() + frames.numel());
    };
  }
};

struct How {
  Products products = Products::e4m3;
  int64_t chunk = 1;
  int threads = 2;
  bool normalised = false;
};

// Plans, then decodes in exactly the planned memory.
std::vector<float> decode(const Scope& scope, const VaeConfig& config, const Tensor& latents, How how) {
  Runner runner(how.threads);
  Frames frames;
  Stream plan = runner.measuring();
  plan.precision.products = how.products;
  size_t weights = 0, state = 0;
  {
    const VaeDecoder planned(scope, config, {.normalised = how.normalised}, plan);
    planned.decode(latents, frames.collect(), plan, how.chunk);
    weights = planned.buffer_bytes(),
    state = planned.state_bytes(latents.dim(2), latents.dim(3), latents.dim(1));
  }
  const size_t peak = runner.arena.peak();
  Stream stream = runner.sized(peak);
  stream.precision.products = how.products;
  const size_t before = Buffer::live_bytes();
  const VaeDecoder decoder(scope, config, {.normalised = how.normalised}, stream);
  EXPECT_EQ(Buffer::live_bytes() - before, weights);
  Buffer::reset_peak();
  decoder.decode(latents, frames.collect(), stream, how.chunk);
  EXPECT_EQ(runner.arena.peak(), peak);
  EXPECT_EQ(Buffer::peak_bytes() - before, weights + align_up(state));
  return frames.values;
}

// Returns the PSNR of frames in [−1, 1].
double psnr(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return 10 * std::log10(4.0 * static_cast<double>(a.size()) / squares);
}

struct Sprites {
  std::shared_ptr<TensorSource> source =
      open_safetensors(kModels + "sprites/vae/diffusion_pytorch_model.safetensors");
  VaeConfig config = VaeConfig::from_json(read_json(kModels + "sprites/vae/config.json"));
};

Tensor tensor_of(const TensorSource& file, const std::string& name) {
  const auto* entry = file.find(name);
  return Tensor(const_cast<void*>(entry->data), entry->dtype, entry->dims);
}

// Of videos, 8 bits should keep 40 dB on average and 37 at worst; of noise, which the model was not trained
// on, they keep less.
TEST(WanVaeCodes, FramesOfTheShippedModelHardlyChange) {
  const Sprites sprites;
  const Scope scope(sprites.source);
  struct Clip {
    const char* name;
    double e4m3, int8;
  };
  const Clip clips[] = {{"sprites/golden/generation", 48, 46},
                        {"sprites-fast/golden/generation", 53, 49},
                        {"sprites/golden/vae-encode", 34, 29}};
  for (const auto& [clip, least, in_int8] : clips) {
    const auto file = open_safetensors(kModels + clip + ".safetensors");
    const bool noise = least < 37;
    Tensor latents = tensor_of(*file, noise ? "mean" : "latents");
    if (noise) latents = latents.view({latents.dim(1), latents.dim(2), latents.dim(3), latents.dim(4)});
    const auto plain =
        decode(scope, sprites.config, latents, {.products = Products::as_activations, .normalised = !noise});
    for (const Products products : {Products::e4m3, Products::int8}) {
      const bool int8 = products == Products::int8;
      const auto codes = decode(scope, sprites.config, latents, {.products = products, .normalised = !noise});
      ASSERT_EQ(plain.size(), codes.size());
      const double db = psnr(plain, codes);
      RecordProperty(std::string(clip) + (int8 ? " int8" : ""), fmt::format("{:.2f}", db));
      EXPECT_GE(db, int8 ? in_int8 : least) << clip;
      EXPECT_LE(db, 80) << clip << ": were there any codes?";
    }
  }
}

TEST(WanVaeCodes, LatentsOfTheShippedModelHardlyChange) {
  const Sprites sprites;
  const auto file = open_safetensors(kModels + "sprites/golden/vae-encode.safetensors");
  const Tensor batch = tensor_of(*file, "video"), want = tensor_of(*file, "mean");
  const Tensor video = batch.view({batch.dim(1), batch.dim(2), batch.dim(3), batch.dim(4)});
  std::vector<float> got(static_cast<size_t>(want.numel()));
  const Tensor mean(got.data(), DType::f32, {want.dim(1), want.dim(2), want.dim(3), want.dim(4)});
  Runner runner;
  size_t peak = 0;
  for (const bool measuring : {true, false}) {
    Stream stream = measuring ? runner.measuring() : runner.sized(peak);
    stream.precision.products = Products::e4m3;
    const VaeEncoder encoder(Scope(sprites.source), sprites.config, {.logvar = false}, stream);
    encoder.encode(channels_last_view(video), mean, Tensor(), stream);
    peak = runner.arena.peak();
  }
  double error = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - want.as<float>()[i], 2);
    size += std::pow(static_cast<double>(want.as<float>()[i]), 2);
  }
  RecordProperty("error", fmt::format("{:.2e}", std::sqrt(error / size)));
  EXPECT_LE(std::sqrt(error / size), 0.03);
  EXPECT_GE(std::sqrt(error / size), 1e-4);
}

class Codes : public testing::TestWithParam<const char*> {};

TEST_P(Codes, LatentsOfLargerChunksHaveTheSameBits) {
  VaeCase c(GetParam());
  const int64_t side = 2 * c.config.spatial_stride(), channels = c.config.image_channels(), frames = 21;
  std::vector<float> video(static_cast<size_t>(frames * side * side * channels));
  for (size_t i = 0; i < video.size(); ++i) video[i] = std::sin(0.37f * static_cast<float>(i % 9973));
  const Tensor x(video.data(), DType::f32, {frames, side, side, channels});
  const auto encode = [&](int64_t chunk) {
    std::vector<float> got(static_cast<size_t>(c.config.z_dim * c.config.latent_frames(frames) * 4), NAN);
    const Tensor mean(got.data(), DType::f32, {c.config.z_dim, c.config.latent_frames(frames), 2, 2});
    Runner runner;
    size_t peak = 0;
    for (const bool measuring : {true, false}) {
      Stream stream = measuring ? runner.measuring() : runner.sized(peak);
      stream.precision.products = Products::e4m3;
      const VaeEncoder encoder(Scope(c.source()), c.config, {.logvar = false}, stream);
      const auto source = [&](int64_t first, int64_t count) { return x.slice(0, first, first + count); };
      encoder.encode({frames, side, side}, source, mean, Tensor(), stream, nullptr, {}, chunk);
      peak = runner.arena.peak();
    }
    return got;
  };
  const std::vector<float> want = encode(1);
  for (const int64_t chunk : {2, 3}) EXPECT_EQ(encode(chunk), want) << chunk;
}

// With channels from 8 to 64, some blocks take codes and some do not.
TEST_P(Codes, PiecesThreadsAndRepetitionsGiveTheSameBits) {
  VaeCase c(GetParam());
  const Scope scope(c.source());
  const Tensor latents = c.input("latents");
  const auto whole = decode(scope, c.config, latents, {.chunk = 8});
  const auto same = [&](const std::vector<float>& other) {
    return other.size() == whole.size() && std::memcmp(other.data(), whole.data(), whole.size() * 4) == 0;
  };
  EXPECT_TRUE(same(decode(scope, c.config, latents, {.chunk = 8})));
  EXPECT_TRUE(same(decode(scope, c.config, latents, {.chunk = 1})));
  EXPECT_TRUE(same(decode(scope, c.config, latents, {.chunk = 2, .threads = 3})));
  EXPECT_FALSE(same(decode(scope, c.config, latents, {.products = Products::as_activations})));
  const auto int8 = decode(scope, c.config, latents, {.products = Products::int8, .chunk = 8});
  EXPECT_FALSE(same(int8));
  EXPECT_EQ(int8, decode(scope, c.config, latents, {.products = Products::int8, .chunk = 1, .threads = 3}));
}

INSTANTIATE_TEST_SUITE_P(All, Codes, testing::Values("wan21", "shallow"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tachy::test
