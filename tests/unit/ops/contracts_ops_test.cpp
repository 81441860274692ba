// Properties besides the numbers that callers of group_norm, add_norm, reparameterize, quantize, causal
// attention and the backward ops rely on: clear errors, measure runs, in-place use, NaN that is not lost.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <list>

#include "ops/add_norm/add_norm.h"
#include "ops/attention/attention_backward.h"
#include "ops/gated_residual/gated_residual_backward.h"
#include "ops/group_norm/group_norm.h"
#include "ops/group_norm/group_norm_backward.h"
#include "ops/impl_table.h"
#include "ops/layernorm_modulate/layernorm_modulate_backward.h"
#include "ops/lora/lora.h"
#include "ops/lora/lora_backward.h"
#include "ops/quantize/quantize.h"
#include "ops/reparameterize/reparameterize.h"
#include "ops/rmsnorm/rmsnorm_backward.h"
#include "ops/rope/rope.h"
#include "ops/scaled_gemm/scaled_gemm.h"

namespace tachy {
namespace {

using testing::HasSubstr;

class OpContracts : public testing::Test {
 protected:
  Tensor make(DType dtype, std::initializer_list<int64_t> dims) {
    Tensor t(nullptr, dtype, dims);
    buffers_.emplace_back(static_cast<size_t>(t.bytes()));
    t.data = buffers_.back().data();
    return t;
  }
  Tensor f32(std::initializer_list<int64_t> dims, float first = 0.5f) {
    const Tensor t = make(DType::f32, dims);
    for (int64_t i = 0; i < t.numel(); ++i) t.as<float>()[i] = first + 0.25f * static_cast<float>(i % 13);
    return t;
  }
  static std::string error_of(const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.message();
    }
    return "no error";
  }
  std::list<Buffer> buffers_;
  ThreadPool pool_{2};
  Arena arena_{1 << 20};
  Stream stream_{&arena_, &pool_};
};

TEST_F(OpContracts, ErrorsSayWhatWasExpected) {
  const Tensor x = f32({2, 8}), y = f32({2, 8}), video = f32({1, 4, 6});
  EXPECT_THAT(error_of([&] { ops::group_norm({.x = video, .groups = 4, .y = video}, stream_); }),
              HasSubstr("group_norm: expected groups that divide 6 channels, got 4"));
  EXPECT_THAT(error_of([&] { ops::group_norm({.x = video, .groups = 0, .y = video}, stream_); }),
              HasSubstr("got 0"));
  EXPECT_THAT(error_of([&] {
                ops::add_norm({.x = x, .u = f32({2, 7}), .y = y}, stream_);
              }),
              testing::AllOf(HasSubstr("add_norm"), HasSubstr("u"), HasSubstr("[2, 7]")));
  EXPECT_THAT(error_of([&] { ops::add_norm({.x = x, .u = x, .sum = y, .y = y}, stream_); }),
              HasSubstr("sum and y in different places"));
  EXPECT_THAT(error_of([&] {
                ops::reparameterize({.mean = x, .logvar = x, .noise = x, .center = f32({2}), .z = y},
                                    stream_);
              }),
              HasSubstr("center and factor together"));
  EXPECT_THAT(
      error_of([&] {
        ops::quantize({.x = x, .block = {1, 4}, .scale = f32({2, 1}), .q = make(DType::i8, {2, 8})}, stream_);
      }),
      testing::AllOf(HasSubstr("scale"), HasSubstr("[2, 2]")));
  EXPECT_THAT(error_of([&] {
                ops::quantize({.x = x, .scale = f32({1, 1}), .q = make(DType::u8, {2, 8})}, stream_);
              }),
              HasSubstr("f8_e4m3, f8_e5m2 or i8, got u8"));
  EXPECT_THAT(error_of([&] {
                ops::quantize({.x = x, .block = {-1, 0}, .scale = f32({1, 1}), .q = make(DType::i8, {2, 8})},
                              stream_);
              }),
              HasSubstr("block size"));
  const Tensor q = f32({1, 2, 1, 4});
  EXPECT_THAT(
      error_of([&] { ops::attention({.q = q, .k = q, .v = q, .causal_offset = 1, .out = q}, stream_); }),
      HasSubstr("needs causal"));
  EXPECT_THAT(error_of([&] {
                ops::attention({.q = q, .k = q, .v = q, .causal = true, .causal_offset = 3, .out = q},
                               stream_);
              }),
              HasSubstr("causal_offset in [-2, 2], got 3"));
  EXPECT_THAT(error_of([&] {
                ops::attention_backward(
                    {.forward = {.q = q, .k = q, .v = q, .out = q}, .dout = q, .dq = q, .dk = q, .dv = q},
                    stream_);
              }),
              HasSubstr("lse"));
  EXPECT_THAT(error_of([&] {
                ops::layernorm_modulate_backward({.x = x, .dy = x, .dx = y, .dscale = f32({1, 8})}, stream_);
              }),
              HasSubstr("need scale"));
  EXPECT_THAT(
      error_of([&] { ops::gated_residual_backward({.gate = x, .dy = x, .du = y, .dgate = y}, stream_); }),
      HasSubstr("dgate needs gate and u, got no u"));
  EXPECT_THAT(error_of([&] {
                ops::rmsnorm_backward({.x = make(DType::bf16, {2, 8}), .dy = x, .dx = y}, stream_);
              }),
              HasSubstr("f32 or f64, got bf16"));
  EXPECT_THAT(error_of([&] {
                ops::rope_table_1d(3, 5, 10000.0, f32({3, 2}), f32({3, 2}));
              }),
              HasSubstr("even head dim"));
}

// A run takes exactly the memory that a measure run asks for; with one step less it fails.
TEST_F(OpContracts, AdaptersSayWhatWasExpected) {
  const Tensor x = f32({3, 8}), a = f32({2, 4, 8}), b = f32({2, 6, 4}), y = f32({3, 6}),
               index = make(DType::i32, {3});
  const auto error = [&](const ops::LoraArgs& args) { return error_of([&] { ops::lora(args, stream_); }); };
  EXPECT_EQ(error({.x = x, .a = a, .b = b, .y = y}), "no error");
  EXPECT_THAT(error({.x = x, .a = a, .b = f32({2, 6, 5}), .y = y}),
              HasSubstr("lora: expected b [2, -1, 4], got [2, 6, 5]"));
  EXPECT_THAT(error({.x = x, .a = f32({4, 8}), .b = b, .y = y}), HasSubstr("a [n, r, K], got [4, 8]"));
  EXPECT_THAT(error({.x = x, .a = make(DType::i8, {2, 4, 8}), .b = b, .y = y}), HasSubstr("got i8"));
  EXPECT_THAT(error({.x = x, .a = a, .b = make(DType::bf16, {2, 6, 4}), .y = y}), HasSubstr("b"));
  EXPECT_THAT(error({.x = x, .a = a, .b = b, .scales = f32({3}), .y = y}), HasSubstr("scales [2]"));
  for (const int32_t bad : {-2, 2}) {
    index.as<int32_t>()[0] = 0, index.as<int32_t>()[1] = -1, index.as<int32_t>()[2] = bad;
    EXPECT_THAT(error({.x = x, .a = a, .b = b, .index = index, .y = y}),
                HasSubstr(fmt::format("expected index[2] in [-1, 2), got {}", bad)));
  }
}

TEST_F(OpContracts, AdaptersWithoutRowsHaveGradientsOfZero) {
  const Tensor none = f32({1, 8}).slice(0, 0, 0), dy = f32({1, 6}).slice(0, 0, 0), a = f32({2, 4, 8}),
               b = f32({2, 6, 4}), da = f32({2, 4, 8}), db = f32({2, 6, 4}), dscales = f32({2});
  ops::lora({.x = none, .a = a, .b = b, .y = dy}, stream_);
  ops::lora_backward({.x = none, .a = a, .b = b, .dy = dy, .da = da, .db = db, .dscales = dscales}, stream_);
  for (const Tensor* t : {&da, &db, &dscales})
    for (int64_t i = 0; i < t->numel(); ++i) EXPECT_EQ(t->as<float>()[i], 0) << i;
  EXPECT_THAT(error_of([&] {
                ops::lora_backward({.x = f32({3, 8}), .a = a, .b = b, .dy = f32({2, 6})}, stream_);
              }),
              HasSubstr("dy [3, 6], got [2, 6]"));
}

// A bad value in one adapter affects the rows that use it, and one in a row of x affects only its own row of
// y.
TEST_F(OpContracts, AdaptersKeepToTheirRows) {
  const Tensor x = f32({4, 8}), a = f32({2, 4, 8}), b = f32({2, 6, 4}), y = f32({4, 6}),
               index = make(DType::i32, {4});
  a.as<float>()[4 * 8 + 3] = NAN, b.as<float>()[6 * 4 + 5] = INFINITY;
  const int32_t rows[] = {0, 1, -1, 0};
  std::copy_n(rows, 4, index.as<int32_t>());
  for (const char* impl : {"cpu", "ref"}) {
    ops::set_forced_impl("lora", impl);
    ops::lora({.x = x, .a = a, .b = b, .index = index, .y = y}, stream_);
    ops::set_forced_impl("lora", nullptr);
    for (int64_t i = 0; i < 24; ++i) {
      const float v = y.as<float>()[i];
      EXPECT_EQ(std::isnan(v), i / 6 == 1) << impl << i;
      if (i / 6 == 2) {
        EXPECT_EQ(v, 0) << impl << i;
      }
    }
  }
}

TEST_F(OpContracts, ScratchIsWhatTheMeasureRunSaid) {
  const Tensor x = f32({2, 300, 24}), flat = f32({600, 24});
  const std::pair<const char*, std::function<void(Stream&)>> runs[] = {
      {"group_norm", [&](Stream& s) { ops::group_norm({.x = x, .groups = 4, .y = x}, s); }},
      {"group_norm_backward",
       [&](Stream& s) {
         ops::group_norm_backward({.x = x, .groups = 4, .dy = x, .dx = f32({2, 300, 24})}, s);
       }},
      {"gated_residual_backward",
       [&](Stream& s) {
         ops::gated_residual_backward(
             {.u = flat, .gate = f32({3, 24}), .dy = flat, .du = f32({600, 24}), .dgate = f32({3, 24})}, s);
       }},
      {"lora",
       [&](Stream& s) {
         ops::lora({.x = flat, .a = f32({2, 4, 24}), .b = f32({2, 7, 4}), .y = f32({600, 7})}, s);
       }},
      {"scaled_gemm",
       [&](Stream& s) {
         ops::scaled_gemm({.x = make(DType::i8, {600, 24}),
                           .x_scale = f32({600}),
                           .weight = make(DType::i8, {50, 24}),
                           .weight_scale = f32({50}),
                           .y = f32({600, 50})},
                          s);
       }},
      {"quantize", [&](Stream& s) {
         ops::quantize({.x = flat, .scale = f32({1, 1}), .q = make(DType::f8_e4m3, {600, 24})}, s);
       }}};
  for (const auto& [name, run] : runs) {
    Arena measure;
    Stream planned{&measure, &pool_};
    run(planned);
    ASSERT_GT(measure.peak(), 0u) << name;
    Arena exact(measure.peak()), small(measure.peak() - 256);
    Stream fits{&exact, &pool_}, fails{&small, &pool_};
    EXPECT_NO_THROW(run(fits)) << name;
    EXPECT_EQ(exact.peak(), measure.peak()) << name;
    EXPECT_EQ(exact.mark(), 0u) << name;
    EXPECT_THROW(run(fails), Error) << name;
  }
}

TEST_F(OpContracts, InPlaceEqualsOutOfPlace) {
  const auto same = [&](const Tensor& x, const Tensor& y, const std::function<void(Tensor, Tensor)>& run) {
    run(x, y);
    run(x, x);
    for (int64_t i = 0; i < x.numel(); ++i) ASSERT_EQ(x.as<float>()[i], y.as<float>()[i]) << i;
  };
  const Tensor u = f32({5, 37}, -2), w = f32({37});
  same(f32({2, 50, 12}), f32({2, 50, 12}), [&](Tensor x, Tensor y) {
    ops::group_norm({.x = x, .groups = 3, .act = ops::Activation::mish, .y = y}, stream_);
  });
  for (const auto kind : {ops::NormKind::rms, ops::NormKind::layer}) {
    same(f32({5, 37}), f32({5, 37}), [&](Tensor x, Tensor y) {
      ops::add_norm({.x = x, .u = u, .kind = kind, .weight = w, .y = y}, stream_);
    });
    same(f32({5, 37}), f32({5, 37}), [&](Tensor x, Tensor sum) {
      ops::add_norm({.x = x, .u = u, .kind = kind, .sum = sum, .y = f32({5, 37})}, stream_);
    });
  }
  same(f32({5, 37}), f32({5, 37}), [&](Tensor x, Tensor y) {
    ops::reparameterize({.mean = x, .logvar = u, .noise = u, .z = y}, stream_);
  });
  const Tensor gate = f32({1, 37}), first = f32({1, 37}), second = f32({1, 37});
  same(f32({5, 37}), f32({5, 37}), [&](Tensor branch, Tensor du) {
    const Tensor& dgate = du.data == branch.data ? second : first;
    ops::gated_residual_backward({.u = branch, .gate = gate, .dy = u, .du = du, .dgate = dgate}, stream_);
  });
  for (int64_t i = 0; i < 37; ++i) EXPECT_EQ(first.as<float>()[i], second.as<float>()[i]) << i;
  same(f32({5, 37}), f32({5, 37}), [&](Tensor dy, Tensor dx) {
    ops::gated_residual_backward({.gate = gate, .dy = dy, .dx = dx, .du = f32({5, 37})}, stream_);
  });
}

TEST_F(OpContracts, NanIsNotLost) {
  const auto poisoned = [&](std::initializer_list<int64_t> dims, float bad = NAN) {
    const Tensor t = f32(dims);
    t.as<float>()[1] = bad;
    return t;
  };
  const Tensor video = f32({1, 2, 8});
  ops::group_norm({.x = poisoned({1, 2, 8}), .groups = 2, .y = video}, stream_);
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(std::isnan(video.as<float>()[i]), i % 8 < 4) << "its group, no other";
  const Tensor y = f32({2, 40});
  ops::add_norm({.x = f32({2, 40}), .u = poisoned({2, 40}), .y = y}, stream_);
  EXPECT_TRUE(std::isnan(y.as<float>()[0]) && !std::isnan(y.as<float>()[40]));
  ops::reparameterize({.mean = f32({2, 40}), .logvar = poisoned({2, 40}), .noise = f32({2, 40}), .z = y},
                      stream_);
  EXPECT_TRUE(std::isnan(y.as<float>()[1]) && !std::isnan(y.as<float>()[0]));
  // A bad value in a block makes the whole block NaN, in every type: nothing plausible is left of it.
  for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2, DType::i8})
    for (const float bad : {NAN, INFINITY, -INFINITY}) {
      const Tensor q = make(dtype, {2, 40}), scale = f32({2, 1});
      ops::quantize({.x = poisoned({2, 40}, bad), .block = {1, 0}, .scale = scale, .q = q}, stream_);
      ops::dequantize({.q = q, .block = {1, 0}, .scale = scale, .y = y}, stream_);
      for (int i = 0; i < 80; ++i)
        EXPECT_EQ(std::isnan(y.as<float>()[i]), i < 40) << dtype_name(dtype) << bad;
    }
}

TEST_F(OpContracts, QuantisedZerosComeBackAsZeros) {
  for (const DType dtype : {DType::f8_e4m3, DType::f8_e5m2, DType::i8}) {
    const Tensor x = f32({3, 20}), q = make(dtype, {3, 20}), scale = f32({3, 2}), y = f32({3, 20});
    std::fill_n(x.as<float>() + 20, 20, 0.0f);
    ops::quantize({.x = x, .block = {1, 15}, .scale = scale, .q = q}, stream_);
    EXPECT_EQ(scale.as<float>()[2], 1.0f);
    ops::dequantize({.q = q, .block = {1, 15}, .scale = scale, .y = y}, stream_);
    for (int i = 0; i < 60; ++i)
      EXPECT_NEAR(y.as<float>()[i], x.as<float>()[i],
                  i / 20 == 1 ? 0 : 0.13 * std::abs(x.as<float>()[i]) + 0.02);
  }
}

TEST_F(OpContracts, NoWorkForEmptyBatches) {
  ops::group_norm({.x = f32({0, 3, 4}), .groups = 2, .y = f32({0, 3, 4})}, stream_);
  ops::group_norm({.x = f32({2, 0, 4}), .groups = 2, .y = f32({2, 0, 4})}, stream_);
  ops::add_norm({.x = f32({0, 4}), .u = f32({0, 4}), .y = f32({0, 4})}, stream_);
  ops::reparameterize({.mean = f32({2, 0}), .logvar = f32({2, 0}), .noise = f32({2, 0}), .z = f32({2, 0})},
                      stream_);
  ops::quantize({.x = f32({0, 4}), .scale = f32({0, 1}), .q = make(DType::i8, {0, 4})}, stream_);
}

}  // namespace
}  // namespace tachy
