// VaeEncoder is compared with diffusers (float64); its plan and its refusals are tested, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "wan_vae_golden.h"

namespace tachy::test {
namespace {

struct Moments {
  Named mean, logvar;
};

// Plans, then runs in exactly the planned memory. `video` is [T, H, W, C] with any strides.
Moments encode(VaeCase& c, const Tensor& video, VaeEncoderOptions options, int threads = 2) {
  Runner runner(threads);
  const int64_t stride = c.config.spatial_stride();
  const std::vector<int64_t> dims{c.config.z_dim, c.config.latent_frames(video.dim(0)), video.dim(1) / stride,
                                  video.dim(2) / stride};
  Moments out;
  for (Named* m : {&out.mean, &out.logvar}) {
    m->dims = dims;
    m->values.assign(static_cast<size_t>(dims[0] * dims[1] * dims[2] * dims[3]), NAN);
  }
  const Tensor mean = out.mean.tensor(), logvar = options.logvar ? out.logvar.tensor() : Tensor();
  const Scope scope(c.source());
  size_t peak = 0, weights = 0, state = 0;
  {
    Stream stream = runner.measuring();
    const size_t before = Buffer::live_bytes();
    const VaeEncoder encoder(scope, c.config, options, stream);
    encoder.encode(video, mean, logvar, stream);
    EXPECT_EQ(Buffer::live_bytes(), before);
    EXPECT_TRUE(std::isnan(out.mean.values[0]));
    peak = runner.arena.peak();
    weights = encoder.buffer_bytes();
    state = encoder.state_bytes(video.dim(1), video.dim(2), video.dim(0));
  }
  Stream stream = runner.sized(peak);
  const size_t before = Buffer::live_bytes();
  const VaeEncoder encoder(scope, c.config, options, stream);
  EXPECT_EQ(Buffer::live_bytes() - before, weights);
  Buffer::reset_peak();
  encoder.encode(video, mean, logvar, stream);
  EXPECT_EQ(runner.arena.peak(), peak);
  EXPECT_EQ(Buffer::peak_bytes() - before, weights + align_up(state));
  return out;
}

class EncodeGolden : public testing::TestWithParam<const char*> {};

TEST_P(EncodeGolden, EveryLength) {
  VaeCase c(GetParam());
  const Tensor video = channels_last_view(c.input("video"));
  // Of 3, 7 and 11 frames the remainder is dropped.
  for (int64_t frames = 1; frames <= video.dim(0); frames += 2) {
    Moments got = encode(c, video.slice(0, 0, frames), {});
    const int64_t t = c.config.latent_frames(frames);
    EXPECT_LE(error_of(got.mean.tensor(), c.expected("mean").slice(1, 0, t)), kVaeBound) << frames;
    EXPECT_LE(error_of(got.logvar.tensor(), c.expected("logvar").slice(1, 0, t)), kVaeBound) << frames;
  }
}

TEST_P(EncodeGolden, NormalisedMeanAlone) {
  VaeCase c(GetParam());
  Moments got = encode(c, channels_last_view(c.input("video")), {.normalised = true, .logvar = false});
  const Tensor expected = c.expected("mean");
  Named normalised{std::vector<float>(static_cast<size_t>(expected.numel())), got.mean.dims};
  const size_t plane = normalised.values.size() / static_cast<size_t>(c.config.z_dim);
  for (size_t i = 0; i < normalised.values.size(); ++i)
    normalised.values[i] =
        static_cast<float>((static_cast<double>(expected.as<float>()[i]) - c.config.latents_mean[i / plane]) /
                           c.config.latents_std[i / plane]);
  EXPECT_LE(error_of(got.mean.tensor(), normalised.tensor()), kVaeBound);
}

INSTANTIATE_TEST_SUITE_P(All, EncodeGolden,
                         testing::Values("wan21", "shallow", "wide_decoder", "wan22", "residual"),
                         [](const auto& info) { return std::string(info.param); });

TEST(WanVaeEncoder, ChannelsLastVideoGivesTheSameBits) {
  VaeCase c("shallow");
  const Tensor planar = channels_last_view(c.input("video"));
  Named video{std::vector<float>(static_cast<size_t>(planar.numel())),
              {planar.dim(0), planar.dim(1), planar.dim(2), planar.dim(3)}};
  const Tensor dense = video.tensor();
  for (int64_t t = 0; t < dense.dim(0); ++t)
    for (int64_t i = 0; i < dense.dim(1); ++i)
      for (int64_t j = 0; j < dense.dim(2); ++j)
        for (int64_t k = 0; k < 3; ++k)
          video.values[offset_of(dense, {t, i, j, k})] = planar.as<float>()[offset_of(planar, {t, i, j, k})];
  const Moments a = encode(c, planar, {}, 1), b = encode(c, dense, {}, 3);
  EXPECT_EQ(a.mean.values, b.mean.values);
  EXPECT_EQ(a.logvar.values, b.logvar.values);
}

// A picture, then grey frames, and perhaps another picture: most of the grey frames need not be computed.
class RepeatedFrames : public testing::TestWithParam<const char*> {
 protected:
  static constexpr int64_t kFrames = 61, kSide = 16;
  // Returns the mean, and adds how many frames were asked for.
  std::vector<float> mean(EqualFrames equal, bool last, int64_t& asked, int64_t latents = 1) {
    const int64_t stride = c_.config.spatial_stride(), side = kSide / 8 * stride,
                  channels = c_.config.in_channels / (c_.config.patch_size * c_.config.patch_size);
    std::vector<float> chunk(
        static_cast<size_t>(VaeEncoder::kChunkFrames * latents * side * side * channels));
    std::vector<int64_t> dims{c_.config.z_dim, c_.config.latent_frames(kFrames), side / stride,
                              side / stride};
    Named out{std::vector<float>(static_cast<size_t>(dims[0] * dims[1] * dims[2] * dims[3]), NAN), dims};
    const auto source = [&](int64_t first, int64_t count) {
      asked += count;
      EXPECT_LE(count, VaeEncoder::kChunkFrames * latents);
      const Tensor frames(chunk.data(), DType::f32, {count, side, side, channels});
      std::ranges::fill(chunk, 0.0f);
      for (int64_t t = 0; t < count; ++t)
        for (int64_t i = 0; i < frames.select(0, 0).numel(); ++i)
          if (first + t == 0 || (last && first + t == kFrames - 1))
            frames.select(0, t).as<float>()[i] = std::sin(0.37f * static_cast<float>(i * (first + t + 1)));
      return frames;
    };
    Runner runner(2);
    size_t peak = 0;
    for (const bool plan : {true, false}) {
      Stream stream = plan ? runner.measuring() : runner.sized(peak);
      const VaeEncoder encoder(Scope(c_.source()), c_.config, {.logvar = false}, stream);
      encoder.encode({kFrames, side, side}, source, out.tensor(), Tensor(), stream, nullptr, equal, latents);
      if (!plan) {
        EXPECT_EQ(runner.arena.peak(), peak);
      }
      peak = runner.arena.peak();
    }
    return out.values;
  }

  VaeCase c_{GetParam()};
};

TEST_P(RepeatedFrames, ThatAreLeftOutChangeNoBit) {
  for (const bool last : {false, true}) {
    int64_t all = 0, some = 0;
    const int64_t past = c_.config.full_rate_past(), end = last ? kFrames - 1 : kFrames;
    const std::vector<float> want = mean({}, last, all);
    EXPECT_EQ(mean({.begin = 1, .end = end}, last, some), want) << last;
    EXPECT_EQ(all, 2 * kFrames) << "once when planning";
    if (c_.config.is_residual) {
      EXPECT_EQ(some, all);
    } else {
      EXPECT_NE(mean({.begin = -7, .end = end}, last, all), want) << "two chunks earlier would be too early";
      EXPECT_LE(some / 2, 1 + (past + 3) / 4 * 4 + 4 + (last ? 4 : 0));
    }
  }
}

TEST_P(RepeatedFrames, InLargerChunksHaveTheSameBits) {
  int64_t all = 0, some = 0;
  const std::vector<float> want = mean({}, true, all);
  for (const int64_t latents : {2, 4, 16}) EXPECT_EQ(mean({}, true, all, latents), want) << latents;
  EXPECT_EQ(all, 4 * 2 * kFrames);
  EXPECT_EQ(mean({.begin = 1, .end = kFrames - 1}, true, some, 2), want);
  if (!c_.config.is_residual) {
    EXPECT_LT(some, kFrames) << "what is left out counts for more than large chunks";
  }
}

INSTANTIATE_TEST_SUITE_P(All, RepeatedFrames, testing::Values("wan21", "shallow", "wan22"),
                         [](const auto& info) { return std::string(info.param); });

TEST(WanVaeEncoder, ClampsLogvar) {
  VaeCase c("shallow");
  auto& bias = c.weights.at("quant_conv.bias").values;  // z = 4: channels 4 and 5 are the first two of logvar
  bias[0] += 100, bias[4] += 100, bias[5] -= 100;
  Moments got = encode(c, channels_last_view(c.input("video")), {});
  EXPECT_GT(got.mean.values[0], 90);  // the mean is not clamped
  const size_t plane = got.logvar.values.size() / 4;
  for (size_t i = 0; i < plane; ++i) {
    EXPECT_EQ(got.logvar.values[i], 20);
    EXPECT_EQ(got.logvar.values[plane + i], -30);
  }
}

TEST(WanVaeEncoder, NanIsAnErrorThatNamesTheStage) {
  VaeCase c("shallow");
  c.inputs.at("video").values[200] = INFINITY;
  try {
    encode(c, channels_last_view(c.input("video")), {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::numerical);
    EXPECT_THAT(e.message(), testing::HasSubstr("vae encode"));
  }
}

TEST(WanVaeEncoder, RefusesWrongShapes) {
  VaeCase c("shallow");
  Runner runner;
  Stream stream = runner.sized(64 << 20);
  const VaeEncoder encoder(Scope(c.source()), c.config, {}, stream);
  const Tensor video = channels_last_view(c.input("video"));  // [9, 8, 28, 3] → [4, 5, 2, 7]
  std::vector<float> space(4 * 5 * 2 * 7);
  const Tensor mean(space.data(), DType::f32, {4, 5, 2, 7}), small(space.data(), DType::f32, {4, 1, 2, 7});
  EXPECT_THROW(encoder.encode(video, small, mean, stream), Error);
  EXPECT_THROW(encoder.encode(video, mean, {}, stream), Error);
  EXPECT_THROW(encoder.encode(video.slice(1, 0, 7), mean, mean, stream), Error);
  EXPECT_THROW(encoder.encode(video.slice(0, 0, 0), mean, mean, stream), Error);
  EXPECT_THROW(encoder.encode(video.slice(3, 0, 2), mean, mean, stream), Error);
}

}  // namespace
}  // namespace tachy::test
