// Tests the parts of a Stream: where it runs, in which precision, and what watches it.
#include "tensor/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "tensor/transfer.h"

namespace tachy {
namespace {

TEST(Device, HasATypeAndAnIndex) {
  EXPECT_EQ(device_name(Device::cpu), "cpu");
  EXPECT_EQ(device_name(Device::cuda(0)), "cuda:0");
  EXPECT_EQ(device_name(Device::cuda(3)), "cuda:3");
  EXPECT_NE(Device::cuda(0), Device::cuda(1));
  EXPECT_NE(Device::cuda(0), Device::cpu);
  EXPECT_NE(Device::null, Device::cpu);
  EXPECT_EQ(Tensor(nullptr, DType::f32, {2}).device, Device::cpu);
}

// A device that only tells which one it is.
class Named final : public DeviceMemory {
 public:
  explicit Named(int index) : index_(index) {}
  Device device() const override { return Device::cuda(index_); }
  void* allocate(size_t bytes) override { return std::aligned_alloc(kAlignment, bytes); }
  void release(void* p, size_t) noexcept override { std::free(p); }
  void upload(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy(void* to, const void* from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void fill(void* to, int byte, size_t bytes) override { std::memset(to, byte, bytes); }
  void synchronize() override {}
  size_t live_bytes() const override { return 0; }
  size_t peak_bytes() const override { return 0; }
  void reset_peak() override {}

 private:
  int index_;
};

TEST(Device, BuffersAndArenasSayWhereTheirTensorsLie) {
  Named second(1);
  EXPECT_EQ(Buffer(64, &second).tensor(DType::f32, {4}).device, Device::cuda(1));
  EXPECT_EQ(Buffer(64).tensor(DType::f32, {4}).device, Device::cpu);
  EXPECT_EQ(Arena(256, &second).f32({4}).device, Device::cuda(1));
  EXPECT_EQ(Arena().f32({4}).device, Device::null);
}

TEST(Transfer, ATensorOfAnotherDeviceIsRefused) {
  Named first(0), second(1);
  const Buffer here(64, &first), there(64, &second);
  const Tensor a = here.tensor(DType::f32, {4}), b = there.tensor(DType::f32, {4});
  Arena arena(256);
  const Stream stream{.arena = &arena, .memory = &first}, host{.arena = &arena};
  const float values[4] = {1, 2, 3, 4};
  float back[4] = {};
  upload(values, a, stream);
  download(a, back, stream);
  EXPECT_THAT(back, testing::ElementsAreArray(values));
  const auto refused = [](auto&& transfer, const char* words) {
    try {
      transfer();
      ADD_FAILURE() << "made: " << words;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::internal);
      EXPECT_THAT(e.message(), testing::HasSubstr(words));
    }
  };
  refused([&] { upload(values, b, stream); }, "a tensor on cuda:1 by a stream on cuda:0");
  refused([&] { copy_bytes(a, b, stream); }, "a tensor on cuda:1 by a stream on cuda:0");
  refused([&] { download(b, back, stream); }, "a tensor on cuda:1 by a stream on cuda:0");
  refused([&] { zero(a, host); }, "a tensor on cuda:0 by a stream on cpu");
}

TEST(Precision, WeightsDependOnActivationsAndProductsAlone) {
  const Precision plain;
  EXPECT_TRUE(plain.same_weights({.residual = DType::bf16, .definitions = true}));
  EXPECT_FALSE(plain.same_weights({.activation = DType::bf16}));
  EXPECT_FALSE(plain.same_weights({.compute = Compute::bf16}));
  EXPECT_NO_THROW(expect_same_weights("model", plain, plain));
  try {
    expect_same_weights("model", {.activation = DType::bf16}, {.activation = DType::f16});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::internal);
    EXPECT_THAT(e.message(), testing::HasSubstr("model: its weights were made for activations in bf16"));
  }
}

TEST(Hooks, Cancel) {
  Arena arena;
  ThreadPool pool(1);
  std::atomic<bool> cancel{false};
  const Stream stream{.arena = &arena, .pool = &pool, .hooks = {.cancel = &cancel}};
  EXPECT_TRUE(stream.measuring());
  EXPECT_EQ(stream.threads(), 1);
  EXPECT_NO_THROW(stream.throw_if_cancelled());
  cancel = true;
  try {
    stream.throw_if_cancelled();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
  }
}

TEST(Hooks, FlopsAreCountedInMeasureRunsOnly) {
  uint64_t flops = 0;
  Arena measure, real(256);
  Stream stream{.arena = &measure, .hooks = {.flops = &flops}};
  stream.count_flops(100);
  EXPECT_EQ(flops, 100u);
  stream.arena = &real;
  stream.count_flops(100);
  EXPECT_EQ(flops, 100u);
  Stream{.arena = &measure}.count_flops(100);  // without a tally nothing counts them
}

}  // namespace
}  // namespace tachy
