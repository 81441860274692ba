// Linear layers in 8 bits on a device's memory, whole and streamed: each row of a weight is made once, though its
// codes and its scales are two tensors.
#include <gtest/gtest.h>

#include "../nn/nn_case.h"
#include "host_device.h"
#include "nn/linear.h"

namespace tachy::test {
namespace {

constexpr int64_t kIn = 64, kOut = 300, kBlocks = 4;  // rows of codes that no piece of an upload cuts

// Counts the rows that it makes.
class Counting final : public DerivedTensor {
 public:
  Counting(const TensorSource::Entry& entry, std::atomic<int64_t>& made) : values_(entry), made_(made) {}
  std::string_view encoding() const override { return "counted"; }
  void decode(int64_t first, const Tensor& rows) const override {
    made_ += rows.dim(0);
    values_.decode(first, rows);
  }

 private:
  StoredValues values_;
  std::atomic<int64_t>& made_;
};

TEST(EightBitsOnADevice, EachRowOfAWeightIsMadeOnce) {
  std::atomic<int64_t> made{0};
  RandomFile file;
  for (int64_t i = 0; i < kBlocks; ++i) {
    file.add_linear(fmt::format("blocks.{}", i), kIn, kOut);
    TensorSource::Entry& weight = file.entries[static_cast<size_t>(2 * i)];
    weight.derived = std::make_shared<Counting>(weight, made);
  }
  const Scope scope = file.scope();
  for (const Products products : {Products::e4m3, Products::int8})
    for (const int64_t streamed : {0, 3}) {
      HostDevice device(size_t{1} << 26);
      HostRun host;
      Stream stream{.pool = &host.pool, .memory = &device, .precision = {.products = products}};
      nn::ParamStore store({.streamed = streamed}, stream);
      store.set_eight_bits([](std::string_view) { return true; });
      const auto build = [&](nn::ParamStore& to, int64_t i) {
        return nn::Linear(scope.sub(fmt::format("blocks.{}", i)), to, kIn, kOut);
      };
      made = 0;
      const auto blocks = store.stream_blocks(kBlocks, [&](nn::ParamStore& one) { build(one, 0); });
      EXPECT_EQ(made, 0) << "a plan reads nothing";
      for (int64_t i = 0; i < kBlocks; ++i) {
        nn::ParamStore::BlockScope block(store, i);
        EXPECT_STREQ(build(store, i).form(), products == Products::int8 ? "int8" : "fp8");
        block.done();
      }
      EXPECT_EQ(made, kBlocks * kOut) << "streamed " << streamed;
    }
}

}  // namespace
}  // namespace tachy::test
