// Tests easy mistakes with talking photos, each by itself. tests/reference/talk.py checks the values of whole
// runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "ops/match_colors/match_colors.h"
#include "resolve/resolve.h"
#include "stages/condition.h"
#include "stages/vae_run.h"
#include "talk_model.h"

namespace tachy {
namespace {

using test::talk_request;
using testing::AllOf;
using testing::HasSubstr;

// The latents of every window, and all frames.
struct Windows {
  std::vector<std::vector<float>> latents;
  std::vector<int64_t> shape;
  std::vector<uint8_t> rgb;

  // Returns the first `frames` latent frames of window k.
  std::vector<float> first(size_t k, int64_t frames) const {
    const int64_t plane = shape.at(2) * shape.at(3);
    std::vector<float> out;
    for (int64_t z = 0; z < shape.at(0); ++z) {
      const auto begin = latents.at(k).begin() + z * shape.at(1) * plane;
      out.insert(out.end(), begin, begin + frames * plane);
    }
    return out;
  }
};

Windows run(const VideoRequest& request) {
  TextToVideo pipeline(test::talk_model().open(), {.threads = 2});
  Resolved r = pipeline.resolved(request);
  r.speech = request.speech->samples;
  Windows out;
  VideoCallbacks callbacks;
  callbacks.latents = [&](std::span<const float> values, std::span<const int64_t> shape) {
    out.latents.emplace_back(values.begin(), values.end());
    out.shape.assign(shape.begin(), shape.end());
  };
  callbacks.frame = [&](const RgbImage& image, int64_t) {
    out.rgb.insert(out.rgb.end(), image.rgb.begin(), image.rgb.end());
  };
  pipeline.generate(pipeline.prepare(std::move(r)), callbacks);
  return out;
}

// Encodes frames, given as bytes, as a clip of their own.
std::vector<float> encoded(std::span<const uint8_t> rgb, const VideoRequest& r) {
  const auto frame = static_cast<size_t>(*r.width * *r.height * 3);
  const VaeRun vae(test::image_file("i2v"), {.run = {.threads = 2}});
  size_t at = 0;
  return vae
      .encode({static_cast<int64_t>(rgb.size() / frame), *r.height, *r.width},
              [&](std::span<uint8_t> next) {
                std::ranges::copy(rgb.subspan(at, frame), next.begin());
                at += frame;
              })
      .values;
}

double apart(const std::vector<float>& a, const std::vector<float>& b) {
  double size = 0;
  for (const float v : b) size = std::max(size, std::abs(double{v}));
  return test::furthest(a, b) / size;
}

// No step changes these latents and no noise remains in them: a window's first latent frames are the last
// frames of the previous window, with corrected colours, or the photo in the first window.
TEST(TalkTraps, LatentsThatAreTakenOverAreTheFramesAsTheyWereHandedOut) {
  VideoRequest request = talk_request(13);  // windows begin at 0 and 4
  const auto frame = static_cast<size_t>(*request.width * *request.height * 3);
  std::vector<float> uncorrected;
  for (const double correction : {0.0, 1.0}) {
    request.color_correction = correction;
    const Windows w = run(request);
    ASSERT_EQ(w.latents.size(), 2u);
    EXPECT_LE(apart(w.first(0, 1), encoded(request.image->rgb, request)), 1e-6);
    const std::vector<float> tail = encoded(std::span(w.rgb).subspan(4 * frame, 5 * frame), request);
    EXPECT_LE(apart(w.first(1, 2), tail), 0.03) << "bytes are rounded, " << correction;
    if (correction == 0) {
      uncorrected = tail;
    } else {
      EXPECT_GE(apart(w.first(1, 2), uncorrected), 0.1) << "corrected before they are encoded again";
    }
  }
}

TEST(TalkTraps, ColoursOfEveryFrameAreThePhotos) {
  VideoRequest request = talk_request(13);
  const auto frame = static_cast<size_t>(*request.width * *request.height * 3);
  const auto colors = [&](std::span<const uint8_t> rgb) {
    ThreadPool pool(1);
    Arena arena(0);
    Stream stream{.arena = &arena, .pool = &pool};
    std::vector<float> pixels =
        pixels_of({*request.width, *request.height, std::vector<uint8_t>(rgb.begin(), rgb.end())});
    return ops::lab_statistics(Tensor(pixels.data(), DType::f32, {*request.height, *request.width, 3}),
                               stream);
  };
  const ops::LabStatistics photo = colors(request.image->rgb);
  const Windows corrected = run(request);  // colours are corrected by default
  request.recipe = "wrapper";              // by default this recipe does not correct them
  const Windows plain = run(request);
  double most = 0;
  for (size_t i = 0; i < 13; ++i) {
    const auto got = colors(std::span(corrected.rgb).subspan(i * frame, frame));
    const auto other = colors(std::span(plain.rgb).subspan(i * frame, frame));
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_NEAR(got.mean[k], photo.mean[k], 6) << i << " " << k;  // clipping moves the mean
      most = std::max(most, std::abs(other.mean[k] - photo.mean[k]));
    }
  }
  EXPECT_GE(most, 10) << "without correction they are others";
}

TEST(TalkTraps, CorrectionFollowsTheRecipe) {
  const ModelBundle bundle = test::talk_model().open();
  VideoRequest request = talk_request(13);
  EXPECT_EQ(*resolve(bundle, request).request.color_correction, 1);
  request.recipe = "wrapper";
  EXPECT_EQ(*resolve(bundle, request).request.color_correction, 0);
  request.color_correction = 0.25;
  EXPECT_EQ(*resolve(bundle, request).request.color_correction, 0.25);
  for (const double wrong : {-0.1, 1.1}) {
    request.color_correction = wrong;
    EXPECT_THAT(test::refusal([&] { resolve(bundle, request); }, ErrorCode::invalid_argument),
                HasSubstr("`color_correction`"));
  }
}

// The count is int(len / 16000 · 25) in double precision: the quotient is rounded first, so that some whole
// numbers of frames lose one.
TEST(TalkTraps, FramesAreCountedInDoubles) {
  const ModelBundle bundle = test::talk_model().open();
  VideoRequest request = talk_request(13);
  const auto frames_of = [&](int64_t samples) {
    request.speech = std::make_shared<Speech>(Speech{std::vector<float>(static_cast<size_t>(samples), 0.1f)});
    return resolve(bundle, request).talk.frames;
  };
  for (const auto& [whole, counted] :
       {std::pair{29, 28}, {57, 56}, {58, 57}, {113, 112}, {201, 200}, {81, 81}, {121, 121}, {125, 125}})
    EXPECT_EQ(frames_of(whole * 640), counted);
  EXPECT_EQ(frames_of(81 * 640 + 639), 81);
}

TEST(TalkTraps, SolversOfTheWrapperGetItsGridAndTheirStateIsPlanned) {
  VideoRequest request = talk_request(13);
  request.sampler = "dpm++_sde", request.recipe = "wrapper", request.steps = 3;
  TextToVideo pipeline(test::talk_model().open(), {.threads = 2});
  Resolved r = pipeline.resolved(request);
  EXPECT_EQ(*r.request.grid, "wrapper");
  r.speech = request.speech->samples;
  const VideoPlan plan = pipeline.prepare(r).plan;
  const size_t before = Buffer::live_bytes();
  Buffer::reset_peak();
  EXPECT_EQ(test::talk(pipeline, request).frames, 13);
  EXPECT_EQ(Buffer::peak_bytes() - before, plan.peak_bytes);
  request.grid = "original";
  EXPECT_EQ(*pipeline.resolved(request).request.grid, "original");
  request.grid.reset(), request.sampler = "lcm";
  EXPECT_EQ(*pipeline.resolved(request).request.grid, "multitalk");
}

// With one seed, a window's noise depends on everything drawn before it: samplers with noise draw it in each
// step, including the last one, where it has no effect. Except for this, lcm in a single step equals euler.
TEST(TalkTraps, NoiseOfAllWindowsAndStepsIsOneStream) {
  VideoRequest request = talk_request(13);
  request.recipe = "wrapper", request.steps = 1;
  request.sampler = "euler";
  const Windows euler = run(request);
  request.sampler = "lcm";
  const Windows lcm = run(request);
  EXPECT_LE(apart(lcm.latents.at(0), euler.latents.at(0)), 1e-6);
  EXPECT_GE(apart(lcm.latents.at(1), euler.latents.at(1)), 0.05);
}

// The condition is encoded as a whole: a causal network's output for "nothing more to see" keeps changing.
TEST(TalkTraps, TheConditionChangesUpToItsLastLatent) {
  const ModelBundle bundle = test::talk_model().open();
  VideoRequest request = talk_request(13);
  request.window_frames = 81;
  const Resolved r = resolve(bundle, request);
  ASSERT_EQ(r.latent_frames, 21);
  const std::vector<int64_t> dims = condition_dims(bundle, r);
  Buffer buffer(static_cast<size_t>(dims[0] * dims[1] * dims[2] * dims[3]) * sizeof(float));
  const Tensor condition = buffer.tensor(DType::f32, std::span<const int64_t>(dims));
  const int64_t stride = bundle.vae_config.temporal_stride();
  Buffer plain(static_cast<size_t>((dims[0] - stride) * dims[1] * dims[2] * dims[3]) * sizeof(float));
  std::vector<float> pixels = pixels_of(*r.request.image);
  pixels.resize(81 * pixels.size());
  const Tensor video(pixels.data(), DType::f32, {81, *r.request.height, *r.request.width, 3});
  run_planned({.threads = 2}, [&](Stream& stream) {
    const auto vae = load_component(
        bundle.vae, "vae", {"decoder.", "post_quant_conv."},
        [&](const Scope& scope) {
          return std::make_unique<VaeEncoder>(scope, bundle.vae_config,
                                              VaeEncoderOptions{.normalised = true, .logvar = false}, stream);
        },
        stream.measuring());
    encode_condition(bundle, *vae, r, condition, stream);
    vae->encode(video, plain.tensor(DType::f32, {dims[0] - stride, dims[1], dims[2], dims[3]}), Tensor(),
                stream);
  });
  EXPECT_EQ(
      std::memcmp(plain.data(), condition.as<float>() + stride * dims[1] * dims[2] * dims[3], plain.size()),
      0)
      << "what is left out of the grey frames changes no bit";
  const int64_t mask = bundle.vae_config.temporal_stride(), plane = dims[2] * dims[3];
  for (int64_t t = 0; t < 21; ++t) {  // only the photo's frame is known
    const float* m = condition.select(0, 0).select(0, t).as<float>();
    EXPECT_EQ(m[0], t == 0 ? 1 : 0);
  }
  const auto latent = [&](int64_t t) {
    std::vector<float> out;
    for (int64_t z = mask; z < dims[0]; ++z) {
      const float* values = condition.as<float>() + (z * dims[1] + t) * plane;
      out.insert(out.end(), values, values + plane);
    }
    return out;
  };
  EXPECT_GT(test::furthest(latent(1), latent(2)), 1e-3);
  EXPECT_GT(test::furthest(latent(19), latent(20)), 0);
}

TEST(TalkTraps, SilenceIsFollowedToo) {
  VideoRequest request = talk_request(13);
  request.speech = std::make_shared<Speech>(Speech{std::vector<float>(13 * 640)});
  EXPECT_EQ(run(request).rgb.size(), static_cast<size_t>(13 * *request.width * *request.height * 3));
}

// An hour of speech is too much at once. A part of it can be planned and made, in memory that does not grow
// with the part left out, except for the audio encoder's input.
TEST(TalkTraps, AnHourIsRefusedAndItsBeginningPlanned) {
  VideoRequest request = talk_request(13);
  request.speech = std::make_shared<Speech>(Speech{std::vector<float>(3600 * 16000)});
  const ModelBundle bundle = test::talk_model().open();
  EXPECT_THAT(test::refusal([&] { resolve(bundle, request); }, ErrorCode::invalid_argument),
              AllOf(HasSubstr("90000 frames"), HasSubstr("65536"), HasSubstr("`frames`")));
  request.frames = 25;
  const Resolved r = resolve(bundle, request);
  EXPECT_EQ(r.talk.count(), 5);
  EXPECT_EQ(r.talk.spoken, 90000);
}

}  // namespace
}  // namespace tachy
