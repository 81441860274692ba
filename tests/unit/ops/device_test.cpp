// Tensors know which GPU they are on: an op refuses tensors of another GPU. The test needs no GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/rmsnorm/rmsnorm.h"
#include "stand_in_gpu.h"

namespace tachy {
namespace {

using testing::HasSubstr;
using testing::Not;

struct StandIn final : test::StandInGpu {
  explicit StandIn(int index) { info_.index = index; }
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
