// Tests a device with too little memory: blocks are streamed through two slots with the same results, the
// plan counts every byte, and what cannot fit is refused before anything is loaded, with what would fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deep_model.h"
#include "host_device.h"

namespace tachy {
namespace {

using test::deep_model;
using test::HostDevice;
using test::kLayers;
using test::kPlenty;
using testing::HasSubstr;
TextToVideo::Options on(const std::shared_ptr<HostDevice>& device, uint64_t max_vram = 0) {
  return {.threads = 2, .weights = WeightMode::packed, .max_vram = max_vram, .memory = device};
}

template <class Run>
Error failure(Run&& run) {
  try {
    run();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "it succeeded";
  return Error(ErrorCode::internal, "no error");
}

const StagePlan& stage(const VideoPlan& plan, std::string_view name) {
  for (const StagePlan& s : plan.stages)
    if (s.name == name) return s;
  throw std::out_of_range(std::string(name));
}

TEST(BlockStream, SpreadsBlocksEvenly) {
  for (int64_t blocks = 3; blocks <= 40; ++blocks)
    for (int64_t streamed = 3; streamed <= blocks; ++streamed) {
      int64_t next = 0, last = -1;
      for (int64_t i = 0; i < blocks; ++i) {
        const int64_t rank = runtime::BlockStream::rank_of(i, blocks, streamed);
        if (rank < 0) continue;
        EXPECT_EQ(rank, next++);
        if (last >= 0) {
          EXPECT_GE(i - last, blocks / streamed);
          EXPECT_LE(i - last, (blocks + streamed - 1) / streamed);
        }
        last = i;
      }
      EXPECT_EQ(next, streamed) << blocks;
    }
}

// The passes go over 3 to 7 blocks, and some are stopped half-way: each block always finds its own bytes.
TEST(BlockStream, EveryBlockFindsItself) {
  for (int64_t blocks = 3; blocks <= 7; ++blocks)
    for (int64_t streamed = 3; streamed <= blocks; ++streamed) {
      HostDevice device(kPlenty);
      constexpr int64_t kBytes = 512;
      const Buffer slots(2 * kBytes, &device);
      runtime::BlockStream stream(device, blocks, streamed, slots.tensor(DType::u8, {2, kBytes}));
      for (int64_t i = 0; i < blocks; ++i)
        if (stream.rank(i) >= 0) {
          std::memset(stream.image(i), static_cast<int>(i + 1), kBytes);
          stream.loaded(i);
        }
      EXPECT_EQ(device.pinned, streamed);
      int64_t before = 0;
      for (int pass = 0; pass < 12; ++pass) {
        const int64_t stop = pass % 3 == 1 ? pass % blocks : blocks;
        for (int64_t i = 0; i < stop; ++i) {
          stream.enter(i);
          if (stream.rank(i) >= 0) {
            ASSERT_EQ(stream.slot(i)[0], i + 1) << "pass " << pass << ", " << streamed << " of " << blocks;
            ASSERT_EQ(stream.slot(i)[kBytes - 1], i + 1);
          }
          stream.leave(i);
        }
        if (stop == blocks) stream.finish();
        if (pass == 10) before = device.copies;
      }
      // When one whole pass follows another, each block is sent once; with three blocks the second one stays
      // in its slot.
      if (11 % 3 != 1 && 10 % 3 != 1) {
        EXPECT_EQ(device.copies - before, streamed == 3 ? 2 : streamed);
      }
    }
}

TEST(Offload, GivesTheSameBits) {
  const VideoRequest request = test::short_request();
  const auto plain = test::run(deep_model(), request, {.threads = 2, .weights = WeightMode::packed});
  auto device = std::make_shared<HostDevice>(kPlenty);
  TextToVideo resident(ModelBundle::open(deep_model()), on(device));
  EXPECT_EQ(test::run(resident, request).latents, plain.latents);
  EXPECT_EQ(device->copies, 0);
  EXPECT_GT(device->pieces, 0u);

  const VideoPlan whole = resident.plan(request);
  bool streamed = false;
  // Budgets go down to the least that works.
  const uint64_t step = whole.peak_bytes / 16 + 1;
  for (uint64_t budget = whole.peak_bytes; budget > step; budget -= step) {
    device = std::make_shared<HostDevice>(kPlenty);
    TextToVideo small(ModelBundle::open(deep_model()), on(device, budget));
    const VideoPlan plan = small.plan(request);
    EXPECT_EQ(plan.budget_bytes, budget);
    if (plan.peak_bytes > budget) break;
    const int64_t now = stage(plan, "denoise").streamed + stage(plan, "text").streamed;
    if (streamed && now == 0) ADD_FAILURE() << "a smaller budget streams nothing";
    device->reset_peak();
    const auto result = test::run(small, request);
    EXPECT_EQ(result.latents, plain.latents) << budget;
    EXPECT_EQ(result.rgb, plain.rgb);
    EXPECT_EQ(device->peak_bytes(), plan.peak_bytes) << budget;  // both are equal to the byte
    EXPECT_EQ(device->live_bytes(), 0u);
    EXPECT_EQ(device->pinned, 0);
    streamed |= now > 0;
    if (now > 0) {
      EXPECT_GT(device->copies, 0);
    }
  }
  EXPECT_TRUE(streamed) << "no budget needed it: the test's model is too small";
}

TEST(Offload, TheTextEncoderStreamsToo) {
  const ModelBundle model = ModelBundle::open(deep_model());
  ThreadPool pool(2);
  const auto plain = test::encode_streamed(model, 0, {.pool = &pool});
  for (const int64_t streamed : {0, 3, 4, 17, kLayers}) {
    HostDevice device(kPlenty);
    EXPECT_EQ(test::encode_streamed(model, streamed, {.pool = &pool, .memory = &device}), plain) << streamed;
    EXPECT_EQ(device.live_bytes(), 0u);
    if (streamed > 0) {
      EXPECT_GE(device.copies, 2 * streamed - 2);
    }
  }
}

TEST(Offload, HappensByItselfWhereMemoryIsShort) {
  const VideoRequest request = test::short_request();
  auto device = std::make_shared<HostDevice>(kPlenty);
  const uint64_t whole = TextToVideo(ModelBundle::open(deep_model()), on(device)).plan(request).peak_bytes;
  device = std::make_shared<HostDevice>(whole - 1);
  TextToVideo pipeline(ModelBundle::open(deep_model()), on(device));
  const VideoPlan plan = pipeline.plan(request);
  EXPECT_LT(plan.peak_bytes, whole);
  EXPECT_GT(plan.host_bytes, 0u);
  EXPECT_EQ(test::run(pipeline, request).rgb, test::run(deep_model(), request).rgb);
}

TEST(Offload, WhatCannotFitIsRefusedWithWhatWould) {
  VideoRequest request = test::short_request();
  request.frames = 81;
  auto device = std::make_shared<HostDevice>(kPlenty);
  VideoRequest fewer = request;
  fewer.frames = 33;
  // This is the least memory that 33 frames need, with every block streamed.
  const uint64_t budget = TextToVideo(ModelBundle::open(deep_model()), on(device, 1)).plan(fewer).peak_bytes;
  TextToVideo pipeline(ModelBundle::open(deep_model()), on(device, budget));
  const int64_t before = device->allocations;
  const Error e = failure([&] { test::run(pipeline, request); });
  EXPECT_EQ(e.code(), ErrorCode::out_of_memory) << e.message();
  EXPECT_EQ(device->allocations, before) << "something was loaded";
  EXPECT_THAT(e.message(), HasSubstr("`max_vram`"));
  // The number of frames that the error names fits; the next number does not.
  const size_t at = e.message().find("`frames` ");
  ASSERT_NE(at, std::string::npos) << e.message();
  request.frames = std::stoi(e.message().substr(at + 9));
  EXPECT_GE(*request.frames, 33);
  EXPECT_LE(pipeline.plan(request).peak_bytes, budget);
  request.frames = *request.frames + 4;
  EXPECT_GT(pipeline.plan(request).peak_bytes, budget);
}

// Whichever allocation of a run fails, there is a clear error that names the stage and lists the holders of
// memory, and nothing is left behind.
TEST(OutOfMemory, AtEveryAllocation) {
  const VideoRequest request = test::short_request();
  auto device = std::make_shared<HostDevice>(kPlenty);
  TextToVideo pipeline(ModelBundle::open(deep_model()), on(device));
  const auto expected = test::run(pipeline, request);
  const int64_t count = device->allocations;
  ASSERT_GT(count, 20);
  for (int64_t i = 0; i < count; i += 7) {
    device->allocations = 0, device->fail_at = i;
    int frames = 0;
    const Error e =
        failure([&] { pipeline.generate(request, {.frame = [&](const RgbImage&, int64_t) { ++frames; }}); });
    EXPECT_EQ(e.code(), ErrorCode::out_of_memory) << i;
    EXPECT_THAT(e.message(), HasSubstr("held here:"));
    EXPECT_THAT(e.message(), HasSubstr("together"));
    if (i > 8) {
      EXPECT_THAT(e.message(), testing::ContainsRegex("^(text|denoise|decode): ")) << i;
    }
    EXPECT_EQ(frames, 0);
    EXPECT_EQ(device->live_bytes(), 0u) << i;
  }
  device->fail_at = -1;
  EXPECT_EQ(test::run(pipeline, request).rgb, expected.rgb);
}

TEST(OutOfMemory, OfPageLockedMemory) {
  const VideoRequest request = test::short_request();
  auto device = std::make_shared<HostDevice>(kPlenty);
  const uint64_t whole = TextToVideo(ModelBundle::open(deep_model()), on(device)).plan(request).peak_bytes;
  device->pin_fails = true;
  TextToVideo pipeline(ModelBundle::open(deep_model()), on(device, whole - 1));
  const Error e = failure([&] { test::run(pipeline, request); });
  EXPECT_EQ(e.code(), ErrorCode::out_of_memory);
  EXPECT_THAT(e.message(), HasSubstr("page-lock"));
  EXPECT_EQ(device->live_bytes(), 0u);
}

TEST(Offload, CancelledInAStepItGoesOnAsNew) {
  const VideoRequest request = test::short_request();
  auto device = std::make_shared<HostDevice>(kPlenty);
  const uint64_t whole = TextToVideo(ModelBundle::open(deep_model()), on(device)).plan(request).peak_bytes;
  TextToVideo::Options options = on(device, whole - 1);
  TextToVideo pipeline(ModelBundle::open(deep_model()), options);
  std::atomic<bool> cancel{false};
  VideoCallbacks callbacks{.cancel = &cancel};
  callbacks.progress = [&](const Progress& p) {
    if (p.stage == "denoise" && p.done == 1) cancel = true;
  };
  EXPECT_EQ(failure([&] { test::run(pipeline, request, callbacks); }).code(), ErrorCode::cancelled);
  EXPECT_EQ(device->live_bytes(), 0u);
  cancel = false, callbacks.progress = {};
  EXPECT_EQ(test::run(pipeline, request, callbacks).rgb, test::run(deep_model(), request).rgb);
}

TEST(MemoryLedger, ListsTheLargestFirst) {
  MemoryLedger ledger;
  int a = 0, b = 0, c = 0;
  ledger.label = "small", ledger.add(&a, 10);
  ledger.label = "large", ledger.add(&b, 3 << 20), ledger.add(&c, 1 << 20);
  const std::string table = ledger.table();
  EXPECT_LT(table.find("large"), table.find("small"));
  EXPECT_THAT(table, HasSubstr("in 2"));
  ledger.remove(&b), ledger.remove(&b);
  EXPECT_EQ(ledger.live(), (1u << 20) + 10);
  EXPECT_EQ(ledger.peak(), (4u << 20) + 10);
}

}  // namespace
}  // namespace tachy
