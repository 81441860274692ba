// Tests views: shapes, strides and offsets, and the errors of the accessors.
#include "tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace tachy {
namespace {

struct TensorTest : testing::Test {
  std::vector<float> values = std::vector<float>(24);
  Tensor t{values.data(), DType::f32, {2, 3, 4}};
  void SetUp() override { std::iota(values.begin(), values.end(), 0.0f); }
};

TEST_F(TensorTest, ShapeAndStrides) {
  EXPECT_THAT(t.shape(), testing::ElementsAre(2, 3, 4));
  EXPECT_EQ(t.numel(), 24);
  EXPECT_EQ(t.bytes(), 96);
  EXPECT_EQ(t.dim(-1), 4);
  EXPECT_EQ(t.stride(0), 12);
  EXPECT_EQ(t.stride(-2), 4);
  EXPECT_TRUE(t.contiguous());
  EXPECT_EQ(shape_string(t), "[2, 3, 4]");
  EXPECT_THROW(t.dim(3), Error);
  EXPECT_THROW(t.dim(-4), Error);
  EXPECT_FALSE(Tensor().defined());
  EXPECT_EQ(Tensor().numel(), 0);
}

TEST_F(TensorTest, SliceSelectTransposeMoveNothing) {
  const Tensor slice = t.slice(1, 1, 3);
  EXPECT_THAT(slice.shape(), testing::ElementsAre(2, 2, 4));
  EXPECT_EQ(slice.as<float>()[0], 4.0f);
  EXPECT_FALSE(slice.contiguous());
  EXPECT_TRUE(slice.inner_contiguous());
  EXPECT_TRUE(t.slice(0, 1, 2).contiguous());
  EXPECT_EQ(t.slice(1, 2, 2).numel(), 0);

  const Tensor row = t.select(0, 1);
  EXPECT_THAT(row.shape(), testing::ElementsAre(3, 4));
  EXPECT_EQ(*row.as<float>(), 12.0f);
  const Tensor column = t.select(-1, 2);
  EXPECT_THAT(column.shape(), testing::ElementsAre(2, 3));
  EXPECT_EQ(column.as<float>()[column.stride(0) + 2 * column.stride(1)], 22.0f);

  const Tensor swapped = t.transpose(0, -1);
  EXPECT_THAT(swapped.shape(), testing::ElementsAre(4, 3, 2));
  EXPECT_EQ(swapped.data, t.data);
  EXPECT_EQ(swapped.as<float>()[3 * swapped.stride(0) + 2 * swapped.stride(1) + swapped.stride(2)], 23.0f);
  EXPECT_FALSE(swapped.inner_contiguous());

  EXPECT_THROW(t.slice(0, 1, 3), Error);
  EXPECT_THROW(t.slice(0, -1, 1), Error);
  EXPECT_THROW(t.slice(0, 2, 1), Error);
  EXPECT_THROW(t.select(1, 3), Error);
  EXPECT_THROW(t.select(1, -1), Error);
}

TEST_F(TensorTest, View) {
  EXPECT_THAT(t.view({6, -1}).shape(), testing::ElementsAre(6, 4));
  EXPECT_THAT(t.view({-1}).shape(), testing::ElementsAre(24));
  EXPECT_THROW(t.view({5, -1}), Error);
  EXPECT_THROW(t.view({23}), Error);
  EXPECT_THROW(t.transpose(0, 1).view({24}), Error);
  // An axis of size 1 does not affect contiguity.
  EXPECT_TRUE(t.slice(0, 0, 1).transpose(0, 1).contiguous());
}

TEST_F(TensorTest, TypedAccessChecksTheDtype) {
  EXPECT_EQ(t.as<const float>(), values.data());
  EXPECT_THROW(t.as<int32_t>(), Error);
  EXPECT_THROW(t.as<bf16_t>(), Error);
}

TEST_F(TensorTest, BadShapesAreRefused) {
  EXPECT_THROW(Tensor(nullptr, DType::f32, {1, 2, 3, 4, 5, 6, 7}), Error);
  EXPECT_THROW(Tensor(nullptr, DType::f32, {2, -1}), Error);
  EXPECT_EQ(Tensor(nullptr, DType::f32, {1, 2, 3, 4, 5, 6}).numel(), 720);
}

TEST_F(TensorTest, ExpectationsNameBothSides) {
  EXPECT_NO_THROW(expect_shape("op", "x", t, {2, -1, 4}));
  EXPECT_NO_THROW(expect_dtype("op", "x", t, DType::f32));
  try {
    expect_shape("rmsnorm", "weight", t, {2, 3});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_EQ(error.message(), "rmsnorm: expected weight [2, 3], got [2, 3, 4]");
  }
  try {
    expect_dtype("rmsnorm", "weight", t, DType::bf16);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "rmsnorm: expected weight of dtype bf16, got f32");
  }
  EXPECT_TRUE(same_shape(t, t));
  EXPECT_FALSE(same_shape(t, t.select(0, 0)));
  EXPECT_FALSE(same_shape(t, t.transpose(0, 1)));
}

}  // namespace
}  // namespace tachy
