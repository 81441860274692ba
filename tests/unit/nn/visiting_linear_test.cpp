// A weight that comes to the device for each product gives a dense weight's bits, without its memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../pipelines/host_device.h"
#include "nn/upload_check.h"
#include "nn/weight_form.h"
#include "nn_case.h"

namespace tachy::nn {
namespace {

using tachy::test::HostDevice;
using test::HostRun;

constexpr int64_t kVisitorIn = 1024, kVisitorOut = 1536, kVisitorRows = 3;

struct Case {
  // The layer is joined, [2·1536, 1024] in float32, in this stream's arithmetic.
  Case() {
    file.add("k", {kVisitorOut, kVisitorIn}, DType::bf16);
    file.add("v", {kVisitorOut, kVisitorIn});
    for (const TensorSource::Entry& e : file.entries)
      parts.push_back({Tensor(const_cast<void*>(e.data), e.dtype, e.dims)});
  }
  std::vector<float> product(const WeightForm& weight, Stream& stream) const {
    const auto x = HostRun::rows(kVisitorRows, kVisitorIn);
    std::vector<float> y(static_cast<size_t>(kVisitorRows * weight.out()), NAN);
    weight.product({.x = Tensor(const_cast<float*>(x.data()), DType::f32, {kVisitorRows, kVisitorIn}),
                    .weight = {},
                    .y = Tensor(y.data(), DType::f32, {kVisitorRows, weight.out()})},
                   stream);
    return y;
  }

  test::RandomFile file;
  std::vector<WeightPart> parts;
};

TEST(VisitingWeight, GivesADenseWeightsBitsAndKeepsNothing) {
  const Case c;
  HostRun host;
  HostDevice device(size_t{1} << 28);
  ParamStore dense_store({}, host.stream), store({}, host.stream);
  const WeightPtr dense = make_dense_weight(c.parts, dense_store);
  const WeightPtr visiting = make_visiting_weight(c.parts, store);
  ASSERT_NE(visiting, nullptr);
  EXPECT_EQ(store.bytes(), 0u);
  EXPECT_EQ(visiting->out(), 2 * kVisitorOut);
  EXPECT_EQ(visiting->in(), kVisitorIn);
  const std::vector<float> want = c.product(*dense, host.stream);
  host.stream.memory = &device;
  for (int time = 0; time < 2; ++time) EXPECT_EQ(c.product(*visiting, host.stream), want);
  EXPECT_GE(device.pieces.load(), size_t{2} * 2 * 4 * kVisitorOut * kVisitorIn / (2 << 20))
      << "it came twice";
}

TEST(VisitingWeight, SmallOrMadeOnesStay) {
  const Case c;
  HostRun host;
  ParamStore store({}, host.stream);
  const WeightPart one[] = {{c.parts[0].tensor.slice(0, 0, kVisitorOut / 4), {}}};
  EXPECT_EQ(make_visiting_weight(one, store), nullptr);
  std::vector<WeightPart> made = c.parts;
  made[1].derived = std::make_shared<test::MadeValues>(c.file.entries[1]);
  EXPECT_EQ(make_visiting_weight(made, store), nullptr);
}

TEST(VisitingWeight, WhatArrivesWrongIsFoundWhereUploadsAreVerified) {
  const Case c;
  HostRun host;
  HostDevice device(size_t{1} << 28);
  host.stream.memory = &device;
  ParamStore store({}, host.stream);
  const UploadCheck check(device, *host.stream.pool);
  const WeightPtr visiting = make_visiting_weight(c.parts, store);
  c.product(*visiting, host.stream);
  device.damaged_piece = static_cast<int64_t>(device.pieces) + 1;
  try {
    c.product(*visiting, host.stream);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::device);
    EXPECT_THAT(e.message(), testing::HasSubstr("a weight that came for a product"));
  }
}

}  // namespace
}  // namespace tachy::nn
