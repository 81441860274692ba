// Tests whole runs of talking photos: the plan is exact, bits repeat, and later parts change nothing before
// them. tests/reference/talk.py compares their values with a restatement of InfiniteTalk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "resolve/resolve.h"
#include "talk_model.h"

namespace tachy {
namespace {

using test::talk;
using test::talk_request;
using testing::AllOf;
using testing::HasSubstr;

TEST(Talk, PlanIsExact) {
  for (const int64_t frames : {7, 9, 13, 24})
    for (const WeightMode mode : {WeightMode::packed, WeightMode::mapped})
      for (const double guidance : {1.0, 3.0}) {
        VideoRequest request = talk_request(frames);
        request.guidance = guidance;
        TextToVideo pipeline(test::talk_model().open(), {.threads = 2, .weights = mode});
        Resolved r = pipeline.resolved(request);
        r.speech = request.speech->samples;
        const VideoPlan plan = pipeline.prepare(r).plan;
        EXPECT_EQ(plan.stages.size(), frames > 9 ? 6u : 5u);
        const size_t before = Buffer::live_bytes();
        Buffer::reset_peak();
        EXPECT_EQ(talk(pipeline, request).frames, frames);
        EXPECT_EQ(Buffer::live_bytes(), before);
        EXPECT_EQ(Buffer::peak_bytes() - before, plan.peak_bytes)
            << frames << " frames, guidance " << guidance;
      }
}

TEST(Talk, ProgressCountsAllWindows) {
  TextToVideo pipeline(test::talk_model().open(), {.threads = 2});
  std::map<std::string, std::vector<std::pair<int64_t, int64_t>>> seen;
  VideoCallbacks callbacks;
  callbacks.progress = [&](const Progress& p) { seen[p.stage].push_back({p.done, p.total}); };
  talk(pipeline, talk_request(16), callbacks);  // windows begin at 0, 4 and 8
  for (const auto& [stage, total] : std::map<std::string, int64_t>{{"denoise", 6}, {"decode", 16}}) {
    EXPECT_EQ(seen[stage].back(), std::pair(total, total)) << stage;
    EXPECT_TRUE(std::ranges::is_sorted(seen[stage])) << stage;
    for (const auto& [done, of] : seen[stage]) EXPECT_EQ(of, total) << stage;
  }
}

TEST(Talk, BitsDoNotDependOnThreadsWeightsOrRepetition) {
  const VideoRequest request = talk_request(16);
  TextToVideo kept(test::talk_model().open(), {.threads = 1, .keep_loaded = true});
  const test::Result first = talk(kept, request), again = talk(kept, request);
  EXPECT_EQ(first.rgb, again.rgb);
  for (const WeightMode mode : {WeightMode::packed, WeightMode::mapped}) {
    TextToVideo other(test::talk_model().open(), {.threads = 3, .weights = mode});
    const test::Result result = talk(other, request);
    EXPECT_EQ(first.rgb, result.rgb);
    EXPECT_EQ(first.latents, result.latents);
  }
}

// Another photo and other words of the same length are planned alike; a longer speech is not.
TEST(Talk, PlanIsReusedForWhatHasTheSameSize) {
  TextToVideo kept(test::talk_model().open(), {.threads = 2, .keep_loaded = true});
  const auto alone = [](const VideoRequest& request) {
    TextToVideo fresh(test::talk_model().open(), {.threads = 2, .keep_loaded = true});
    return talk(fresh, request).rgb;
  };
  VideoRequest request = talk_request(13);
  talk(kept, request);
  EXPECT_EQ(kept.counters().reused, 0);
  auto words = std::make_shared<Speech>(*request.speech);
  std::ranges::reverse(words->samples);
  auto photo = std::make_shared<Picture>(*request.image);
  std::ranges::reverse(photo->rgb);
  request.speech = words, request.image = photo;
  EXPECT_EQ(talk(kept, request).rgb, alone(request));
  EXPECT_EQ(kept.counters().reused, 1);
  const VideoRequest longer = talk_request(16);
  EXPECT_EQ(talk(kept, longer).rgb, alone(longer));
  EXPECT_EQ(kept.counters().reused, 1);
  request.color_correction = 0.5;
  EXPECT_EQ(talk(kept, request).rgb, alone(request));
  EXPECT_EQ(kept.counters().reused, 1);
}

// The first frames of a longer video are those of a shorter one with the same speech.
TEST(Talk, FramesAreCutFromTheSameVideo) {
  TextToVideo pipeline(test::talk_model().open(), {.threads = 2});
  VideoRequest request = talk_request(24);
  const test::Result whole = talk(pipeline, request);
  const size_t frame = whole.rgb.size() / 24;
  for (const int frames : {3, 9, 11}) {
    request.frames = frames;
    const test::Result some = talk(pipeline, request);
    ASSERT_EQ(some.frames, frames);
    EXPECT_TRUE(
        std::ranges::equal(some.rgb, std::span(whole.rgb).first(frame * static_cast<size_t>(frames))));
  }
}

TEST(Talk, OtherWordsMoveOtherLips) {
  TextToVideo pipeline(test::talk_model().open(), {.threads = 2});
  VideoRequest request = talk_request(13);
  const test::Result said = talk(pipeline, request);
  auto other = std::make_shared<Speech>(*request.speech);
  std::ranges::reverse(other->samples);
  request.speech = other;
  EXPECT_NE(talk(pipeline, request).rgb, said.rgb);
}

std::string refusal(const std::function<void(VideoRequest&)>& change, const ModelBundle& bundle,
                    ErrorCode code = ErrorCode::invalid_argument) {
  VideoRequest request = talk_request(13);
  change(request);
  return test::refusal([&] { resolve(bundle, request); }, code);
}

TEST(Talk, WrongRequestsNameOptionAndWhatWouldWork) {
  const ModelBundle talking = test::talk_model().open();
  EXPECT_THAT(refusal([](auto& r) { r.speech = nullptr; }, talking), HasSubstr("`speech`"));
  EXPECT_THAT(refusal([](auto& r) { r.image = nullptr; }, talking), HasSubstr("`image`"));
  EXPECT_THAT(refusal([](auto& r) { r.fps = 16; }, talking), AllOf(HasSubstr("`fps`"), HasSubstr("25")));
  EXPECT_THAT(refusal([](auto& r) { r.windows = "static"; }, talking),
              AllOf(HasSubstr("`windows`"), HasSubstr("even")));
  EXPECT_THAT(refusal([](auto& r) { r.window_frames = 80; }, talking),
              AllOf(HasSubstr("`window_frames`"), HasSubstr("81")));
  EXPECT_THAT(refusal([](auto& r) { r.motion_frames = 8; }, talking),
              AllOf(HasSubstr("`motion_frames`"), HasSubstr("5 or 9")));
  EXPECT_THAT(refusal([](auto& r) { r.motion_frames = 9; }, talking), HasSubstr("fewer than the window's 9"));
  EXPECT_THAT(refusal([](auto& r) { r.riflex = 6; }, talking), HasSubstr("`riflex`"));
  EXPECT_THAT(refusal([](auto& r) { r.sparse_attention = 0.5; }, talking, ErrorCode::unsupported),
              HasSubstr("`sparse_attention`"));
  EXPECT_THAT(refusal([](auto& r) { r.init_latents = {1}; }, talking), HasSubstr("`init_latents`"));
  EXPECT_THAT(
      refusal([](auto& r) { r.speech = std::make_shared<Speech>(Speech{std::vector<float>(300)}); }, talking),
      AllOf(HasSubstr("`speech`"), HasSubstr("too short")));
  PartPaths deaf = test::talk_model().parts;
  deaf.audio_encoder.clear();
  EXPECT_THAT(refusal([](auto&) {}, ModelBundle::open(test::image_file("i2v"), FileAccess::map, deaf),
                      ErrorCode::not_found),
              HasSubstr("`audio_encoder`"));
  const ModelBundle plain = ModelBundle::open(test::image_file("i2v"));
  EXPECT_THAT(refusal([](auto&) {}, plain), AllOf(HasSubstr("`speech`"), HasSubstr("`infinitetalk`")));
  PartPaths odd;
  odd.audio_encoder = test::talk_model().parts.audio_encoder;
  EXPECT_THAT(test::refusal([&] { ModelBundle::open(test::image_file("i2v"), FileAccess::map, odd); },
                            ErrorCode::invalid_argument),
              HasSubstr("`audio_encoder`"));
}

TEST(Talk, DefaultsAndPresetsAreThoseOfTalkingModels) {
  const ModelBundle talking = test::talk_model().open();
  VideoRequest request = talk_request(13);
  request.steps.reset(), request.guidance.reset(), request.audio_guidance.reset();
  const Resolved plain = resolve(talking, request);
  EXPECT_EQ(*plain.request.grid, "multitalk");
  EXPECT_EQ(*plain.request.sampler, "euler");
  EXPECT_EQ(*plain.request.steps, 40);
  EXPECT_EQ(*plain.request.shift, 7);
  EXPECT_EQ(*plain.request.audio_guidance, 4);
  EXPECT_EQ(*plain.request.frames, 13);
  request.preset = "talk-4";
  const Resolved four = resolve(talking, request);
  EXPECT_EQ(*four.request.steps, 4);
  EXPECT_EQ(*four.request.guidance, 1);
  EXPECT_EQ(*four.request.audio_guidance, 2);
  EXPECT_FALSE(four.guided);
  request.preset = "lightx2v-4";
  EXPECT_THAT(test::refusal([&] { resolve(talking, request); }, ErrorCode::invalid_argument),
              HasSubstr("talk-4"));
}

}  // namespace
}  // namespace tachy
