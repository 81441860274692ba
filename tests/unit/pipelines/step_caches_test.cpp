// The published step caches: whole runs and decisions are compared with diffusers and with the papers' rules in
// PyTorch (tests/golden/step_caches/make.py). A resumed run, other ranks and other threads have the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "denoise/block_schedule.h"
#include "experts_model.h"
#include "request/step_cache_config.h"
#include "resolve/resolved.h"
#include "resolve/step_cache_values.h"

namespace tachy {
namespace {

using testing::HasSubstr;

constexpr const char* kKinds[] = {"easycache", "teacache", "magcache", "taylorseer"};

// The tiny model with the numbers of values.json.
const std::string& cached_model() {
  static const test::ScratchFolder scratch;
  static const std::string path = [] {
    const std::filesystem::path folder = scratch.path / "model";
    std::filesystem::copy(test::model_path(), folder, std::filesystem::copy_options::recursive);
    auto config = read_json(folder / "generation_config.json");
    const auto values = read_json(test::golden_path("step_caches/values.json"));
    for (const auto& [key, value] : values.items()) config[key] = value;
    std::ofstream(folder / "generation_config.json") << config.dump();
    return folder.string();
  }();
  return path;
}

VideoRequest cached_request(const std::string& kind) {
  VideoRequest request = test::golden_request();
  request.sampler = "unipc", request.step_cache_kind = kind;
  const auto values = read_json(test::golden_path("step_caches/values.json"));
  if (kind == "easycache") request.step_cache = values.at("easycache").get<double>();
  if (kind == "taylorseer") request.step_cache = 1 - 1.0 / values.at("taylorseer").get<double>();
  return request;
}

// Returns how many steps of a golden run compute no branch.
int skipped(const Tensor& made) {
  int count = 0;
  for (int64_t i = 0; i < made.dim(0); ++i) {
    bool any = false;
    for (int64_t b = 0; b < made.dim(1); ++b) any = any || made.as<uint8_t>()[i * made.dim(1) + b] != 0;
    count += !any;
  }
  return count;
}

TEST(StepCaches, TwentyStepsAreThoseOfTheReference) {
  const test::GoldenFile golden("step_caches/golden.safetensors"), plain("pipeline/golden.safetensors");
  for (const std::string kind : kKinds)
    for (const bool guided : {true, false}) {
      VideoRequest request = cached_request(kind);
      if (!guided) request.guidance = 1;
      const std::string name = (guided ? "" : "alone.") + kind;
      for (const WeightMode mode : {WeightMode::packed, WeightMode::mapped}) {
        TextToVideo pipeline(ModelBundle::open(cached_model()), {.threads = 2, .weights = mode});
        std::vector<float> latents;
        VideoCallbacks callbacks;
        callbacks.latents = [&](std::span<const float> values, std::span<const int64_t>) {
          latents.assign(values.begin(), values.end());
        };
        EXPECT_EQ(pipeline.generate(request, callbacks).steps_reused, skipped(golden[name + ".made"]))
            << name;
        const Tensor want = golden[name];
        ASSERT_EQ(static_cast<int64_t>(latents.size()), want.numel());
        const double error = test::error_of(Tensor(latents.data(), DType::f32, want.shape()), want);
        EXPECT_LE(error, 1e-5) << name;
        if (mode == WeightMode::packed) RecordProperty(name, fmt::format("{:.2e}", error));
        const Tensor without = plain[guided ? "diffusers_unipc" : "unguided"];
        EXPECT_GT(test::error_of(without.view({want.numel()}), want.view({want.numel()})), 1e-3)
            << name << " changes the result";
      }
    }
}

// Every (step, branch) of a golden table of decisions.
void expect_decisions(const std::vector<uint32_t>& reused, const Tensor& made, int64_t first,
                      const std::string& what) {
  for (size_t i = 0; i < reused.size(); ++i)
    for (int64_t b = 0; b < made.dim(1); ++b) {
      const int64_t at = (first + static_cast<int64_t>(i)) * made.dim(1) + b;
      EXPECT_EQ(reused[i] >> b & 1, 1u - made.as<uint8_t>()[at])
          << what << ", step " << i << ", branch " << b;
    }
}

struct Sizes {
  const char* table;
  int64_t heads, layers, channels;
  int experts;
  int64_t pixels;
  bool pictured;
};

TEST(StepCaches, PublishedNumbersDecideAsTheirCodeDoes) {
  const test::GoldenFile golden("step_caches/golden.safetensors");
  const Sizes all[] = {{"kWan13bRatios", 12, 30, 16, 1, 832 * 480, false},
                       {"kWan14bRatios", 40, 40, 16, 1, 1280 * 720, false},
                       {"kWanImage480Ratios", 40, 40, 36, 1, 832 * 480, true},
                       {"kWanImage720Ratios", 40, 40, 36, 1, 1280 * 720, true},
                       {"kWan22Ratios", 40, 40, 16, 2, 1280 * 720, false},
                       {"kWan22ImageRatios", 40, 40, 36, 2, 1280 * 720, true},
                       {"kWan5bRatios", 24, 30, 48, 1, 1280 * 704, false},
                       {"kWan5bImageRatios", 24, 30, 48, 1, 1280 * 704, true}};
  for (const Sizes& s : all) {
    WanConfig c;
    c.num_heads = s.heads, c.num_layers = s.layers, c.in_channels = s.channels;
    StepCacheConfig config{.kind = StepCacheKind::magcache,
                           .values = published_step_cache_values(c, s.experts, s.pixels, s.pictured)};
    config.threshold = config.values.magcache_threshold;
    for (const int steps : {50, 40, 20, 7}) {
      const Tensor made = golden[fmt::format("decided.{}.{}", s.table, steps)];
      const int split = s.experts == 2 ? steps * 3 / 10 : 0;
      const BlockSteps first{
          .first = 0, .count = split > 0 ? split : steps, .all = steps, .second_from = split, .branches = 2};
      expect_decisions(magcache_steps(config, first), made, 0, fmt::format("{}, {} steps", s.table, steps));
      if (split == 0) continue;
      BlockSteps second = first;
      second.first = split, second.count = steps - split;
      expect_decisions(magcache_steps(config, second), made, split, fmt::format("{}, second", s.table));
    }
  }
  WanConfig other;
  other.num_heads = 2;
  EXPECT_TRUE(published_step_cache_values(other, 1, 832 * 480, false).ratios.empty());
}

TEST(StepCaches, PublishedPolynomialsDecideAsTheirCodeDoes) {
  const test::GoldenFile golden("step_caches/golden.safetensors");
  const Tensor e = golden["embeddings"];
  const Sizes all[] = {{"0", 12, 30, 16, 1, 832 * 480, false},
                       {"1", 40, 40, 16, 1, 832 * 480, false},
                       {"2", 40, 40, 36, 1, 832 * 480, true},
                       {"3", 40, 40, 36, 1, 1280 * 720, true}};
  for (const Sizes& s : all) {
    WanConfig c;
    c.num_heads = s.heads, c.num_layers = s.layers, c.in_channels = s.channels;
    StepCacheConfig config{.kind = StepCacheKind::teacache,
                           .values = published_step_cache_values(c, 1, s.pixels, s.pictured)};
    config.threshold = config.values.teacache_threshold;
    const auto steps = static_cast<int>(e.dim(0));
    const BlockSteps places{.first = 0, .count = steps, .all = steps};
    expect_decisions(teacache_steps(config, places, test::values_of(e), e.dim(1)),
                     golden[std::string("decided.teacache.") + s.table], 0, s.table);
  }
}

TEST(StepCaches, AResumedRunHasTheSameBits) {
  for (const std::string kind : kKinds) {
    VideoRequest request = cached_request(kind);
    request.steps = 14;
    if (kind == "taylorseer") request.step_cache = 0.5;
    std::vector<RunState> states;
    VideoCallbacks callbacks;
    callbacks.state = [&](const RunStateView& view) {
      RunState& s = states.emplace_back(
          RunState{view.step, {view.latents.begin(), view.latents.end()}, {}, view.generator});
      for (const auto& tensor : view.solver) s.solver.emplace_back(tensor.begin(), tensor.end());
    };
    TextToVideo pipeline(ModelBundle::open(cached_model()), {.threads = 2});
    test::Result whole;
    const int reused = pipeline.generate(request, test::collecting(whole, callbacks)).steps_reused;
    EXPECT_GE(reused, 2) << kind;
    ASSERT_EQ(states.size(), 14u);
    for (const RunState& state : states) {
      TextToVideo other(ModelBundle::open(cached_model()), {.threads = 1, .weights = WeightMode::mapped});
      test::Result rest;
      other.generate(request, test::collecting(rest, {}), &state);
      EXPECT_EQ(rest.latents, whole.latents) << kind << " after step " << state.step;
    }
  }
}

TEST(StepCaches, RanksThreadsAndBranchesApartHaveTheSameBitsWithinThePlan) {
  for (const std::string kind : kKinds)
    for (const bool guided : {true, false}) {
      VideoRequest request = cached_request(kind);
      request.steps = 14;
      if (!guided) request.guidance = 1;
      const test::Result one = test::run(cached_model(), request);
      for (const int ranks : {1, 2, 3, 4}) {
        TextToVideo pipeline(ModelBundle::open(cached_model()), {.threads = ranks + 1, .ranks = ranks});
        const VideoPlan plan = pipeline.plan(request);
        const size_t before = Buffer::live_bytes();
        Buffer::reset_peak();
        EXPECT_EQ(test::run(pipeline, request).latents, one.latents) << kind << ", " << ranks << " ranks";
        EXPECT_EQ(Buffer::peak_bytes() - before, plan.peak_bytes) << kind << ", " << ranks << " ranks";
      }
      request.without = {"batched-guidance"};
      EXPECT_EQ(test::run(cached_model(), request).latents, one.latents) << kind << ", a branch at a time";
    }
}

// The values that are kept of one expert say nothing about the other.
TEST(StepCaches, EachExpertBeginsAnew) {
  test::ExpertsRun run = test::experts_run("t2v_unipc");
  run.request.steps = 16, run.request.step_cache_kind = "taylorseer", run.request.step_cache = 0.5;
  TextToVideo pipeline(ModelBundle::open(run.model), {.threads = 2});
  const Schedule schedule = pipeline.resolved(run.request).sampler.schedule();
  int high = 0, want = 0;
  for (int i = 0; i < 16; ++i) high += schedule.high_noise(i, pipeline.model().boundary);
  ASSERT_GT(high, 4);
  ASSERT_LT(high, 12);
  for (int i = 0; i < 16; ++i) {
    const int in_part = i < high ? i : i - high;
    want += !(in_part < 3 || (in_part - 4) % 2 == 0);
  }
  EXPECT_EQ(pipeline.generate(run.request, {}).steps_reused, want);
}

TEST(StepCaches, WhatCannotBeIsRefusedByName) {
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 1});
  const auto message = [&](const std::function<void(VideoRequest&)>& change) {
    VideoRequest request = test::short_request();
    change(request);
    try {
      pipeline.plan(request);
    } catch (const Error& e) {
      return e.message();
    }
    return std::string("accepted");
  };
  EXPECT_THAT(message([](auto& r) { r.step_cache_kind = "teacache"; }), HasSubstr("teacache_coefficients"));
  EXPECT_THAT(message([](auto& r) { r.step_cache_kind = "magcache"; }), HasSubstr("magcache_ratios"));
  EXPECT_THAT(message([](auto& r) { r.step_cache_kind = "taylorseer", r.step_cache = 0.99; }),
              HasSubstr("share of steps"));
  EXPECT_EQ(message([](auto& r) { r.step_cache_kind = "magcache", r.step_cache = 0; }), "accepted");
  EXPECT_EQ(message([](auto& r) { r.step_cache_kind = "easycache"; }), "accepted");
  TextToVideo own(ModelBundle::open(cached_model()), {.threads = 1});
  VideoRequest windows = test::short_request();
  windows.frames = 33, windows.windows = "static", windows.window_frames = 17, windows.window_overlap = 8;
  windows.step_cache_kind = "magcache";
  EXPECT_THROW(own.plan(windows), Error);
  windows.step_cache_kind = "easycache";
  EXPECT_NO_THROW(own.plan(windows));
}

}  // namespace
}  // namespace tachy
