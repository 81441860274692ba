// Tensors say which GPU they lie on: an op refuses those of another one. No GPU is needed to find that out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "cuda/gpu.h"
#include "ops/rmsnorm/rmsnorm.h"

namespace tachy {
namespace {

using testing::HasSubstr;
using testing::Not;

class StandIn final : public cuda::Gpu {
 public:
  explicit StandIn(int index) { info_.index = index; }
  size_t free_bytes() const override { return 0; }
  void* allocate(size_t bytes) override { return std::malloc(bytes); }
  void release(void* p, size_t) noexcept override { std::free(p); }
  void upload(void*, const void*, size_t) override {}
  void download(void*, const void*, size_t) override {}
  void copy(void*, const void*, size_t) override {}
  void fill(void*, int, size_t) override {}
  void synchronize() override {}
  size_t live_bytes() const override { return 0; }
  size_t peak_bytes() const override { return 0; }
  void reset_peak() override {}
};

TEST(Device, AnOpRefusesATensorOfAnotherGpu) {
  StandIn second(1);
  ThreadPool pool(1);
  Arena measure;
  Stream stream{.arena = &measure, .pool = &pool, .gpu = &second, .memory = &second};
  EXPECT_EQ(stream.device(), Device::cuda(1));
  const auto message = [&](Device device) {
    const Tensor x(nullptr, DType::f32, {2, 8}, device), weight(nullptr, DType::f32, {8}, Device::cuda(1));
    try {
      ops::rmsnorm({.x = x, .weight = weight, .y = x}, stream);
    } catch (const Error& e) {
      return e.message();
    }
    return std::string("run");
  };
  EXPECT_THAT(message(Device::cuda(0)), HasSubstr("expected x on cuda:1, got a tensor on cuda:0"));
  EXPECT_THAT(message(Device::cuda(1)), Not(HasSubstr("cuda:0")));
}

}  // namespace
}  // namespace tachy
