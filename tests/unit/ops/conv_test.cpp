// The convolutions are compared with PyTorch and diffusers' Wan VAE modules, in all implementations for this
// CPU, and streamed with any split.
#include <gmock/gmock.h>

#include "cpu/conv_tiles.h"
#include "cpu/conv_weights.h"
#include "gemm_conv_golden.h"
#include "ops/conv2d/conv2d.h"
#include "ops/conv3d/conv3d.h"
#include "ops/upsample_conv2d/upsample_conv2d.h"

namespace tachy {
namespace {

using ops::CausalConv3dArgs;
using ops::Conv2dArgs;

class Conv : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string_view impl = GetParam();
    if (impl == "ref") return;
    const auto form = impl == "f32" ? cpu::ConvForm::f32 : cpu::ConvForm::onednn;
    if (const auto why = cpu::conv_form_why_not(form, Compute::f32)) GTEST_SKIP() << why->text();
  }
  Forced conv2d_{"conv2d", GetParam()}, conv3d_{"causal_conv3d", GetParam()},
      upsample_{"upsample_conv2d", GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Implementations, Conv, testing::Values("f32", "onednn", "ref"),
                         [](const auto& info) { return std::string(info.param); });

Tensor packed3d(GoldenCase& golden, const Tensor& w) {
  const Tensor packed =
      golden.bytes(ops::packed_conv3d_bytes(w.dim(0), w.dim(1), w.dim(2), w.dim(3), w.dim(4)));
  ops::pack_conv3d_weight(w, packed, golden.stream());
  return packed;
}

TEST_P(Conv, Conv2dAgreesWithTorch) {
  for (const char* name : {"conv2d", "conv1x1", "downsample2d"}) {
    GoldenCase golden(name);
    const Tensor w = golden.load("weight"), expected = golden.load("y");
    Conv2dArgs args{.x = golden.load("x"), .kernel_h = w.dim(2), .kernel_w = w.dim(3)};
    const bool down = std::string_view(name) == "downsample2d";
    args.stride = down ? 2 : 1;
    args.pad_top = args.pad_left = down ? 0 : (w.dim(2) - 1) / 2;
    args.pad_bottom = args.pad_right = down ? 1 : (w.dim(2) - 1) / 2;
    args.packed = golden.bytes(ops::packed_conv2d_bytes(w.dim(0), w.dim(1), w.dim(2), w.dim(3)));
    ops::pack_conv2d_weight(w, args.packed, golden.stream());
    if (std::string_view(name) != "conv1x1") args.bias = golden.load("bias");
    args.y = golden.empty(expected.shape());
    ops::conv2d(args, golden.stream());
    expect_close(args.y, expected, name);
  }
}

TEST_P(Conv, UpsamplingAgreesWithDiffusers) {
  GoldenCase golden("upsample2d");
  const Tensor w = golden.load("weight"), expected = golden.load("y");
  const Tensor packed = golden.bytes(ops::packed_upsample_conv2d_bytes(w.dim(0), w.dim(1)));
  ops::pack_upsample_conv2d_weight(w, packed, golden.stream());
  const Tensor y = golden.empty(expected.shape());
  ops::upsample_conv2d({.x = golden.load("x"), .packed = packed, .bias = golden.load("bias"), .y = y},
                       golden.stream());
  expect_close(y, expected, "upsample2d");
}

// The whole clip is computed at once, and in every split into chunks with the cache carried between them.
TEST_P(Conv, CausalConvStreams) {
  for (const std::vector<int64_t>& chunks :
       std::vector<std::vector<int64_t>>{{4}, {1, 3}, {1, 1, 2}, {2, 2}, {3, 1}}) {
    GoldenCase golden("causal_conv3d");
    const Tensor x = golden.load("x"), w = golden.load("weight"), expected = golden.load("y");
    const Tensor y = golden.empty(expected.shape());
    const int64_t cache_dims[] = {2, x.dim(1), x.dim(2), x.dim(3)};
    const Tensor cache = golden.empty(cache_dims), packed = packed3d(golden, w), bias = golden.load("bias");
    int64_t history = 0, at = 0;
    for (const int64_t n : chunks) {
      const Tensor part = x.slice(0, at, at + n);
      ops::causal_conv3d({.x = part,
                          .cache = cache,
                          .history = history,
                          .packed = packed,
                          .bias = bias,
                          .y = y.slice(0, at, at + n)},
                         golden.stream());
      history = ops::push_frames(cache, history, part, golden.stream());
      at += n;
      EXPECT_EQ(history, std::min<int64_t>(2, at));
    }
    expect_close(y, expected, "causal_conv3d");
  }
}

TEST_P(Conv, TimeConvolutionsAgreeWithDiffusers) {
  for (const char* name : {"time_up", "time_down"}) {
    GoldenCase golden(name);
    const Tensor w = golden.load("weight"), expected = golden.load("y"), cache = golden.load("cache");
    const Tensor y = golden.empty(expected.shape());
    ops::causal_conv3d({.x = golden.load("x"),
                        .cache = cache,
                        .history = cache.dim(0),
                        .front = cache.dim(0),
                        .time_stride = std::string_view(name) == "time_down" ? 2 : 1,
                        .packed = packed3d(golden, w),
                        .kernel_h = 1,
                        .kernel_w = 1,
                        .bias = golden.load("bias"),
                        .y = y},
                       golden.stream());
    expect_close(y, expected, name);
  }
}

TEST(PushFrames, KeepsTheLastFramesAtTheEnd) {
  GoldenCase golden("conv2d");
  const int64_t cache_dims[] = {3, 1, 1, 2}, x_dims[] = {5, 1, 1, 2};
  const Tensor cache = golden.empty(cache_dims), x = golden.empty(x_dims);
  for (int64_t i = 0; i < 10; ++i) x.as<float>()[i] = static_cast<float>(i / 2);
  const auto frame = [&](int64_t i) { return cache.as<float>()[2 * i + 1]; };
  EXPECT_EQ(ops::push_frames(cache, 0, x.slice(0, 0, 1), golden.stream()), 1);
  EXPECT_EQ(frame(2), 0);
  EXPECT_EQ(ops::push_frames(cache, 1, x.slice(0, 1, 3), golden.stream()), 3);
  EXPECT_EQ((std::array{frame(0), frame(1), frame(2)}), (std::array{0.0f, 1.0f, 2.0f}));
  EXPECT_EQ(ops::push_frames(cache, 3, x.slice(0, 3, 4), golden.stream()), 3);
  EXPECT_EQ((std::array{frame(0), frame(1), frame(2)}), (std::array{1.0f, 2.0f, 3.0f}));
  EXPECT_EQ(ops::push_frames(cache, 3, x, golden.stream()), 3);
  EXPECT_EQ((std::array{frame(0), frame(1), frame(2)}), (std::array{2.0f, 3.0f, 4.0f}));
}

// Bands cover every output row once, and each reads rows that exist.
TEST(ConvTiles, BandsCoverTheFrame) {
  for (const int64_t height : {1, 2, 3, 16, 17, 45})
    for (const int64_t stride : {1, 2}) {
      const cpu::ConvShape shape{.h = height,
                                 .w = 33,
                                 .ci = 4,
                                 .co = 4,
                                 .kernel_h = 3,
                                 .kernel_w = 3,
                                 .stride = stride,
                                 .pad_top = 1,
                                 .pad_left = 1,
                                 .pad_bottom = 1,
                                 .pad_right = 1};
      const cpu::ConvTiles tiles(shape);
      int64_t next = 0;
      for (int64_t i = 0; i < tiles.count(); ++i) {
        const cpu::Band& band = tiles.band(i);
        EXPECT_EQ(band.first_row, next);
        EXPECT_GE(band.first_input, 0);
        EXPECT_GE(band.input_rows, 1);
        EXPECT_LE(band.first_input + band.input_rows, height);
        next += band.rows;
      }
      EXPECT_EQ(next, shape.out_h());
    }
}

TEST(Conv, NamesWhatIsWrong) {
  GoldenCase golden("causal_conv3d");
  const Tensor x = golden.load("x"), expected = golden.load("y");
  CausalConv3dArgs args{.x = x,
                        .history = 1,
                        .packed = packed3d(golden, golden.load("weight")),
                        .y = golden.empty(expected.shape())};
  const auto message = [&]() -> std::string {
    try {
      ops::causal_conv3d(args, golden.stream());
    } catch (const Error& error) {
      return error.message();
    }
    return "no error";
  };
  EXPECT_THAT(message(), testing::HasSubstr("history"));
  args.history = 0;
  EXPECT_EQ(message(), "no error");
  args.kernel_h = 2;
  EXPECT_THAT(message(), testing::HasSubstr("odd"));
  args.kernel_h = 3, args.y = args.y.slice(0, 0, 3);
  EXPECT_THAT(message(), testing::HasSubstr("y"));
}

}  // namespace
}  // namespace tachy
