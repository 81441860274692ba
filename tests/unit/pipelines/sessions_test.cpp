// Tests several jobs at once on one model: the bits are those of a lone run, parts are loaded once, and
// memory is divided. Further tests cover what a session keeps between jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "experts_model.h"
#include "recording_device.h"
#include "tiny_model.h"

namespace tachy {
namespace {

using test::HostDevice;
using test::kPlenty;
using test::RecordingDevice;
using test::Result;
using testing::HasSubstr;

std::string shipped() { return std::string(TACHY_TEST_MODELS) + "/sprites"; }

// A place where threads meet; one that waits for too long continues alone.
class Meeting {
 public:
  explicit Meeting(int count) : count_(count) {}
  bool arrive(std::chrono::seconds most = std::chrono::seconds(60)) {
    std::unique_lock lock(mutex_);
    if (++here_ >= count_) all_.notify_all();
    return all_.wait_for(lock, most, [&] { return here_ >= count_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_;
  int count_, here_ = 0;
};

template <class Body>
void in_threads(int count, Body&& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&, i] { body(i); });
  for (std::thread& t : threads) t.join();
}

VideoRequest request_of(int i) {
  static const char* const prompts[] = {"a red circle moves right", "a blue square moves left",
                                        "a green triangle grows", "a red circle moves right"};
  VideoRequest r;
  r.prompt = prompts[i % 4], r.seed = static_cast<uint64_t>(i);
  r.width = r.height = 64, r.frames = i == 2 ? 5 : 1, r.steps = 3;
  return r;
}

class FourThreads : public testing::TestWithParam<bool> {};

TEST_P(FourThreads, EachGetsTheBitsOfALoneRun) {
  std::vector<Result> alone;
  for (int i = 0; i < 4; ++i) alone.push_back(test::run(shipped(), request_of(i)));
  TextToVideo pipeline(ModelBundle::open(shipped()), {.threads = 2, .keep_loaded = GetParam()});
  for (int round = 0; round < 2; ++round) {
    Meeting denoising(4);
    std::atomic<int> loads{0}, met{0};
    in_threads(4, [&](int i) {
      VideoCallbacks callbacks;
      callbacks.progress = [&](const Progress& p) {
        loads += p.stage == "load" && p.done == 0;
        if (p.stage == "denoise" && p.done == 1) met += denoising.arrive();
      };
      const Result got = test::run(pipeline, request_of(i), callbacks);
      EXPECT_EQ(got.latents, alone[static_cast<size_t>(i)].latents) << i;
      EXPECT_EQ(got.rgb, alone[static_cast<size_t>(i)].rgb) << i;
    });
    EXPECT_EQ(met, 4) << "they were not all at work at once";
    EXPECT_EQ(loads, round == 0 || !GetParam() ? 1 : 0) << "the transformer is loaded once for all";
  }
  const TextToVideo::Counters done = pipeline.counters();
  EXPECT_EQ(done.resolved, 8);
  EXPECT_EQ(done.tokenised, 8);
  EXPECT_EQ(done.planned, 8);
}

INSTANTIATE_TEST_SUITE_P(Sessions, FourThreads, testing::Bool(),
                         [](const auto& info) { return info.param ? "kept" : "released"; });

// Weights that were made for one arithmetic do not affect a job in another arithmetic.
TEST(Sessions, TwoWaysOfComputingAtOnce) {
  VideoRequest exact = test::short_request(), low = test::short_request();
  low.dtype = "bf16";
  const Result want[] = {test::run(test::model_path(), exact), test::run(test::model_path(), low)};
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2, .keep_loaded = true});
  std::atomic<int> loads{0};
  VideoCallbacks callbacks;
  callbacks.progress = [&](const Progress& p) { loads += p.stage == "load" && p.done == 0; };
  in_threads(2, [&](int i) {
    for (int round = 0; round < 4; ++round)
      EXPECT_EQ(test::run(pipeline, i == 0 ? exact : low, callbacks).latents, want[i].latents);
  });
  EXPECT_EQ(loads, 2) << "neither evicts the other";
}

TEST(Sessions, AFailureOfOneIsNoneOfTheOthers) {
  const VideoRequest request = test::short_request();
  const Result want = test::run(test::model_path(), request);
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2});
  std::atomic<int> cancelled{0};
  in_threads(4, [&](int i) {
    std::atomic<bool> cancel{false};
    VideoCallbacks callbacks{.cancel = &cancel};
    if (i % 2 == 1)
      callbacks.progress = [&](const Progress& p) {
        cancel = cancel || p.stage == (i == 1 ? "denoise" : "text");
      };
    try {
      EXPECT_EQ(test::run(pipeline, request, callbacks).latents, want.latents);
      EXPECT_EQ(i % 2, 0);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::cancelled);
      cancelled += i % 2;
    }
  });
  EXPECT_EQ(cancelled, 2);
}

// On a device that holds the memory of two jobs, both run at once; on a smaller one they alternate.
TEST(Sessions, JobsThatDoNotFitTogetherTakeTurns) {
  const VideoRequest request = test::short_request();
  const Result want = test::run(test::model_path(), request, {.weights = WeightMode::packed});
  const auto peak = [&] {
    TextToVideo::Options options{
        .threads = 2, .weights = WeightMode::packed, .memory = std::make_shared<HostDevice>(kPlenty)};
    return TextToVideo(ModelBundle::open(test::model_path()), options).plan(request).peak_bytes;
  }();
  for (const uint64_t room : {peak, 2 * peak}) {
    const auto device = std::make_shared<HostDevice>(kPlenty);
    TextToVideo pipeline(ModelBundle::open(test::model_path()),
                         {.threads = 2, .weights = WeightMode::packed, .max_vram = room, .memory = device});
    Meeting both(2);
    std::atomic<int> now{0}, most{0};
    in_threads(2, [&](int) {
      VideoCallbacks callbacks;
      callbacks.progress = [&](const Progress& p) {
        if (p.stage != "denoise" || p.done != 1) return;
        most = std::max(most.load(), ++now);
        if (room > peak) {
          EXPECT_TRUE(both.arrive());
        }
        most = std::max(most.load(), now.load());
        --now;
      };
      EXPECT_EQ(test::run(pipeline, request, callbacks).latents, want.latents);
    });
    EXPECT_EQ(most, room > peak ? 2 : 1);
    EXPECT_LE(device->peak_bytes(), room);
    EXPECT_EQ(device->live_bytes(), 0u);
  }
}

TEST(Sessions, WhoWaitsCanBeCancelledAndARunInACallbackIsRefused) {
  const VideoRequest request = test::short_request();
  const auto device = std::make_shared<HostDevice>(kPlenty);
  TextToVideo whole(ModelBundle::open(test::model_path()), {.threads = 2, .memory = device});
  const uint64_t peak = whole.plan(request).peak_bytes;
  TextToVideo pipeline(ModelBundle::open(test::model_path()),
                       {.threads = 2, .max_vram = peak, .memory = device});
  std::string nested;
  int waiting = 0;
  VideoCallbacks callbacks;
  callbacks.progress = [&](const Progress& p) {
    if (p.stage != "denoise" || p.done != 1) return;
    try {
      pipeline.generate(request, {});
    } catch (const Error& e) {
      nested = e.message();
    }
    std::atomic<bool> cancel{false};
    std::thread other([&] {
      try {
        pipeline.generate(request, {.cancel = &cancel});
      } catch (const Error& e) {
        waiting += e.code() == ErrorCode::cancelled;
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    cancel = true;
    other.join();
  };
  test::run(pipeline, request, callbacks);
  EXPECT_THAT(nested, HasSubstr("callback"));
  EXPECT_EQ(waiting, 1);
}

TEST(Kept, ASecondJobOfTheSameShapeCapturesNothing) {
  VideoRequest first = test::short_request(), second = test::short_request();
  first.steps = second.steps = 4;
  second.seed = 7, second.guidance = 4;
  std::swap(second.prompt, *(second.negative_prompt = "cat red a"));  // the same number of tokens
  const auto device = std::make_shared<RecordingDevice>(kPlenty);
  TextToVideo pipeline(ModelBundle::open(test::model_path()),
                       {.threads = 2, .weights = WeightMode::packed, .keep_loaded = true, .memory = device});
  first.negative_prompt = first.prompt;
  const auto alone = [](const VideoRequest& r) {
    return test::run(test::model_path(), r, {.weights = WeightMode::packed}).latents;
  };
  const VideoPlan plan = pipeline.plan(first);
  ASSERT_TRUE(plan.keeps);
  EXPECT_EQ(test::run(pipeline, first).latents, alone(first));
  EXPECT_EQ(pipeline.counters().captured, 1);
  EXPECT_EQ(device->launches, 3) << "all steps but the first";
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(test::run(pipeline, second).latents, alone(second));
    EXPECT_EQ(test::run(pipeline, first).latents, alone(first));
  }
  EXPECT_EQ(pipeline.counters().captured, 1);
  EXPECT_EQ(device->launches, 3 + 4 * 4) << "every step of the later jobs";
  EXPECT_LE(device->peak_bytes(), plan.peak_bytes);
  // Requests of other shapes have other addresses.
  second.frames = 9;
  EXPECT_EQ(test::run(pipeline, second).latents, alone(second));
  EXPECT_EQ(pipeline.counters().captured, 2);
  EXPECT_LE(device->peak_bytes(), std::max(plan.peak_bytes, pipeline.plan(second).peak_bytes));
  first.prompt += " and another cat";
  EXPECT_EQ(test::run(pipeline, first).latents, alone(first));
  EXPECT_EQ(pipeline.counters().captured, 3);
}

TEST(Kept, OfTwoExpertsBothGraphs) {
  const test::ScratchFolder scratch;
  const auto folder = test::model_copy(scratch);
  test::make_two_experts(folder);
  VideoRequest request = test::short_request();
  request.steps = 12;
  const Result want = test::run(folder, request, {.weights = WeightMode::packed});
  const auto device = std::make_shared<RecordingDevice>(kPlenty);
  TextToVideo pipeline(ModelBundle::open(folder),
                       {.threads = 2, .weights = WeightMode::packed, .keep_loaded = true, .memory = device});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(test::run(pipeline, request).latents, want.latents);
    EXPECT_EQ(pipeline.counters().captured, 2);
  }
  EXPECT_LE(device->peak_bytes(), pipeline.plan(request).peak_bytes);
}

TEST(Kept, NothingWherePartsAreReleased) {
  const VideoRequest request = test::short_request();
  const auto device = std::make_shared<RecordingDevice>(kPlenty);
  TextToVideo pipeline(ModelBundle::open(test::model_path()), {.threads = 2, .memory = device});
  for (int i = 1; i <= 2; ++i) {
    test::run(pipeline, request);
    EXPECT_EQ(pipeline.counters().captured, i);
    EXPECT_EQ(device->live_bytes(), 0u);
  }
}

// A job that needs the memory of kept things gets it.
TEST(Kept, MemoryIsGivenUpForAnotherJob) {
  const VideoRequest small = test::short_request();
  VideoRequest large = small;
  large.width = 128, large.height = 64, large.frames = 17;
  const auto device = std::make_shared<HostDevice>(kPlenty);
  const TextToVideo::Options options{.threads = 2, .weights = WeightMode::packed, .memory = device};
  const auto peak_of = [&](const TextToVideo::Options& o) {
    return TextToVideo(ModelBundle::open(test::model_path()), o).plan(large).peak_bytes;
  };
  TextToVideo::Options tight = options;
  tight.max_vram = peak_of(options) - 1;
  const uint64_t peak = peak_of(tight);  // decodes one latent frame at a time
  tight.keep_loaded = true, tight.max_vram = peak;
  TextToVideo pipeline(ModelBundle::open(test::model_path()), tight);
  ASSERT_TRUE(pipeline.plan(small).keeps);
  ASSERT_FALSE(pipeline.plan(large).keeps);
  test::run(pipeline, small);
  EXPECT_GT(device->live_bytes(), 0u);
  EXPECT_EQ(test::run(pipeline, large).latents,
            test::run(test::model_path(), large, {.weights = WeightMode::packed}).latents);
  EXPECT_LE(device->peak_bytes(), peak);
}

TEST(PartCache, OneLoadsAndTheOthersWait) {
  PartCache cache;
  const PartKey key(Part::text, {}), other(Part::text, {.compute = Compute::bf16});
  std::atomic<int> loads{0};
  const auto load = [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    auto part = std::make_shared<LoadedPart>();
    part->bytes = 100, ++loads;
    return PartCache::Handle(part);
  };
  std::vector<PartCache::Handle> got(4);
  in_threads(4, [&](int i) { got[static_cast<size_t>(i)] = cache.get(key, i == 0, nullptr, load); });
  EXPECT_EQ(loads, 1);
  for (const auto& handle : got) EXPECT_EQ(handle, got[0]);
  EXPECT_NE(cache.get(other, false, nullptr, load), got[0]) << "made for another way of computing";
  EXPECT_EQ(cache.held_bytes(), 100u) << "nobody holds the other one";
  const auto all = [](const PartKey&) { return true; };
  cache.drop_idle(all);
  EXPECT_EQ(cache.held_bytes(), 100u) << "it is in use";
  got.clear();
  EXPECT_EQ(cache.idle_bytes({}), 100u);
  EXPECT_EQ(cache.idle_bytes({key}), 0u);
  cache.drop_idle([&](const PartKey& k) { return k != key; });
  EXPECT_EQ(cache.held_bytes(), 100u);
  cache.drop_idle(all);
  EXPECT_EQ(cache.held_bytes(), 0u);
}

TEST(PartCache, WhoWaitsForAFailureTriesItself) {
  PartCache cache;
  std::atomic<int> tries{0}, failures{0};
  in_threads(3, [&](int) {
    try {
      cache.get(PartKey(Part::vae_decoder, {}), true, nullptr, [&]() -> PartCache::Handle {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        if (tries++ == 0) fail(ErrorCode::io, "the first one");
        return std::make_shared<LoadedPart>();
      });
    } catch (const Error&) {
      ++failures;
    }
  });
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(tries, 2);
}

TEST(Claims, PartsThatAreSharedCountOnce) {
  VideoPlan plan{.stages = {{.name = "text", .weight_bytes = 100, .part_bytes = 100, .arena_bytes = 5},
                            {.name = "denoise", .weight_bytes = 230, .part_bytes = 200, .arena_bytes = 50},
                            {.name = "decode", .weight_bytes = 45, .part_bytes = 40, .arena_bytes = 90}},
                 .shared_bytes = 10,
                 .peak_bytes = 290};
  const Claim released = claim_of(plan, {}, 0);
  EXPECT_EQ(released.own, 10u + 95);
  const auto none = [](const std::set<PartKey>&) { return uint64_t{0}; };
  const auto together = [&](std::vector<Claim> claims) { return bytes_together(claims, none); };
  EXPECT_EQ(together({released}), 290u) << "alone as planned";
  EXPECT_EQ(together({released, released}), std::min(2u * 290, 2u * 105 + 100 + 2 * 200 + 40));
  plan.keeps = true, plan.peak_bytes = 10 + 375 + 90;
  const Claim kept = claim_of(plan, {}, 0);
  EXPECT_EQ(kept.own, 10u + 30 + 5 + 90);
  EXPECT_EQ(together({kept}), plan.peak_bytes);
  EXPECT_EQ(together({kept, kept}), plan.peak_bytes + kept.own);
  const Claim low = claim_of(plan, {.compute = Compute::bf16}, 0);
  EXPECT_EQ(together({kept, low}), 2 * plan.peak_bytes) << "they share nothing";
}

TEST(Claims, AStageThatNobodyNamedIsNotTakenForAnother) {
  VideoPlan plan{.stages = {{.name = "upscale", .weight_bytes = 10, .part_bytes = 10}}, .peak_bytes = 10};
  EXPECT_THROW(claim_of(plan, {}, 0), Error);
  plan.stages[0].part_bytes = 0;  // without a part there is nothing to name
  EXPECT_EQ(claim_of(plan, {}, 0).own, 10u);
}

}  // namespace
}  // namespace tachy
