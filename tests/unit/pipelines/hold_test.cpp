// Tests a run that is told to hold: it waits in every stage with what it has, others compute meanwhile, and its bits
// are those of a run that was never held.
#include "tensor/hold.h"

#include <gmock/gmock.h>

#include <ctime>
#include <future>

#include "recording_device.h"
#include "tiny_model.h"

namespace tachy {
namespace {

using test::Result;
using namespace std::chrono_literals;

std::string shipped() { return std::string(TACHY_TEST_MODELS) + "/sprites"; }

VideoRequest small_request(uint64_t seed) {
  VideoRequest r;
  r.prompt = "a red circle moves right", r.seed = seed;
  r.width = r.height = 64, r.frames = 9, r.steps = 3;
  return r;
}

// A run in a thread of its own, which holds itself when a stage has come so far.
class HeldRun {
 public:
  HeldRun(TextToVideo& pipeline, const VideoRequest& request, std::string stage, int64_t done)
      : stage_(std::move(stage)), done_(done) {
    callbacks_ = {.cancel = &cancel, .hold = &hold};
    callbacks_.progress = [this](const Progress& p) {
      ++reports, eta = p.eta_seconds;
      if (p.stage != stage_ || p.done < done_ || held_) return;
      held_ = true, hold = true;
      told_.set_value();
    };
    run_ = std::async(std::launch::async, [&pipeline, request, this] {
      const double begin = monotonic_seconds();
      Result out = test::run(pipeline, request, callbacks_);
      took = monotonic_seconds() - begin, waited = held_seconds();
      return out;
    });
  }
  ~HeldRun() { hold = false; }

  bool holds() { return told_.get_future().wait_for(60s) == std::future_status::ready; }
  bool goes_on(std::chrono::milliseconds most) { return run_.wait_for(most) == std::future_status::ready; }
  Result get() { return run_.get(); }

  std::atomic<bool> cancel{false}, hold{false};
  std::atomic<int> reports{0};
  std::atomic<double> eta{0};
  double took = 0, waited = 0;

 private:
  const std::string stage_;
  const int64_t done_;
  bool held_ = false;
  VideoCallbacks callbacks_;
  std::promise<void> told_;
  std::future<Result> run_;
};

double process_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Where {
  const char* stage;
  int64_t done;
};

class Hold : public testing::TestWithParam<Where> {};

TEST_P(Hold, OthersGoOnAndTheBitsAreEqual) {
  const auto [stage, done] = GetParam();
  const VideoRequest request = small_request(1), other = small_request(2);
  static const Result want = test::run(shipped(), request), others = test::run(shipped(), other);
  TextToVideo pipeline(ModelBundle::open(shipped()), {.threads = 2});
  HeldRun held(pipeline, request, stage, done);
  ASSERT_TRUE(held.holds());
  std::this_thread::sleep_for(100ms);  // until the run has reached its next check
  const int reports = held.reports;
  EXPECT_EQ(test::run(pipeline, other).rgb, others.rgb);
  // Another run that waits for a part makes the run that loads it go on until it is loaded, but no further.
  if (std::string(stage) != "load") {
    EXPECT_EQ(held.reports, reports) << "it went on while it was held";
  }
  EXPECT_FALSE(held.goes_on(0ms));
  const double before = process_seconds();
  std::this_thread::sleep_for(400ms);
  EXPECT_LT(process_seconds() - before, 0.1) << "it computed, or waited without sleeping";
  held.hold = false;
  const Result got = held.get();
  EXPECT_EQ(got.latents, want.latents);
  EXPECT_EQ(got.rgb, want.rgb);
  EXPECT_GT(held.waited, 0.4);
}

// One of several tries is within the time, since a machine may be held up in any of them.
TEST_P(Hold, CancelEndsItAtOnce) {
  TextToVideo pipeline(ModelBundle::open(shipped()), {.threads = 2});
  bool at_once = false;
  for (int tries = 0; tries < 5 && !at_once; ++tries) {
    HeldRun held(pipeline, small_request(1), GetParam().stage, GetParam().done);
    ASSERT_TRUE(held.holds());
    std::this_thread::sleep_for(100ms);
    held.cancel = true;
    at_once = held.goes_on(100ms);
    EXPECT_TRUE(held.goes_on(20s)) << "it is still held, and would wait for ever";
    held.hold = false;
    EXPECT_THAT(test::refusal([&] { held.get(); }, ErrorCode::cancelled), testing::HasSubstr("cancelled"));
  }
  EXPECT_TRUE(at_once);
}

INSTANTIATE_TEST_SUITE_P(Stages, Hold,
                         testing::Values(Where{"text", 0}, Where{"load", 0}, Where{"denoise", 0},
                                         Where{"denoise", 2}, Where{"decode", 0}, Where{"decode", 1}),
                         [](const auto& info) {
                           return fmt::format("{}{}", info.param.stage, info.param.done);
                         });

TEST(Holding, TimeDoesNotCountAsComputing) {
  TextToVideo pipeline(ModelBundle::open(shipped()), {.threads = 2});
  HeldRun held(pipeline, small_request(1), "denoise", 1);
  ASSERT_TRUE(held.holds());
  std::this_thread::sleep_for(3s);
  const int reports = held.reports;
  held.hold = false;
  while (held.reports == reports) std::this_thread::sleep_for(1ms);
  const double eta = held.eta;
  held.get();
  EXPECT_LT(eta, 1.5) << "a step that waited for 3 s says nothing about the next one";
}

TEST(Holding, ABodyOfAPoolDoesNotWait) {
  const std::atomic<bool> hold{true};
  const Hooks hooks{.hold = &hold};
  ThreadPool pool(2);
  std::atomic<int> done{0};
  pool.run(8, [&](int64_t, int) { hold_run(hooks), ++done; });
  EXPECT_EQ(done, 8) << "the workers are for all runs";
  EXPECT_FALSE(ThreadPool::in_body());
}

TEST(Holding, RanksWaitTogether) {
  const VideoRequest request = small_request(1);
  TextToVideo pipeline(ModelBundle::open(shipped()), {.threads = 2, .ranks = 2});
  const Result want = test::run(pipeline, request);
  HeldRun held(pipeline, request, "denoise", 1);
  ASSERT_TRUE(held.holds());
  EXPECT_FALSE(held.goes_on(300ms));
  held.hold = false;
  EXPECT_EQ(held.get().rgb, want.rgb);
}

// The steps that are recorded, and the graphs that are kept for the next run, are those of a run that is not held.
TEST(Holding, RecordedStepsStayRight) {
  VideoRequest request = test::short_request();
  request.steps = 4;
  const Result want = test::run(test::model_path(), request, {.weights = WeightMode::packed});
  const auto device = std::make_shared<test::RecordingDevice>(test::kPlenty);
  TextToVideo pipeline(ModelBundle::open(test::model_path()),
                       {.threads = 2, .weights = WeightMode::packed, .keep_loaded = true, .memory = device});
  for (const int64_t step : {0, 1, 2, 3}) {
    HeldRun held(pipeline, request, "denoise", step);
    ASSERT_TRUE(held.holds());
    EXPECT_FALSE(held.goes_on(100ms));
    held.hold = false;
    const Result got = held.get();
    EXPECT_EQ(got.latents, want.latents) << step;
    EXPECT_EQ(got.rgb, want.rgb) << step;
    EXPECT_EQ(pipeline.counters().captured, 1) << step;
  }
  EXPECT_EQ(device->launches, 3 + 3 * 4);
}

TEST(Holding, AGraphIsRecordedInOneGo) {
  const std::atomic<bool> hold{true};
  const Hooks hooks{.hold = &hold};
  const NoHold in_one_go;
  hold_run(hooks);
}

TEST(Holding, WhoIsAwaitedGoesOn) {
  const std::atomic<bool> hold{true};
  std::atomic<int> awaited{0};
  const Hooks hooks{.hold = &hold, .awaited = &awaited};
  auto run = std::async(std::launch::async, [&] { hold_run(hooks); });
  EXPECT_EQ(run.wait_for(50ms), std::future_status::timeout);
  awaited = 1;
  EXPECT_EQ(run.wait_for(5s), std::future_status::ready);
}

}  // namespace
}  // namespace tachy
