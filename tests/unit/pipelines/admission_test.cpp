// Tests which run may begin on a device (session/admission.h): the order, waking and cancelling of waiting
// jobs, one budget for all models on a device, and idle sessions that end after a while or for another model.
#include "session/admission.h"

#include <gmock/gmock.h>

#include <future>

#include "recording_device.h"
#include "tiny_model.h"

namespace tachy {
namespace {

using test::HostDevice;
using test::Result;
using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr uint64_t kRoom = 100;

// Says whether the condition becomes true before long.
template <class What>
bool soon(What&& what, std::chrono::milliseconds most = 20s) {
  const auto end = std::chrono::steady_clock::now() + most;
  while (!what() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(1ms);
  return what();
}

// A model that is open on a device, and claims on it without jobs, each of which may take kRoom bytes.
class Desk {
 public:
  explicit Desk(const std::shared_ptr<HostDevice>& device, ModelOptions options = {})
      : model_(ModelBundle::open(test::model_path()), on(device, std::move(options))) {}

  Admission::Place enter(uint64_t bytes, StopFlags stop = {}, bool in_thread = false) {
    const VideoPlan plan{.stages = {{.name = "decode", .arena_bytes = bytes}},
                         .peak_bytes = bytes,
                         .budget_bytes = kRoom,
                         .budget = "the test"};
    Wish wish{.tenant = &tenancy().tenant(), .plan = &plan, .claim = claim_of(plan, {}, 0), .session = true};
    if (in_thread) wish.claim.thread = std::this_thread::get_id();
    Admission::Lock lock = tenancy().lock();
    return admission().enter(lock, wish, stop);
  }
  void leave(Admission::Place place) {
    Admission::Lock lock = tenancy().lock();
    admission().leave(lock, tenancy().tenant(), place);
  }
  void settle(Admission::Place place) {
    Admission::Lock lock = tenancy().lock();
    admission().settle(lock, tenancy().tenant(), place);
  }
  std::future<Admission::Place> later(uint64_t bytes, StopFlags stop = {}) {
    const size_t before = admission().waiting();
    auto out = std::async(std::launch::async, [this, bytes, stop] { return enter(bytes, stop); });
    EXPECT_TRUE(soon([&] { return admission().waiting() > before || is_in(out); }));
    return out;
  }
  static bool is_in(const std::future<Admission::Place>& who) {
    return who.wait_for(0s) == std::future_status::ready;
  }

  Tenancy& tenancy() { return model_.tenancy(); }
  Admission& admission() { return tenancy().admission(); }

 private:
  static ModelOptions on(const std::shared_ptr<HostDevice>& device, ModelOptions options) {
    options.threads = 1, options.memory = device;
    return options;
  }

  Model model_;
};

std::shared_ptr<HostDevice> small_device() { return std::make_shared<HostDevice>(kRoom); }

TEST(Admission, NobodyPassesWhoWaits) {
  const auto device = small_device();
  Desk one(device), other(device);
  const auto first = one.enter(40);
  auto large = one.later(90), small = other.later(40);
  EXPECT_FALSE(Desk::is_in(large));
  EXPECT_FALSE(Desk::is_in(small)) << "40 would fit beside 40, but the large one came first";
  EXPECT_EQ(one.admission().waiting(), 2u);
  one.leave(first);
  const auto in = large.get();
  EXPECT_EQ(small.wait_for(50ms), std::future_status::timeout);
  one.leave(in);
  other.leave(small.get());
  EXPECT_EQ(one.admission().waiting(), 0u);
}

// Small jobs that overlap one another never leave enough room for the large one.
TEST(Admission, AStreamOfSmallOnesDoesNotStarveALargeOne) {
  const auto device = small_device();
  Desk one(device), other(device);
  std::atomic<bool> end{false};
  std::atomic<int> begun{0};
  std::vector<std::thread> stream;
  for (int i = 0; i < 4; ++i)
    stream.emplace_back([&, i] {
      Desk& desk = i % 2 ? one : other;
      while (!end) {
        const auto place = desk.enter(30);
        ++begun;
        std::this_thread::sleep_for(2ms);
        desk.leave(place);
      }
    });
  ASSERT_TRUE(soon([&] { return begun > 20; }));
  auto large = std::async(std::launch::async, [&] {
    one.leave(one.enter(90));
    end = true;
  });
  EXPECT_EQ(large.wait_for(20s), std::future_status::ready);
  end = true;
  for (std::thread& t : stream) t.join();
}

TEST(Admission, WhoWaitsIsCancelledAndTheNextOneGoesOn) {
  const auto device = small_device();
  Desk desk(device);
  const auto first = desk.enter(60);
  std::atomic<bool> cancel{false};
  auto large = desk.later(90, &cancel), small = desk.later(30);
  EXPECT_FALSE(Desk::is_in(small));
  cancel = true;
  EXPECT_EQ(large.wait_for(5s), std::future_status::ready) << "it looks every 50 ms";
  EXPECT_THAT(test::refusal([&] { large.get(); }, ErrorCode::cancelled), HasSubstr("cancelled"));
  desk.leave(small.get());
  desk.leave(first);
}

TEST(Admission, WhoIsHeldLetsOthersPassAndKeepsItsPlace) {
  const auto device = small_device();
  Desk desk(device);
  const auto first = desk.enter(60);
  std::atomic<bool> hold{false};
  auto held = desk.later(90, {nullptr, &hold}), small = desk.later(30);
  EXPECT_EQ(small.wait_for(60ms), std::future_status::timeout);
  hold = true;
  const auto in = small.get();
  auto large = desk.later(80);
  desk.leave(first), desk.leave(in);
  const auto passed = large.get();
  auto last = desk.later(90);
  hold = false;
  desk.leave(passed);
  const auto then = held.get();
  EXPECT_FALSE(Desk::is_in(last)) << "it came later";
  desk.leave(then);
  desk.leave(last.get());
}

TEST(Admission, WhatNeverFitsIsRefusedAtOnce) {
  const auto device = small_device();
  Desk desk(device);
  const auto first = desk.enter(60);
  EXPECT_THAT(test::refusal([&] { desk.enter(101); }, ErrorCode::out_of_memory), HasSubstr("the test"));
  desk.leave(first);
}

// The run whose callback this is cannot end before the callback does, so the new run waits neither in line
// nor for room.
TEST(Admission, ARunInACallbackPassesOrIsRefused) {
  const auto device = small_device();
  Desk one(device), other(device);
  const auto outer = one.enter(40, nullptr, true);
  auto large = other.later(90);
  one.leave(one.enter(40));
  const auto refused = [&](Desk& desk) {
    return test::refusal([&] { desk.enter(70); }, ErrorCode::unsupported);
  };
  EXPECT_THAT(refused(one), HasSubstr("callback of a run of the same model"));
  EXPECT_THAT(refused(other), HasSubstr("callback of a run on the same device"));
  one.leave(outer);
  other.leave(large.get());
}

// Nothing waits for a world: a job that does not fit beside it is refused, even if the world was opened in
// the meantime.
TEST(Admission, NobodyWaitsForAWorld) {
  const auto device = small_device();
  Desk one(device), other(device);
  const auto world = one.enter(50);
  auto before = other.later(60);
  EXPECT_FALSE(Desk::is_in(before)) << "it may still fail to open";
  one.settle(world);
  EXPECT_THAT(test::refusal([&] { before.get(); }, ErrorCode::out_of_memory), HasSubstr("free on it"));
  EXPECT_THAT(test::refusal([&] { one.enter(60); }, ErrorCode::out_of_memory), HasSubstr("this run needs"));
  const auto job = other.enter(50);
  auto next = one.later(50);
  EXPECT_FALSE(Desk::is_in(next)) << "it waits for the job, not for the world";
  other.leave(job);
  one.leave(next.get());
  one.leave(world);
  other.leave(other.enter(60));
}

// There is room for everything on the device; only the limit is in the way.
TEST(Admission, ModelsThatShareALimitWaitForOneAnother) {
  const auto device = std::make_shared<HostDevice>(10 * kRoom);
  const ModelOptions shares{.max_vram = kRoom, .shares_vram = true};
  Desk one(device, shares), other(device, shares), apart(device, {.max_vram = kRoom});
  const auto first = one.enter(60);
  const auto beside = other.enter(40);
  EXPECT_EQ(other.tenancy().budget(0).bytes, kRoom) << "who plans may count on all of it";
  auto waits = other.later(50);
  EXPECT_FALSE(Desk::is_in(waits));
  other.leave(beside);
  EXPECT_EQ(waits.wait_for(50ms), std::future_status::timeout) << "50 do not fit beside 60";
  one.leave(first);
  const auto in = waits.get();
  apart.leave(apart.enter(90));
  one.settle(one.enter(30));
  EXPECT_EQ(other.tenancy().budget(0).bytes, kRoom - 30) << "the world of the other model stays";
  EXPECT_EQ(apart.tenancy().budget(0).bytes, kRoom);
  other.leave(in);
}

// Somebody will close the world, so it is waited for as a job is, and plans count on its memory.
TEST(Admission, WhoWaitsForWorldsIsNotRefused) {
  const auto device = small_device();
  const ModelOptions waits{.waits_for_worlds = true};
  Desk one(device, waits), other(device, waits);
  const auto world = one.enter(50);
  one.settle(world);
  EXPECT_EQ(other.tenancy().budget(0).bytes, kRoom);
  other.leave(other.enter(50));
  auto job = other.later(60);
  EXPECT_EQ(job.wait_for(50ms), std::future_status::timeout);
  one.leave(world);
  other.leave(job.get());
}

TEST(Admission, OneForEachDevice) {
  const auto device = small_device();
  Desk one(device), other(device), elsewhere(small_device());
  EXPECT_EQ(&one.admission(), &other.admission());
  EXPECT_NE(&one.admission(), &elsewhere.admission());
  const Model host(ModelBundle::open(test::model_path()), {.threads = 1}),
      again(ModelBundle::open(test::model_path()), {.threads = 1});
  EXPECT_EQ(Admission::of(nullptr, nullptr), Admission::of(nullptr, nullptr));
}

TEST(Admission, OneAtATimeIsOfAModel) {
  const auto device = std::make_shared<HostDevice>(test::kPlenty);
  Desk checked(device, {.verify_upload = true}), other(device);
  const auto first = checked.enter(10);
  auto second = checked.later(10);
  EXPECT_FALSE(Desk::is_in(second));
  checked.leave(first);
  checked.leave(second.get());
  other.leave(other.enter(10));
}

class Engines : public testing::Test {
 protected:
  static uint64_t peak() {
    static const uint64_t bytes = [] {
      TextToVideo alone(ModelBundle::open(test::model_path()),
                        on(std::make_shared<HostDevice>(test::kPlenty)));
      return alone.plan(test::short_request()).peak_bytes;
    }();
    return bytes;
  }
  static ModelOptions on(const std::shared_ptr<DeviceMemory>& device) {
    return {.threads = 2, .weights = WeightMode::packed, .memory = device};
  }
  static const Result& want() {
    static const Result made =
        test::run(test::model_path(), test::short_request(), {.weights = WeightMode::packed});
    return made;
  }
};

// Memory of another engine does not count as foreign: each engine plans with the whole device, and they
// alternate if they must.
TEST_F(Engines, OfOneDeviceShareIt) {
  for (const uint64_t capacity : {peak() + peak() / 2, 2 * peak()}) {
    const auto device = std::make_shared<HostDevice>(capacity);
    TextToVideo one(ModelBundle::open(test::model_path()), on(device)),
        other(ModelBundle::open(test::model_path()), on(device));
    std::atomic<int> now{0}, most{0}, arrived{0};
    std::vector<std::thread> threads;
    for (TextToVideo* engine : {&one, &other})
      threads.emplace_back([&, engine] {
        VideoCallbacks callbacks;
        callbacks.progress = [&](const Progress& p) {
          if (p.stage != "denoise" || p.done != 1) return;
          ++arrived, most = std::max(most.load(), ++now);
          EXPECT_EQ(engine->plan(test::short_request()).budget_bytes, capacity);
          if (capacity == 2 * peak()) {
            EXPECT_TRUE(soon([&] { return arrived == 2; }, 60s));
          }
          most = std::max(most.load(), now.load());
          --now;
        };
        EXPECT_EQ(test::run(*engine, test::short_request(), callbacks).latents, want().latents);
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(most, capacity == 2 * peak() ? 2 : 1);
    EXPECT_LE(device->peak_bytes(), capacity);
    EXPECT_EQ(device->live_bytes(), 0u);
  }
}

// Each engine keeps its model and its session until the other one needs the room.
TEST_F(Engines, WhatOneKeepsIsGivenUpForTheOther) {
  const auto all = [&] {
    ModelOptions keeps = on(std::make_shared<HostDevice>(test::kPlenty));
    keeps.keep_loaded = true;
    return TextToVideo(ModelBundle::open(test::model_path()), keeps).plan(test::short_request()).peak_bytes;
  }();
  const auto device = std::make_shared<HostDevice>(all + all / 4);
  ModelOptions keeps = on(device);
  keeps.keep_loaded = true;
  TextToVideo one(ModelBundle::open(test::model_path()), keeps),
      other(ModelBundle::open(test::model_path()), keeps);
  for (int round = 0; round < 2; ++round)
    for (TextToVideo* engine : {&one, &other}) {
      ASSERT_TRUE(engine->plan(test::short_request()).keeps);
      EXPECT_EQ(test::run(*engine, test::short_request()).latents, want().latents);
      EXPECT_GT(device->live_bytes(), 0u);
    }
  EXPECT_LE(device->peak_bytes(), all + all / 4);
}

// The device has room for both models, but their common limit has not.
TEST_F(Engines, WhoSharesALimitGivesUpWhatItKeepsAndFitsBesideNoOther) {
  ModelOptions options = on(std::make_shared<HostDevice>(test::kPlenty));
  options.keep_loaded = true;
  const uint64_t all =
      TextToVideo(ModelBundle::open(test::model_path()), options).plan(test::short_request()).peak_bytes;
  for (const bool shares : {true, false}) {
    const auto device = std::make_shared<HostDevice>(test::kPlenty);
    options.memory = device, options.max_vram = all + all / 4, options.shares_vram = shares;
    TextToVideo one(ModelBundle::open(test::model_path()), options),
        other(ModelBundle::open(test::model_path()), options);
    const auto prepared = other.prepare(other.resolved(test::short_request()));
    VideoCallbacks callbacks;
    callbacks.progress = [&](const Progress& p) {
      if (p.stage == "denoise" && p.done == 1) EXPECT_EQ(other.fits_beside(prepared), !shares);
    };
    EXPECT_EQ(test::run(one, test::short_request(), callbacks).latents, want().latents);
    const uint64_t kept = device->live_bytes();
    EXPECT_TRUE(other.fits_beside(prepared)) << "what the first one keeps will be given up";
    EXPECT_EQ(device->live_bytes(), kept) << "a question releases nothing";
    EXPECT_EQ(test::run(other, test::short_request()).latents, want().latents);
    EXPECT_EQ(device->peak_bytes() <= options.max_vram, shares);
  }
}

TEST_F(Engines, IdleSessionsAreGivenBackAfterAWhile) {
  for (const double seconds : {0.1, 0.0, -1.0}) {
    const auto device = std::make_shared<test::RecordingDevice>(test::kPlenty);
    ModelOptions options = on(device);
    options.keep_loaded = true, options.idle_seconds = seconds;
    const auto model = std::make_shared<Model>(ModelBundle::open(test::model_path()), options);
    TextToVideo engine(model);
    for (int run = 1; run <= 2; ++run) {
      EXPECT_EQ(test::run(engine, test::short_request()).latents, want().latents);
      const uint64_t weights = model->parts().held_bytes();
      if (seconds >= 0) {
        EXPECT_TRUE(soon([&] { return engine.open_sessions() == 0; })) << seconds;
        EXPECT_TRUE(soon([&] { return device->live_bytes() == weights; })) << "the model's parts stay";
        EXPECT_EQ(engine.counters().captured, run) << "the next run makes its own again";
      } else {
        std::this_thread::sleep_for(50ms);
        EXPECT_EQ(engine.open_sessions(), 1u);
        EXPECT_GT(device->live_bytes(), weights);
        EXPECT_EQ(engine.counters().captured, 1);
      }
      EXPECT_GT(weights, 0u);
    }
  }
}

// The pool is destroyed while its session is idle, and while an idle session is being given up.
TEST_F(Engines, APoolEndsWithoutWaitingForItsIdleSessions) {
  for (const double seconds : {600.0, 0.001}) {
    const auto device = std::make_shared<HostDevice>(test::kPlenty);
    ModelOptions options = on(device);
    options.keep_loaded = true, options.idle_seconds = seconds;
    const auto begin = std::chrono::steady_clock::now();
    {
      TextToVideo engine(ModelBundle::open(test::model_path()), options);
      test::run(engine, test::short_request());
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 60s);
    EXPECT_EQ(device->live_bytes(), 0u);
  }
}

}  // namespace
}  // namespace tachy
