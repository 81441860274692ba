// Tests runs of the shipped model whose passes several GPUs divide. The ranks share the first card, and are on
// several where there are several. Skipped without a GPU. TACHY_MODEL_DIR may name another folder of models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/env.h"
#include "base/run_profiler.h"
#include "engine/text_to_video.h"
#include "talk_model.h"
#include "tiny_model.h"

namespace tachy {
namespace {

using testing::HasSubstr;

class GpuRanks : public testing::TestWithParam<bool> {  // whether each rank has a card of its own
 protected:
  void SetUp() override {
    std::string why;
    cards_ = cuda::gpu_count(&why);
    if (cards_ == 0) GTEST_SKIP() << why;
    if (GetParam() && cards_ < 2) GTEST_SKIP() << "there is one GPU";
    request.prompt = "a red circle moves right";
    request.width = request.height = 64, request.frames = 9, request.steps = 6;
  }
  TextToVideo::Options options(int ranks, TextToVideo::Options options) const {
    options.device = "cuda:0";
    for (int rank = 0; rank < ranks; ++rank) options.gpus.push_back(GetParam() ? rank % cards_ : 0);
    return options;
  }
  std::unique_ptr<TextToVideo> open(int ranks, const TextToVideo::Options& given = {}) const {
    const std::string folder = env_string("TACHY_MODEL_DIR", TACHY_TEST_MODELS);
    return std::make_unique<TextToVideo>(
        ModelBundle::open((std::filesystem::path(folder) / "sprites").string()), options(ranks, given));
  }
  // The ranks' products have fewer rows, for which a library may add up in another order.
  static void expect_alike(const test::Result& one, const test::Result& divided, const std::string& what,
                           double bound = 0.05) {
    ASSERT_EQ(divided.latents.size(), one.latents.size());
    double difference = 0, size = 0;
    for (size_t i = 0; i < one.latents.size(); ++i) {
      difference += std::pow(static_cast<double>(divided.latents[i]) - one.latents[i], 2);
      size += std::pow(static_cast<double>(one.latents[i]), 2);
    }
    EXPECT_LT(std::sqrt(difference / size), bound) << what;
    testing::Test::RecordProperty(what, std::to_string(std::sqrt(difference / size)));
  }
  struct ByRows {
    ByRows() { setenv("TACHY_RANK_DECODE", "rows", 1); }
    ~ByRows() { unsetenv("TACHY_RANK_DECODE"); }
  };
  // A band's frames may differ where a kernel adds up otherwise for fewer rows.
  void expect_near(const test::Result& first, const test::Result& rows, TextToVideo& again,
                   const std::string& what) const {
    EXPECT_EQ(rows.latents, first.latents) << what;
    ASSERT_EQ(rows.rgb.size(), first.rgb.size()) << what;
    int most = 0, different = 0;
    for (size_t i = 0; i < rows.rgb.size(); ++i) {
      const int far = std::abs(int{rows.rgb[i]} - int{first.rgb[i]});
      most = std::max(most, far), different += far > 0;
    }
    EXPECT_LE(most, 2) << what;
    testing::Test::RecordProperty("bytes_that_differ_" + what, different);
    EXPECT_EQ(test::run(again, request).rgb, rows.rgb) << what << ", again";
  }
  void as_blocks() {
    request.guidance = 1, request.frames = 49, request.block = 1, request.block_window = 3;
    request.sampler = "self-forcing-4", request.steps.reset();
  }
  VideoRequest request;
  int cards_ = 0;
};

TEST_P(GpuRanks, GiveWhatOneGivesAndTheSameEachTime) {
  for (const double guidance : {1.0, 4.0}) {
    request.guidance = guidance;
    const test::Result one = test::run(*open(1), request);
    for (const int ranks : {2, 3, 4}) {
      const std::string what = fmt::format("guidance_{}_ranks_{}", guidance, ranks);
      const auto divided = open(ranks), queued = open(ranks, {.graphs = false});
      const test::Result first = test::run(*divided, request);
      expect_alike(one, first, what);
      EXPECT_EQ(test::run(*divided, request).latents, first.latents) << what;
      EXPECT_EQ(test::run(*queued, request).latents, first.latents) << what << ", without graphs";
    }
  }
}

TEST_P(GpuRanks, AModelThatStaysLoadedKeepsTheirGraphs) {
  request.guidance = 1;
  const auto kept = open(2, {.keep_loaded = true});
  const test::Result first = test::run(*kept, request);
  EXPECT_EQ(kept->counters().captured, 1);
  EXPECT_EQ(test::run(*kept, request).latents, first.latents);
  EXPECT_EQ(kept->counters().captured, 1) << "the second job captured again";
  request.guidance = 4;
  const test::Result guided = test::run(*kept, request);
  EXPECT_EQ(test::run(*open(2), request).latents, guided.latents);
  request.guidance = 1;
  EXPECT_EQ(test::run(*kept, request).latents, first.latents);
}

// The first job times its only step, and so the second one captures its first.
TEST_P(GpuRanks, AModelThatStaysLoadedCapturesAFirstStep) {
  request.guidance = 1, request.steps = 1;
  const auto kept = open(2, {.keep_loaded = true});
  const test::Result first = test::run(*kept, request);
  for (int job = 0; job < 3; ++job) EXPECT_EQ(test::run(*kept, request).latents, first.latents) << job;
  EXPECT_EQ(kept->counters().captured, 1);
}

// Each card's own clock times its rank, and a profiled run has the latents of another one.
TEST_P(GpuRanks, AProfileHasTheTimesOfEach) {
  request.guidance = 1;
  const auto divided = open(2, {.keep_loaded = true});
  const test::Result plain = test::run(*divided, request);
  RunProfiler profiler;
  VideoCallbacks callbacks;
  callbacks.profiler = &profiler;
  EXPECT_EQ(test::run(*divided, request, callbacks).latents, plain.latents);
  std::array<std::set<std::string>, 2> seen;
  std::array<int, 2> passes{};
  for (const ProfileEvent& e : profiler.all_events()) {
    if (!on_device(e)) continue;
    const auto rank = static_cast<size_t>(rank_of(e));
    ASSERT_LT(rank, 2u);
    seen[rank].insert(e.name), passes[rank] += e.name == std::string("transformer");
  }
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(passes[rank], request.steps) << rank;
    for (const char* name : {"attention", "wait for ranks", "up + activation"})
      EXPECT_TRUE(seen[rank].contains(name)) << rank << ": " << name;
  }
  EXPECT_EQ(test::run(*divided, request).latents, plain.latents) << "afterwards";
}

TEST_P(GpuRanks, AStopEndsThemAll) {
  request.guidance = 1;
  for (const bool blocks : {false, true}) {
    if (blocks) as_blocks();
    VideoRequest longer = request;
    if (!blocks) longer.steps = 50;
    const auto divided = open(2, {.keep_loaded = true});
    std::atomic<bool> cancel = false;
    VideoCallbacks callbacks{.cancel = &cancel};
    callbacks.progress = [&](const Progress& p) {
      if (p.stage == std::string_view("denoise") && p.done == 18) cancel = true;
    };
    try {
      test::run(*divided, longer, callbacks);
      ADD_FAILURE() << "it succeeded";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::cancelled);
    }
    EXPECT_EQ(test::run(*divided, request).latents, test::run(*open(2), request).latents) << blocks;
  }
}

TEST_P(GpuRanks, WhatHasNoRanksIsRefused) {
  const auto refusal = [&](TextToVideo& pipeline) -> std::string {
    try {
      pipeline.plan(request);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::unsupported);
      return e.message();
    }
    return "no error";
  };
  const auto whole = open(1);
  const uint64_t peak = whole->plan(request).peak_bytes;
  const auto small = open(2, {.max_vram = peak / 3 * 2 + test::kLibraries});
  EXPECT_THAT(refusal(*small), HasSubstr("`gpus`"));
  EXPECT_EQ(open(2)->plan(request).ranks.size(), 2u);
  EXPECT_THAT(refusal(*open(2, {.parallel = {1, 1, 2}})), HasSubstr("`parallel`: keys cannot go round"));
}

// A ring that goes round many times: its passes are queued at first, and graphs later.
TEST_P(GpuRanks, AVideoMadeBlockByBlockIsAsOfOne) {
  as_blocks();
  for (const char* dtype : {"f32", "bf16"}) {
    request.dtype = dtype;
    const test::Result one = test::run(*open(1), request);
    for (const int ranks : {2, 3, 4}) {  // the model has three heads
      const std::string what = fmt::format("blocks_{}_ranks_{}", dtype, ranks);
      const auto divided = open(ranks, {.keep_loaded = ranks == 2}), queued = open(ranks, {.graphs = false});
      const test::Result first = test::run(*divided, request);
      expect_alike(one, first, what, request.dtype == "f32" ? 1e-3 : 0.05);
      EXPECT_EQ(test::run(*divided, request).latents, first.latents) << what;
      EXPECT_EQ(test::run(*queued, request).latents, first.latents) << what << ", without graphs";
    }
  }
}

// Its windows begin with frames of the ones before, which are made on the first card.
TEST_P(GpuRanks, ATalkingPhotoIsAsOfOne) {
  VideoRequest talk = test::talk_request(16), both = test::two_talk(16);
  talk.dtype = both.dtype = "f32";
  const auto photo = [&](int ranks, bool keep = false) {
    return std::make_unique<TextToVideo>(test::talk_model().open(), options(ranks, {.keep_loaded = keep}));
  };
  const test::Result one = test::talk(*photo(1), talk), two = test::talk_of_two(*photo(1), both);
  for (const int ranks : {2, 3}) {  // three divide guidance's branches
    const auto divided = photo(ranks);
    const test::Result first = test::talk(*divided, talk);
    expect_alike(one, first, fmt::format("talk_ranks_{}", ranks), 1e-3);
    expect_alike(two, test::talk_of_two(*divided, both), fmt::format("two_ranks_{}", ranks), 1e-3);
    EXPECT_EQ(test::talk(*photo(ranks, true), talk).latents, first.latents) << ranks;
  }
}

TEST_P(GpuRanks, MayShareAPassAsAsked) {
  request.guidance = 4;
  const auto asked = open(2, {.parallel = {1, 2, 1}});
  const VideoPlan plan = asked->plan(request);
  EXPECT_EQ(plan.parallel.text(), "cfg=1,ulysses=2,ring=1");
  EXPECT_EQ(plan.ranks.at(1).branches, 2);
  const test::Result first = test::run(*asked, request);
  expect_alike(test::run(*open(1), request), first, "guidance_4_by_heads");
  EXPECT_EQ(test::run(*asked, request).latents, first.latents);
}

TEST_P(GpuRanks, MayShareTheDecoderByRows) {
  request.guidance = 1, request.frames = 29;  // eight latent frames: one, two, four, one
  for (const int ranks : {2, 3, 4, 8}) {
    const test::Result first = test::run(*open(ranks), request);
    const ByRows by_rows;
    const auto divided = open(ranks, {.keep_loaded = true});
    EXPECT_EQ(divided->plan(request).vae_latents, 4) << ranks;
    EXPECT_EQ(divided->plan(request).ranks.at(1).rows, 8 / ranks + (8 % ranks > 1 ? 1 : 0)) << ranks;
    expect_near(first, test::run(*divided, request), *divided, fmt::format("rows_{}", ranks));
  }
}

// Ranks push rows into memory that the others give back when they are stopped.
TEST_P(GpuRanks, AStopOfTheDecoderEndsThemAll) {
  request.guidance = 1, request.frames = 49;
  const ByRows by_rows;
  for (const int ranks : {2, 4}) {
    const auto divided = open(ranks, {.keep_loaded = true});
    const test::Result whole = test::run(*divided, request);
    for (const int64_t frames : {1, 5, 29}) {
      std::atomic<bool> cancel = false;
      VideoCallbacks callbacks{.cancel = &cancel};
      callbacks.progress = [&](const Progress& p) {
        if (p.stage == std::string_view("decode") && p.done >= frames) cancel = true;
      };
      try {
        test::run(*divided, request, callbacks);
        ADD_FAILURE() << "it succeeded";
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::cancelled) << e.message();
      }
      EXPECT_EQ(test::run(*divided, request).rgb, whole.rgb) << ranks << " ranks, after " << frames;
    }
  }
}

TEST_P(GpuRanks, MayShareTheFramesOfBlocksByRows) {
  as_blocks();
  for (const int ranks : {2, 3}) {
    const test::Result first = test::run(*open(ranks), request);
    const ByRows by_rows;
    for (const bool graphs : {true, false}) {
      const auto divided = open(ranks, {.keep_loaded = graphs, .graphs = graphs});
      EXPECT_GT(divided->plan(request).ranks.at(1).rows, 0);
      expect_near(first, test::run(*divided, request), *divided,
                  fmt::format("rows_of_blocks_{}_{}", ranks, graphs));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cards, GpuRanks, testing::Bool(),
                         [](const auto& info) { return info.param ? "Several" : "One"; });

}  // namespace
}  // namespace tachy
