// Tests whole runs that are made block by block (request field `block`): what a single block is, what later
// blocks must not change, memory as planned, and what is refused. rollout_test.cpp checks that a rollout is
// the original's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recording_device.h"
#include "tiny_model.h"

namespace tachy {
namespace {

using testing::HasSubstr;

VideoRequest request_of(int frames, int block, const std::string& sampler = "euler") {
  VideoRequest r = test::golden_request();
  r.frames = frames, r.width = 48, r.height = 32, r.seed = 7, r.guidance = 1.0;
  r.sampler = sampler, r.steps.reset(), r.shift.reset(), r.block = block;
  if (sampler == "euler") r.steps = 3, r.shift = 3.0;
  return r;
}

// A block of all frames sees the same as the whole clip.
TEST(BlockRuns, ASingleBlockIsTheWholeClip) {
  for (const char* sampler : {"euler", "self-forcing-4"}) {
    const auto whole = test::run(test::model_path(), request_of(9, 0, sampler));
    const auto block = test::run(test::model_path(), request_of(9, 3, sampler));
    EXPECT_LE(test::furthest(whole.latents, block.latents), 1e-5) << sampler;
    EXPECT_EQ(block.shape, whole.shape);
    EXPECT_EQ(block.frames, 9);
  }
}

// In a clip of six latent frames in blocks of two, other noise in the last block changes no earlier block; in
// a clip that is made at once it changes everything.
TEST(BlockRuns, ABlockSeesNothingThatComesLater) {
  const auto run = [](int block, float last) {
    VideoRequest r = request_of(21, block);
    const int64_t frames = 6, plane = 4 * 6;
    const auto shape = test::run(test::model_path(), r).shape;
    EXPECT_EQ(shape, (std::vector<int64_t>{shape[0], frames, 4, 6}));
    r.init_latents.resize(static_cast<size_t>(shape[0] * frames * plane));
    for (size_t i = 0; i < r.init_latents.size(); ++i) {
      const int64_t frame = static_cast<int64_t>(i) / plane % frames;
      r.init_latents[i] = std::sin(static_cast<float>(i)) + (frame >= 4 ? last : 0.0f);
    }
    return test::run(test::model_path(), r);
  };
  const auto frames_differ = [](const test::Result& a, const test::Result& b, int64_t first, int64_t end) {
    double most = 0;
    const int64_t plane = a.shape[2] * a.shape[3];
    for (int64_t c = 0; c < a.shape[0]; ++c)
      for (int64_t i = first * plane; i < end * plane; ++i) {
        const auto at = static_cast<size_t>(c * a.shape[1] * plane + i);
        most = std::max(most, std::abs(double{a.latents[at]} - double{b.latents[at]}));
      }
    return most;
  };
  const auto a = run(2, 0), b = run(2, 1), c = run(0, 0), d = run(0, 1);
  EXPECT_EQ(frames_differ(a, b, 0, 4), 0);
  EXPECT_GT(frames_differ(a, b, 4, 6), 1e-3);
  EXPECT_GT(frames_differ(c, d, 0, 4), 1e-4);
  EXPECT_GT(frames_differ(a, c, 2, 4), 1e-4) << "blocks are not the whole clip";
}

TEST(BlockRuns, AWindowIsFelt) {
  VideoRequest r = request_of(21, 1);
  const auto all = test::run(test::model_path(), r);
  r.block_window = 6;
  EXPECT_EQ(test::run(test::model_path(), r).latents, all.latents);
  r.block_window = 400;
  EXPECT_EQ(test::run(test::model_path(), r).latents, all.latents);
  r.block_window = 2;
  EXPECT_GT(test::furthest(test::run(test::model_path(), r).latents, all.latents), 1e-4);
}

TEST(BlockRuns, TakeWhatWasPlannedAndTheSameBitsOnAnyThreads) {
  VideoRequest r = request_of(21, 2, "self-forcing-4");
  r.block_window = 4;
  std::vector<float> latents[2];
  for (const int threads : {1, 3}) {
    TextToVideo pipeline(ModelBundle::open(test::model_path()),
                         {.threads = threads, .weights = WeightMode::packed});
    const uint64_t planned = pipeline.plan(r).peak_bytes;
    const size_t before = Buffer::live_bytes();
    Buffer::reset_peak();
    latents[threads / 2] = test::run(pipeline, r).latents;
    EXPECT_EQ(Buffer::peak_bytes() - before, planned);
  }
  EXPECT_EQ(latents[0], latents[1]);
}

// With two latent frames in a block, the first gives five frames and each later one eight, which are handed
// out before the next block begins.
TEST(BlockRuns, FramesLeaveAsTheyAreMade) {
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2});
  int64_t steps = 0, frames = 0;
  std::vector<std::pair<int64_t, int64_t>> seen;  // steps that are done, frames so far
  VideoCallbacks callbacks;
  callbacks.progress = [&](const Progress& p) {
    if (p.stage == "denoise") steps = p.done;
  };
  callbacks.frame = [&](const RgbImage& image, int64_t index) {
    EXPECT_EQ(index, frames++);
    EXPECT_EQ(image.rgb.size(), 48u * 32 * 3);
    if (seen.empty() || seen.back().first != steps) seen.emplace_back(steps, 0);
    seen.back().second = frames;
  };
  pipeline.generate(request_of(21, 2), callbacks);
  EXPECT_EQ(seen, (std::vector<std::pair<int64_t, int64_t>>{{3, 5}, {6, 13}, {9, 21}}));
}

// Decoding block by block gives the same frames as decoding the whole clip.
TEST(BlockRuns, FramesAreThoseOfTheLatents) {
  const auto whole = test::run(test::model_path(), request_of(9, 0));
  const auto block = test::run(test::model_path(), request_of(9, 3));
  ASSERT_EQ(block.rgb.size(), whole.rgb.size());
  int most = 0;
  for (size_t i = 0; i < whole.rgb.size(); ++i)
    most = std::max(most, std::abs(int{whole.rgb[i]} - int{block.rgb[i]}));
  EXPECT_LE(most, 1);
}

TEST(BlockRuns, TellProgressAndPreviewsOfAllSteps) {
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2});
  int seen = 0;
  int64_t done = 0, total = 0;
  test::run(pipeline, request_of(21, 2),
            {.progress =
                 [&](const Progress& p) {
                   if (p.stage == "denoise") done = p.done, total = p.total;
                 },
             .preview = [&](const RgbImage&, int) { ++seen; }});
  EXPECT_EQ(seen, 9);
  EXPECT_EQ(done, 9);
  EXPECT_EQ(total, 9);
}

struct Resumable {
  test::Result result;
  std::vector<RunState> states;
};

Resumable watch(const VideoRequest& request, const RunState* from = nullptr,
                std::shared_ptr<DeviceMemory> memory = nullptr) {
  Resumable out;
  TextToVideo pipeline(ModelBundle::open(test::model_path()),
                       {.threads = from ? 1 : 2, .memory = std::move(memory)});
  VideoCallbacks callbacks;
  callbacks.state = [&](const RunStateView& view) {
    EXPECT_EQ(view.steps, 3);
    EXPECT_TRUE(view.solver.empty());
    out.states.push_back({view.step, {view.latents.begin(), view.latents.end()}, {}, view.generator});
  };
  pipeline.generate(request, test::collecting(out.result, std::move(callbacks)), from);
  return out;
}

// A state counts whole blocks. A run that resumes from any of them makes the latents and all frames of an
// uninterrupted run, and reports the same states from there on.
TEST(BlockRuns, GoOnFromTheStateOfAnyBlock) {
  for (const int window : {0, 2}) {
    VideoRequest request = request_of(21, 2, "self-forcing-4");
    request.block_window = window;
    const Resumable whole = watch(request);
    ASSERT_EQ(whole.states.size(), 2u) << "behind the last block nothing is left to do";
    for (const bool on_device : {false, true})
      for (size_t i = 0; i < 2; ++i) {
        const RunState& state = whole.states[i];
        EXPECT_EQ(state.step, static_cast<int64_t>(i) + 1);
        const auto device = on_device ? std::make_shared<test::RecordingDevice>(size_t{1} << 30) : nullptr;
        const Resumable rest = watch(request, &state, device);
        EXPECT_EQ(rest.result.latents, whole.result.latents) << i;
        EXPECT_EQ(rest.result.rgb, whole.result.rgb) << i;
        ASSERT_EQ(rest.states.size(), 1 - i);
        for (size_t k = 0; k < rest.states.size(); ++k) {
          EXPECT_EQ(rest.states[k].latents, whole.states[i + 1 + k].latents);
          EXPECT_EQ(rest.states[k].generator, whole.states[i + 1 + k].generator);
        }
      }
    RunState other = whole.states[0];
    other.generator = whole.states[1].generator;
    EXPECT_NE(watch(request, &other).result.latents, whole.result.latents) << "the generator counts";
    other = whole.states[0];
    other.latents[0] += 0.5f;
    EXPECT_NE(watch(request, &other).result.rgb, whole.result.rgb) << "and so do finished latents";
  }
}

TEST(BlockRuns, StatesThatDoNotFitAreRefused) {
  const VideoRequest request = request_of(21, 2, "self-forcing-4");
  const Resumable whole = watch(request);
  const auto refused = [&](const std::function<void(RunState&)>& change) {
    RunState state = whole.states[0];
    change(state);
    return test::refusal([&] { watch(request, &state); }, ErrorCode::corrupt);
  };
  EXPECT_THAT(refused([](RunState& s) { s.step = 0; }), HasSubstr("block 0 of 2"));
  EXPECT_THAT(refused([](RunState& s) { s.step = 3; }), HasSubstr("block 3 of 2"));
  EXPECT_THAT(refused([](RunState& s) { s.latents.pop_back(); }), HasSubstr("latents"));
  EXPECT_THAT(refused([](RunState& s) { s.latents[3] = NAN; }), HasSubstr("finite"));
  EXPECT_THAT(refused([](RunState& s) { s.solver.resize(1); }), HasSubstr("sampler"));
  EXPECT_THAT(refused([](RunState& s) { s.windows = 2; }), HasSubstr("window"));
}

TEST(BlockRuns, WhatDoesNotGoTogetherIsRefused) {
  const auto message = [](const std::function<void(VideoRequest&)>& change) {
    VideoRequest r = request_of(21, 2);
    change(r);
    try {
      TextToVideo(ModelBundle::open(test::model_path()), {.threads = 1}).plan(r);
    } catch (const Error& e) {
      return e.message();
    }
    return std::string("accepted");
  };
  EXPECT_EQ(message([](auto&) {}), "accepted");
  EXPECT_EQ(message([](auto& r) { r.guidance.reset(); }), "accepted")
      << "the model's own would be more than 1";
  EXPECT_THAT(message([](auto& r) { r.guidance = 5.0; }), HasSubstr("`guidance`: expected 1 with `block`"));
  EXPECT_THAT(message([](auto& r) { r.windows = "static"; }), HasSubstr("`windows`"));
  EXPECT_THAT(message([](auto& r) { r.riflex = 2; }), HasSubstr("`riflex`"));
  EXPECT_THAT(message([](auto& r) { r.sparse_attention = 0.5; }), HasSubstr("`sparse_attention`"));
  EXPECT_THAT(message([](auto& r) { r.step_cache = 0.5; }), HasSubstr("`step_cache`"));
  EXPECT_THAT(message([](auto& r) { r.block_window = 1; }), HasSubstr("at least the 2 latent frames"));
  EXPECT_THAT(message([](auto& r) { r.block = 0, r.block_window = 4; }), HasSubstr("`block_window`"));
  EXPECT_THAT(message([](auto& r) { r.frames = 17; }),
              HasSubstr("5 latent frames, expected whole blocks of 2 (`block`); 21 would be"));
}

}  // namespace
}  // namespace tachy
