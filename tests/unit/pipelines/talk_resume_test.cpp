// A talking photo that is resumed from any step of any window, or between two windows, gives the bits of an
// uninterrupted run; its memory does not grow with its windows; progress and previews cover all windows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "denoise/preview.h"
#include "denoise/talk_progress.h"
#include "talk_model.h"

namespace tachy {
namespace {

using test::copy_of;
using test::talk;
using test::talk_request;
using testing::HasSubstr;

struct Watched {
  test::Result result;
  std::vector<RunState> states;
};

Watched watch(const VideoRequest& request) {
  Watched out;
  TextToVideo pipeline(test::talk_model().open(), {.threads = 2});
  VideoCallbacks callbacks;
  callbacks.state = [&](const RunStateView& view) { out.states.push_back(copy_of(view)); };
  out.result = talk(pipeline, request, callbacks);
  return out;
}

// Makes the rest of the run, with another object and another number of threads.
test::Result go_on(const VideoRequest& request, const RunState& state, VideoCallbacks callbacks = {}) {
  TextToVideo pipeline(test::talk_model().open(), {.threads = 1, .weights = WeightMode::mapped});
  return talk(pipeline, request, std::move(callbacks), &state);
}

void expect_same_rest(const Watched& whole, const test::Result& rest, const RunState& state) {
  const std::string at = fmt::format("after step {} of window {}", state.step, state.window);
  const size_t frame = whole.result.rgb.size() / static_cast<size_t>(whole.result.frames);
  const auto before = static_cast<size_t>(state.frames) * frame;
  EXPECT_EQ(rest.frames, whole.result.frames) << at;
  EXPECT_EQ(rest.latents, whole.result.latents) << at;
  ASSERT_EQ(rest.rgb.size(), whole.result.rgb.size() - before) << at;
  EXPECT_TRUE(
      std::equal(rest.rgb.begin(), rest.rgb.end(), whole.result.rgb.begin() + static_cast<int64_t>(before)))
      << at;
}

TEST(TalkResume, FromEveryStepOfEveryWindow) {
  VideoRequest request = talk_request(15);  // windows begin at 0, 4 and 8; the last one is cut off
  for (const char* sampler : {"euler", "lcm"})
    for (const char* recipe : {"infinitetalk", "wrapper"})
      for (const char* rng : {"cpu", "cuda"}) {
        if (rng != std::string("cpu") && sampler != std::string("lcm")) continue;
        SCOPED_TRACE(fmt::format("{} {} {}", sampler, recipe, rng));
        request.sampler = sampler, request.recipe = recipe, request.rng = rng;
        const Watched whole = watch(request);
        std::vector<std::tuple<int64_t, int64_t, int64_t>> seen;
        for (const RunState& s : whole.states) seen.emplace_back(s.window, s.step, s.frames);
        EXPECT_THAT(seen, testing::ElementsAre(std::tuple(0, 1, 0), std::tuple(0, 2, 0), std::tuple(1, 0, 9),
                                               std::tuple(1, 1, 9), std::tuple(1, 2, 9), std::tuple(2, 0, 13),
                                               std::tuple(2, 1, 13), std::tuple(2, 2, 13)));
        for (const RunState& state : whole.states) expect_same_rest(whole, go_on(request, state), state);
      }
}

TEST(TalkResume, OnePassEvenWindowsAndTheStepCache) {
  for (const bool even : {false, true}) {
    VideoRequest request = talk_request(18);
    request.guidance = 1, request.audio_guidance = 1, request.steps = 4;
    if (even) request.windows = "even", request.window_frames = 13;
    if (!even) request.step_cache = 1;
    const Watched whole = watch(request);
    for (const RunState& state : whole.states) expect_same_rest(whole, go_on(request, state), state);
  }
}

TEST(TalkResume, InASessionThatIsKept) {
  const VideoRequest request = talk_request(15);
  const Watched whole = watch(request);
  TextToVideo kept(test::talk_model().open(), {.threads = 2, .keep_loaded = true});
  for (const RunState& state : whole.states) expect_same_rest(whole, talk(kept, request, {}, &state), state);
  EXPECT_EQ(talk(kept, request).rgb, whole.result.rgb);
}

TEST(TalkResume, AWindowAloneIsAClip) {
  const VideoRequest request = talk_request(7);
  const Watched whole = watch(request);
  ASSERT_EQ(whole.states.size(), 2u);
  for (const RunState& state : whole.states) {
    EXPECT_EQ(state.windows, 1);
    EXPECT_TRUE(state.motion.empty());
    expect_same_rest(whole, go_on(request, state), state);
  }
}

TEST(TalkResume, EveryPartOfTheStateIsUsed) {
  VideoRequest request = talk_request(15);
  request.sampler = "lcm";
  const Watched whole = watch(request);
  const auto differs = [&](const RunState& state) {
    const test::Result rest = go_on(request, state);
    return !std::equal(rest.rgb.rbegin(), rest.rgb.rend(), whole.result.rgb.rbegin());
  };
  for (const size_t i : {size_t{2}, size_t{3}}) {  // states from before and after the second window's first
                                                   // step
    EXPECT_FALSE(differs(whole.states[i]));
    RunState state = whole.states[i];
    for (float& v : state.motion) v += 1;
    EXPECT_TRUE(differs(state)) << "what the window takes over, " << i;
    state = whole.states[i], state.generator = whole.states[0].generator;
    EXPECT_TRUE(differs(state)) << "the generator, " << i;
    state = whole.states[i];
    for (float& v : state.latents) v += 1;
    EXPECT_TRUE(differs(state)) << "the latents, " << i;
  }
}

TEST(TalkResume, StatesThatDoNotFitAreRefused) {
  const VideoRequest request = talk_request(15);
  const Watched whole = watch(request);
  const auto refused = [&](const std::function<void(RunState&)>& change) {
    RunState state = whole.states[3];
    change(state);
    return test::refusal([&] { go_on(request, state); }, ErrorCode::corrupt);
  };
  EXPECT_THAT(refused([](RunState& s) { s.window = 3; }), HasSubstr("window 4 of 3"));
  EXPECT_THAT(refused([](RunState& s) { s.window = -1; }), HasSubstr("window 0"));
  EXPECT_THAT(refused([](RunState& s) { s.windows = 4; }), HasSubstr("of 4, here are 3"));
  EXPECT_THAT(refused([](RunState& s) { s.frames = 10; }), HasSubstr("9 frames before window 2, got 10"));
  EXPECT_THAT(refused([](RunState& s) { s.motion.pop_back(); }), HasSubstr("takes over"));
  EXPECT_THAT(refused([](RunState& s) { s.motion[3] = NAN; }), HasSubstr("finite"));
  EXPECT_THAT(refused([](RunState& s) { s.window = 0, s.frames = 0; }), HasSubstr("takes over"));
  EXPECT_THAT(refused([](RunState& s) { s.window = 0, s.frames = 0, s.step = 0, s.motion.clear(); }),
              HasSubstr("step 0"));
  EXPECT_THAT(refused([](RunState& s) { s.step = -1; }), HasSubstr("step -1"));
  TextToVideo clips(ModelBundle::open(test::model_path()), {.threads = 2});
  EXPECT_THAT(
      test::refusal([&] { clips.generate(test::short_request(), {}, &whole.states[3]); }, ErrorCode::corrupt),
      HasSubstr("window 2 of 3"));
}

// Only one thing grows with the video's length: the audio encoder's output for each frame, on the host.
TEST(TalkResume, MemoryIsThatOfAWindow) {
  TextToVideo pipeline(test::talk_model().open(), {.threads = 2});
  const auto plan_of = [&](int64_t frames) {
    VideoRequest request = talk_request(frames);
    Resolved r = pipeline.resolved(request);
    r.speech = request.speech->samples;
    return pipeline.prepare(r).plan;
  };
  const VideoPlan some = plan_of(17), many = plan_of(817);  // 3 and 203 windows
  const Wav2Vec2Config& ears = test::talk_model().open().audio;
  const auto row = static_cast<uint64_t>(ears.num_layers * ears.hidden_size * 4);
  EXPECT_LE(many.shared_bytes - some.shared_bytes, 800 * row + 64);
  for (const char* name : {"text", "image", "denoise", "decode", "motion"}) {
    const auto of = [&](const VideoPlan& plan) {
      const auto& s = *std::ranges::find(plan.stages, name, &StagePlan::name);
      return std::pair(s.weight_bytes, s.arena_bytes);
    };
    EXPECT_EQ(of(some), of(many)) << name;
  }
}

// A preview shows the current window; after the window's last step it is the picture of its final latents.
TEST(TalkResume, PreviewsShowTheWindowUnderWay) {
  const ModelBundle bundle = test::talk_model().open();
  TextToVideo pipeline(bundle, {.threads = 2});
  std::vector<std::pair<int, std::vector<uint8_t>>> previews;
  std::vector<std::vector<uint8_t>> windows;
  const test::Result size = talk(pipeline, talk_request(9));
  VideoRequest request = talk_request(15);
  request.steps = 3;
  Resolved r = pipeline.resolved(request);
  r.speech = r.request.speech->samples;
  VideoCallbacks callbacks;
  callbacks.preview = [&](const RgbImage& image, int step) {
    EXPECT_EQ(image.width, size.shape[1] * size.shape[3]);
    EXPECT_EQ(image.height, size.shape[2]);
    previews.emplace_back(step, std::vector<uint8_t>(image.rgb.begin(), image.rgb.end()));
  };
  callbacks.latents = [&](std::span<const float> values, std::span<const int64_t> shape) {
    const Tensor latents(const_cast<float*>(values.data()), DType::f32, shape);
    windows.push_back(latent_preview(latents, bundle.preview_factors).rgb);
  };
  pipeline.generate(pipeline.prepare(std::move(r)), callbacks);
  ASSERT_EQ(previews.size(), 9u);
  ASSERT_EQ(windows.size(), 3u);
  EXPECT_NE(windows[0], windows[1]);
  EXPECT_NE(windows[1], windows[2]);
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(previews[i].first, static_cast<int>(i % 3));
    int most = 0;
    for (size_t k = 0; k < windows[i / 3].size(); ++k)
      most = std::max(most, std::abs(previews[i].second[k] - windows[i / 3][k]));
    if (i % 3 == 2) {
      EXPECT_LE(most, 1) << "window " << i / 3;
    } else if (i % 3 == 0) {
      EXPECT_GT(most, 1) << "window " << i / 3;
    }
  }
}

// There are three windows of two steps. A step takes 10 s, decoding 6 s, and the work between two windows 3
// s.
TEST(TalkProgress, KnowsWhatIsLeftOfAllWindows) {
  Resolved r = TextToVideo(test::talk_model().open(), {.threads = 2}).resolved(talk_request(15));
  VideoPlan plan;
  plan.stages = {
      {.name = "denoise", .flops = 600}, {.name = "decode", .flops = 60}, {.name = "motion", .flops = 40}};
  std::vector<Progress> told;
  TalkProgress progress(r, plan, [&](const Progress& p) { told.push_back(p); });
  const auto tell = [&](const char* stage, int64_t done, int64_t total, double now) {
    progress.tell({stage, done, total, 1, 1}, now);
    return told.back();
  };
  Progress p = tell("text", 0, 1, 90);
  EXPECT_EQ(p.windows, 3);
  EXPECT_EQ(p.eta_seconds, 1) << "of a stage before the windows, as it is";
  progress.begin(0);
  EXPECT_LT(tell("denoise", 0, 6, 100).eta_seconds, 0) << "not known yet";
  // Before they are measured, times are estimated by work: decoding takes 0.2 of a step, and so does the work
  // between windows.
  p = tell("denoise", 1, 6, 110);
  EXPECT_DOUBLE_EQ(p.eta_seconds, 5 * 10 + 3 * 2 + 2 * 2);
  EXPECT_DOUBLE_EQ(p.elapsed_seconds, 10);
  EXPECT_DOUBLE_EQ(tell("denoise", 2, 6, 120).eta_seconds, 4 * 10 + 3 * 2 + 2 * 2);
  tell("decode", 0, 15, 121);
  tell("decode", 5, 15, 123);
  p = tell("decode", 9, 15, 126);
  EXPECT_DOUBLE_EQ(p.eta_seconds, 4 * 10 + 2 * 6 + 2 * 2) << "now decoding is measured";
  tell("motion", 0, 2, 126), tell("motion", 1, 2, 128);
  progress.begin(1);
  p = tell("denoise", 2, 6, 129);
  EXPECT_DOUBLE_EQ(p.eta_seconds, 4 * 10 + 2 * 6 + 3) << "and what is between";
  EXPECT_EQ(p.window, 1);
  tell("denoise", 3, 6, 139), tell("denoise", 4, 6, 149), tell("decode", 9, 15, 150);
  EXPECT_DOUBLE_EQ(tell("decode", 11, 15, 152).eta_seconds, 2 * 10 + 1.5 * 6 + 3)
      << "half of the window's frames";
  tell("decode", 13, 15, 155), tell("motion", 1, 2, 155), tell("motion", 2, 2, 157);
  progress.begin(2);
  EXPECT_DOUBLE_EQ(tell("denoise", 4, 6, 158).eta_seconds, 2 * 10 + 6);
  tell("denoise", 5, 6, 168);
  EXPECT_DOUBLE_EQ(tell("denoise", 6, 6, 178).eta_seconds, 6);
  tell("decode", 13, 15, 179);
  p = tell("decode", 15, 15, 184);
  EXPECT_DOUBLE_EQ(p.eta_seconds, 0);
  EXPECT_DOUBLE_EQ(p.elapsed_seconds, 84);
}

TEST(TalkProgress, OfARunThatWentOnWithDecoding) {
  Resolved r = TextToVideo(test::talk_model().open(), {.threads = 2}).resolved(talk_request(15));
  Progress last;
  TalkProgress progress(r, {}, [&](const Progress& p) { last = p; });
  progress.begin(1);
  progress.tell({"decode", 9, 15, 0, -1}, 10), progress.tell({"decode", 13, 15, 0, -1}, 14);
  EXPECT_LT(last.eta_seconds, 0) << "no step has been timed";
  progress.tell({"motion", 2, 2, 0, -1}, 15);
  progress.begin(2);
  progress.tell({"denoise", 4, 6, 0, -1}, 16), progress.tell({"denoise", 5, 6, 0, -1}, 26);
  EXPECT_DOUBLE_EQ(last.eta_seconds, 10 + 4);
}

// The reports of a whole run, and of the rest of one, are checked.
TEST(TalkProgress, RunsTellTheWindow) {
  const VideoRequest request = talk_request(15);
  const Watched whole = watch(request);
  const auto told = [&](const RunState* state) {
    std::vector<std::tuple<std::string, int64_t, int64_t>> out;
    VideoCallbacks callbacks;
    callbacks.progress = [&](const Progress& p) {
      EXPECT_EQ(p.windows, 3);
      EXPECT_EQ(p.total, p.stage == "denoise"  ? 6
                         : p.stage == "decode" ? 15
                         : p.stage == "motion" ? 2
                                               : p.total);
      if (p.stage == "denoise" || p.stage == "motion") out.emplace_back(p.stage, p.window, p.done);
      if (p.done == p.total && p.stage == "decode") {
        EXPECT_EQ(p.eta_seconds, 0);
      }
    };
    TextToVideo pipeline(test::talk_model().open(), {.threads = 2});
    talk(pipeline, request, callbacks, state);
    return out;
  };
  using T = std::tuple<std::string, int64_t, int64_t>;
  const std::vector<T> all{{"denoise", 0, 0}, {"denoise", 0, 1}, {"denoise", 0, 2}, {"motion", 0, 0},
                           {"motion", 0, 1},  {"denoise", 1, 2}, {"denoise", 1, 3}, {"denoise", 1, 4},
                           {"motion", 1, 1},  {"motion", 1, 2},  {"denoise", 2, 4}, {"denoise", 2, 5},
                           {"denoise", 2, 6}};
  EXPECT_EQ(told(nullptr), all);
  EXPECT_EQ(told(&whole.states[2]), std::vector<T>(all.begin() + 5, all.end()));
  EXPECT_EQ(told(&whole.states[4]), std::vector<T>(all.begin() + 8, all.end()))
      << "decoding was left of the second";
}

}  // namespace
}  // namespace tachy
