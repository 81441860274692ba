// Tests properties besides the numbers that callers rely on: clear errors for wrong arguments, measure runs
// that touch no data, scratch that matches the plan exactly, allowed strides and aliases, and propagation of
// NaN.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <list>

#include "ops/activation/activation.h"
#include "ops/attention/attention.h"
#include "ops/channel_norm/channel_norm.h"
#include "ops/elementwise/elementwise.h"
#include "ops/embedding/embedding.h"
#include "ops/gated_residual/gated_residual.h"
#include "ops/glu/glu.h"
#include "ops/layernorm_modulate/layernorm_modulate.h"
#include "ops/patchify/patchify.h"
#include "ops/qk_norm_rope/qk_norm_rope.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/rope/rope.h"

namespace tachy {
namespace {

class SimdContracts : public testing::Test {
 protected:
  Tensor f32(std::initializer_list<int64_t> dims, float first = 0.5f) {
    Tensor t(nullptr, DType::f32, dims);
    buffers_.emplace_back(static_cast<size_t>(t.bytes()));
    t.data = buffers_.back().data();
    for (int64_t i = 0; i < t.numel(); ++i) t.as<float>()[i] = first + 0.25f * static_cast<float>(i % 13);
    return t;
  }
  static Tensor null(std::initializer_list<int64_t> dims, DType dtype = DType::f32) {
    return Tensor(nullptr, dtype, dims, Device::null);
  }

  // Returns the text of the Error that `body` throws.
  static std::string error_of(const std::function<void()>& body,
                              ErrorCode code = ErrorCode::invalid_argument) {
    try {
      body();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      return error.message();
    }
    return "no error";
  }

  std::list<Buffer> buffers_;
  ThreadPool pool_{2};
  Arena arena_{1 << 20};
  Stream stream_{&arena_, &pool_};
};

using testing::HasSubstr;

TEST_F(SimdContracts, ErrorsNameTheOpTheTensorAndTheShapes) {
  EXPECT_THAT(error_of([&] {
                ops::rmsnorm({.x = f32({2, 8}), .weight = f32({7}), .y = f32({2, 8})}, stream_);
              }),
              testing::AllOf(HasSubstr("rmsnorm"), HasSubstr("weight"), HasSubstr("[8]"), HasSubstr("[7]")));
  EXPECT_THAT(error_of([&] {
                ops::layernorm_modulate({.x = f32({2, 8}), .scale = f32({1, 8}), .y = f32({2, 8})}, stream_);
              }),
              HasSubstr("scale and shift together"));
  EXPECT_THAT(error_of([&] {
                ops::rope(
                    {.x = f32({1, 2, 1, 3}), .cos = f32({2, 1}), .sin = f32({2, 1}), .y = f32({1, 2, 1, 3})},
                    stream_);
              }),
              HasSubstr("even head dim"));
  EXPECT_THAT(error_of([&] {
                ops::attention({.q = f32({1, 2, 1, 4}),
                                .k = f32({1, 3, 1, 4}),
                                .v = f32({1, 2, 1, 4}),
                                .out = f32({1, 2, 1, 4})},
                               stream_);
              }),
              testing::AllOf(HasSubstr("attention"), HasSubstr("v"), HasSubstr("[1, 3, 1, 4]")));
  EXPECT_THAT(error_of([&] {
                ops::patchify({.x = f32({1, 2, 1, 3, 4}), .y = f32({1, 2, 8})}, stream_);
              }),
              HasSubstr("whole patches"));
  int32_t places[] = {1, 0, 2, 4};
  EXPECT_THAT(
      error_of([&] {
        ops::unpatchify(
            {.x = f32({1, 4, 8}), .y = f32({1, 2, 1, 4, 4}), .place = Tensor(places, DType::i32, {4})},
            stream_);
      }),
      HasSubstr("place[3] in [0, 4), got 4"));
  EXPECT_THAT(
      error_of([&] {
        ops::patchify(
            {.x = f32({1, 2, 1, 4, 4}), .y = f32({1, 4, 8}), .place = Tensor(places, DType::i32, {3})},
            stream_);
      }),
      testing::AllOf(HasSubstr("place"), HasSubstr("[3]")));
  EXPECT_THAT(error_of([&] {
                ops::to_rgb8(f32({2, 4}), Tensor(nullptr, DType::u8, {2, 4}), stream_);
              }),
              HasSubstr("3 colours"));
  EXPECT_THAT(error_of([&] { ops::lincomb({.count = 9, .out = f32({2})}, stream_); }), HasSubstr("1 to 8"));
  EXPECT_THAT(
      error_of([&] {
        ops::channel_norm({.x = f32({2, 8}).transpose(0, 1), .gamma = f32({2}), .y = f32({8, 2})}, stream_);
      }),
      HasSubstr("contiguous"));
  int32_t rows[] = {0, 2};
  EXPECT_THAT(error_of([&] {
                ops::gated_residual({.x = f32({2, 4}),
                                     .u = f32({2, 4}),
                                     .gate = f32({2, 4}),
                                     .row = Tensor(rows, DType::i32, {2}),
                                     .y = f32({2, 4})},
                                    stream_);
              }),
              HasSubstr("row[1] in [0, 2), got 2"));
}

TEST_F(SimdContracts, EmbeddingNamesTheBadId) {
  int64_t ids[] = {0, 3, -1};
  const auto run = [&](int64_t count) {
    ops::embedding({.ids = Tensor(ids, DType::i64, {count}), .table = f32({4, 5}), .y = f32({count, 5})},
                   stream_);
  };
  EXPECT_NO_THROW(run(2));
  EXPECT_THAT(error_of([&] { run(3); }), HasSubstr("ids[2] in [0, 4), got -1"));
  ids[1] = 4;
  EXPECT_THAT(error_of([&] { run(2); }), HasSubstr("ids[1] in [0, 4), got 4"));
}

TEST_F(SimdContracts, MeasureRunsTouchNothing) {
  Arena measure;
  Stream s{&measure, &pool_};
  const Tensor m = null({6, 8}), c = null({8}), rows = null({6}, DType::i32), b = null({2, 3, 8});
  ops::rmsnorm({.x = m, .weight = c, .y = m}, s);
  ops::layernorm_modulate({.x = m, .scale = m, .shift = m, .row = rows, .y = m}, s);
  ops::gated_residual({.x = m, .u = m, .gate = m, .row = rows, .y = m}, s);
  ops::rope({.x = null({2, 3, 1, 8}), .cos = null({3, 4}), .sin = null({3, 4}), .y = null({2, 3, 1, 8})}, s);
  ops::rope_table_3d(1, 3, 1, 8, 10000.0, null({3, 4}), null({3, 4}));
  ops::qk_norm_rope({.x = b, .weight = c, .heads = 2, .cos = null({3, 2}), .sin = null({3, 2}), .y = b}, s);
  ops::activation({.x = m, .y = m}, s);
  ops::glu({.a = m, .b = m, .y = m}, s);
  ops::channel_norm({.x = m, .gamma = c, .y = m}, s);
  ops::patchify({.x = null({1, 2, 1, 4, 4}), .y = null({1, 4, 8})}, s);
  ops::unpatchify({.x = null({1, 4, 8}), .y = null({1, 2, 1, 4, 4})}, s);
  ops::embedding({.ids = null({6}, DType::i64), .table = null({9, 8}, DType::bf16), .y = m}, s);
  ops::lincomb({.terms = {{{m, 1}}}, .count = 1, .out = m}, s);
  ops::widen(null({6, 8}, DType::bf16), m, s);
  ops::copy({.x = m, .scale = c, .channel_axis = 1, .y = m}, s);
  ops::to_rgb8(null({4, 3}), null({4, 3}, DType::u8), s);
  ops::clamp(m, 0, 1, s);
  EXPECT_TRUE(ops::all_finite(m, s));
  ops::mark_nonfinite(m, null({1}, DType::i32), s);
  EXPECT_EQ(measure.peak(), 0u) << "none of these needs scratch";
  EXPECT_THROW(ops::rmsnorm({.x = m, .weight = null({7}), .y = m}, s), Error)
      << "arguments are checked all the same";
}

TEST_F(SimdContracts, AttentionScratchIsWhatTheMeasureRunSaid) {
  for (const auto& [lq, lk, d] : {std::tuple(1, 1, 1), std::tuple(100, 300, 20), std::tuple(7, 5, 384)}) {
    Arena measure;
    Stream s{&measure, &pool_};
    const Tensor q = f32({2, lq, 3, d}), k = f32({2, lk, 3, d}), out = f32({2, lq, 3, d});
    const ops::AttentionArgs args{.q = q, .k = k, .v = k, .out = out};
    ops::attention(args, s);
    Arena exact(measure.peak()), small(measure.peak() - 256);
    Stream fits{&exact, &pool_}, fails{&small, &pool_};
    EXPECT_NO_THROW(ops::attention(args, fits));
    EXPECT_EQ(exact.peak(), measure.peak());
    EXPECT_EQ(exact.mark(), 0u) << "scratch is given back";
    EXPECT_THROW(ops::attention(args, fails), Error);
  }
}

TEST_F(SimdContracts, AttentionWalksAnyOuterStrides) {
  // Heads lie before positions in memory: each tensor is [B, H, L, D], seen as [B, L, H, D].
  const int64_t l = 9, h = 3, d = 5;
  const Tensor q = f32({1, l, h, d}, -1), k = f32({1, l, h, d}, 0.2f), v = f32({1, l, h, d}, 3),
               out = f32({1, l, h, d});
  Arena arena(1 << 20);
  Stream s{&arena, &pool_};
  ops::attention({.q = q, .k = k, .v = v, .out = out}, s);
  const auto heads_first = [&](const Tensor& t) {
    const Tensor moved = f32({1, h, l, d}).transpose(1, 2);
    ops::copy({.x = t, .y = moved}, s);
    return moved;
  };
  const Tensor other = f32({1, h, l, d}).transpose(1, 2);
  ops::attention({.q = heads_first(q), .k = heads_first(k), .v = heads_first(v), .out = other}, s);
  for (int64_t i = 0; i < l; ++i)
    for (int64_t j = 0; j < h; ++j)
      for (int64_t c = 0; c < d; ++c)
        ASSERT_EQ(out.as<float>()[(i * h + j) * d + c], other.as<float>()[(j * l + i) * d + c]);
}

TEST_F(SimdContracts, InPlaceEqualsOutOfPlace) {
  const auto same = [&](const std::function<void(const Tensor& x, const Tensor& y)>& op, const Tensor& x) {
    const Tensor y = f32({x.dim(0), x.dim(1)});
    op(x, y);
    op(x, x);
    for (int64_t i = 0; i < x.numel(); ++i) ASSERT_EQ(x.as<float>()[i], y.as<float>()[i]) << i;
  };
  const Tensor c = f32({37}), table = f32({5, 37}, 2), other = f32({5, 37}, -3);
  same([&](auto x, auto y) { ops::rmsnorm({.x = x, .weight = c, .y = y}, stream_); }, f32({5, 37}));
  same([&](auto x,
           auto y) { ops::layernorm_modulate({.x = x, .scale = table, .shift = table, .y = y}, stream_); },
       f32({5, 37}));
  same([&](auto x, auto y) { ops::gated_residual({.x = x, .u = other, .gate = table, .y = y}, stream_); },
       f32({5, 37}));
  same([&](auto x, auto y) { ops::gated_residual({.x = other, .u = x, .y = y}, stream_); }, f32({5, 37}));
  same([&](auto x, auto y) { ops::glu({.a = x, .b = other, .y = y}, stream_); }, f32({5, 37}));
  same([&](auto x, auto y) { ops::glu({.a = other, .b = x, .y = y}, stream_); }, f32({5, 37}));
  same([&](auto x, auto y) { ops::channel_norm({.x = x, .gamma = c, .y = y}, stream_); }, f32({5, 37}));
  same(
      [&](auto x, auto y) {
        ops::lincomb({.terms = {{{other, 0.5f}, {x, -2.0f}}}, .count = 2, .out = y}, stream_);
      },
      f32({5, 37}));
  const Tensor cos = f32({5, 4}), sin = f32({5, 4}, 1);
  same(
      [&](auto x, auto y) {
        ops::qk_norm_rope(
            {.x = x.view({1, 5, 40}), .heads = 5, .cos = cos, .sin = sin, .y = y.view({1, 5, 40})}, stream_);
      },
      f32({5, 40}));
}

TEST_F(SimdContracts, NanReachesTheOutput) {
  const auto poisoned = [&](std::initializer_list<int64_t> dims) {
    const Tensor t = f32(dims);
    t.as<float>()[1] = NAN;
    return t;
  };
  const Tensor y = f32({2, 40});
  const auto nan_at = [&](int64_t i) { return std::isnan(y.as<float>()[i]); };
  ops::rmsnorm({.x = poisoned({2, 40}), .y = y}, stream_);
  EXPECT_TRUE(nan_at(0) && !nan_at(40)) << "one bad value spoils its row, and only that";
  ops::layernorm_modulate({.x = poisoned({2, 40}), .y = y}, stream_);
  EXPECT_TRUE(nan_at(0) && !nan_at(40));
  for (const auto kind : {ops::Activation::silu, ops::Activation::gelu_tanh, ops::Activation::gelu_erf}) {
    ops::activation({.x = poisoned({2, 40}), .kind = kind, .y = y}, stream_);
    EXPECT_TRUE(nan_at(1) && !nan_at(0) && !nan_at(2));
  }
  const Tensor x = poisoned({2, 40});
  ops::clamp(x, 0, 1, stream_);
  EXPECT_TRUE(std::isnan(x.as<float>()[1]));
  EXPECT_FALSE(ops::all_finite(x, stream_));
  int32_t mark = 0;
  const Tensor flag(&mark, DType::i32, {1});
  ops::mark_nonfinite(f32({2, 40}), flag, stream_);
  EXPECT_EQ(mark, 0);
  ops::mark_nonfinite(x, flag, stream_);
  EXPECT_EQ(mark, 1);
  ops::mark_nonfinite(f32({2, 40}), flag, stream_);
  EXPECT_EQ(mark, 1) << "what was marked stays so";
  const Tensor q = f32({1, 3, 1, 40}), out = f32({1, 3, 1, 40});
  ops::attention({.q = q, .k = poisoned({1, 3, 1, 40}), .v = q, .out = out}, stream_);
  EXPECT_TRUE(std::isnan(out.as<float>()[0]));
  ops::attention({.q = q, .k = q, .v = poisoned({1, 3, 1, 40}), .out = out}, stream_);
  EXPECT_TRUE(std::isnan(out.as<float>()[1]) && !std::isnan(out.as<float>()[0]));
}

TEST_F(SimdContracts, EmptyBatchesAreNoWork) {
  ops::rmsnorm({.x = f32({0, 8}), .y = f32({0, 8})}, stream_);
  ops::attention(
      {.q = f32({1, 0, 1, 4}), .k = f32({1, 2, 1, 4}), .v = f32({1, 2, 1, 4}), .out = f32({1, 0, 1, 4})},
      stream_);
  ops::copy({.x = f32({0, 3}), .y = f32({0, 3})}, stream_);
  EXPECT_TRUE(ops::all_finite(f32({0}), stream_));
  EXPECT_THAT(error_of([&] {
                ops::attention({.q = f32({1, 1, 1, 4}),
                                .k = f32({1, 0, 1, 4}),
                                .v = f32({1, 0, 1, 4}),
                                .out = f32({1, 1, 1, 4})},
                               stream_);
              }),
              HasSubstr("at least one key"));
}

}  // namespace
}  // namespace tachy
