// The Highway ops are compared with values from PyTorch, diffusers and transformers
// (tests/golden/ops/make_simd.py). Both the definition ("ref") and the fast path must agree with them, so the
// definition is checked against other programs, too.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <list>
#include <nlohmann/json.hpp>

#include "ops/activation/activation.h"
#include "ops/attention/attention.h"
#include "ops/channel_norm/channel_norm.h"
#include "ops/elementwise/elementwise.h"
#include "ops/glu/glu.h"
#include "ops/impl_table.h"
#include "ops/layernorm_modulate/layernorm_modulate.h"
#include "ops/patchify/patchify.h"
#include "ops/qk_norm_rope/qk_norm_rope.h"
#include "ops/rmsnorm/rmsnorm.h"
#include "ops/rope/rope.h"

namespace tachy {
namespace {

// The parameter is the implementation that every op is forced to use.
class GoldenSimd : public testing::TestWithParam<const char*> {
 protected:
  static const nlohmann::json& golden() {
    static const nlohmann::json all =
        nlohmann::json::parse(std::ifstream(TACHY_SOURCE_DIR "/tests/golden/ops/simd.json"));
    return all;
  }

  void SetUp() override {
    for (const char* op : kOps) ops::set_forced_impl(op, GetParam());
  }
  void TearDown() override {
    for (const char* op : kOps) ops::set_forced_impl(op, nullptr);
  }

  Tensor load(const char* name, const char* tensor, DType dtype = DType::f32) {
    const auto& entry = golden().at(name).at(tensor);
    const auto shape = entry.at("shape").get<std::vector<int64_t>>();
    const Tensor t = empty(dtype, shape);
    int64_t i = 0;
    for (const auto& v : entry.at("data")) {
      if (dtype == DType::f32)
        t.as<float>()[i++] = v.is_string() ? std::strtof(v.get<std::string>().c_str(), nullptr)
                                           : static_cast<float>(v.get<double>());
      else if (dtype == DType::i32)
        t.as<int32_t>()[i++] = v.get<int32_t>();
      else
        t.as<int64_t>()[i++] = v.get<int64_t>();
    }
    return t;
  }

  Tensor empty(DType dtype, std::span<const int64_t> shape) {
    Tensor t(nullptr, dtype, shape);
    buffers_.emplace_back(static_cast<size_t>(t.bytes()));
    t.data = buffers_.back().data();
    std::memset(t.data, 0xff, static_cast<size_t>(t.bytes()));
    return t;
  }
  Tensor like(const Tensor& t) { return empty(t.dtype, t.shape()); }

  // Expects values within `ulps` units of the largest value; NaN and infinities must agree.
  static void expect_near(const Tensor& got, const Tensor& expected, double ulps, const char* what) {
    ASSERT_EQ(got.numel(), expected.numel()) << what;
    float highest = 0;
    for (int64_t i = 0; i < expected.numel(); ++i)
      if (std::isfinite(expected.as<float>()[i]))
        highest = std::max(highest, std::abs(expected.as<float>()[i]));
    const double bound = ulps * (static_cast<double>(std::nextafter(highest, INFINITY)) - highest);
    for (int64_t i = 0; i < got.numel(); ++i) {
      const float g = got.as<float>()[i], e = expected.as<float>()[i];
      if (std::isnan(e))
        ASSERT_TRUE(std::isnan(g)) << what << " at " << i;
      else if (std::isinf(e))
        ASSERT_EQ(g, e) << what << " at " << i;
      else
        ASSERT_LE(std::abs(static_cast<double>(g) - e), bound)
            << what << " at " << i << ": " << g << " for " << e;
    }
  }

  static constexpr const char* kOps[] = {
      "activation",   "attention", "channel_norm", "copy",    "glu",  "layernorm_modulate",
      "qk_norm_rope", "rmsnorm",   "rope",         "to_rgb8", "widen"};
  std::list<Buffer> buffers_;
  ThreadPool pool_{2};
  Arena arena_{4 << 20};
  Stream stream_{&arena_, &pool_};
};

INSTANTIATE_TEST_SUITE_P(Implementations, GoldenSimd, testing::Values("cpu", "ref"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(GoldenSimd, RmsNorm) {
  const Tensor x = load("rmsnorm_umt5", "x"), y = like(x);
  ops::rmsnorm({.x = x, .weight = load("rmsnorm_umt5", "weight"), .y = y}, stream_);
  expect_near(y, load("rmsnorm_umt5", "y"), 2, "umT5's norm");
}

TEST_P(GoldenSimd, LayerNormModulate) {
  const char* name = "layernorm_modulate";
  const Tensor x = load(name, "x"), y = like(x);
  ops::layernorm_modulate({.x = x, .weight = load(name, "weight"), .bias = load(name, "bias"), .y = y},
                          stream_);
  expect_near(y, load(name, "affine"), 4, "affine");
  ops::layernorm_modulate({.x = x,
                           .scale = load(name, "scale"),
                           .shift = load(name, "shift"),
                           .row = load(name, "row", DType::i32),
                           .y = y},
                          stream_);
  expect_near(y, load(name, "modulated"), 4, "modulated");
}

TEST_P(GoldenSimd, ChannelNorm) {
  const char* name = "channel_norm_wan";
  const Tensor x = load(name, "x"), gamma = load(name, "gamma"), y = like(x);
  ops::channel_norm({.x = x, .gamma = gamma, .silu = false, .y = y}, stream_);
  expect_near(y, load(name, "plain"), 2, "norm");
  for (int64_t c = 0; c < x.dim(1); ++c)
    EXPECT_EQ(y.as<float>()[x.dim(1) + c], 0.0f) << "a zero position stays zero";
  ops::channel_norm({.x = x, .gamma = gamma, .y = y}, stream_);
  expect_near(y, load(name, "silu"), 2, "norm and silu");
}

TEST_P(GoldenSimd, RopeTables) {
  for (const int64_t head_dim : {128, 64, 40, 12}) {
    const auto name = fmt::format("rope_table_{}", head_dim);
    const Tensor grid = load(name.c_str(), "grid", DType::i64), expected_cos = load(name.c_str(), "cos");
    const Tensor expected_sin = load(name.c_str(), "sin"), cos = like(expected_cos), sin = like(expected_sin);
    const int64_t* g = grid.as<int64_t>();
    ops::rope_table_3d(g[0], g[1], g[2], head_dim, 10000.0, cos, sin);
    expect_near(cos, expected_cos, 0.51, "cos");
    expect_near(sin, expected_sin, 0.51, "sin");
  }
}

TEST_P(GoldenSimd, QkNormRope) {
  const char* name = "qk_norm_rope_wan";
  const Tensor x = load(name, "x"), weight = load(name, "weight"), y = like(x);
  const int64_t* g = load(name, "grid", DType::i64).as<int64_t>();
  const int heads = 2;
  const int64_t length = x.dim(1), d = x.dim(2) / heads, half[] = {length, d / 2};
  const Tensor cos = empty(DType::f32, half), sin = empty(DType::f32, half);
  ops::rope_table_3d(g[0], g[1], g[2], d, 10000.0, cos, sin);
  ops::qk_norm_rope({.x = x, .weight = weight, .heads = heads, .y = y}, stream_);
  expect_near(y, load(name, "normed"), 3, "norm");
  ops::qk_norm_rope({.x = x, .weight = weight, .heads = heads, .cos = cos, .sin = sin, .y = y}, stream_);
  expect_near(y, load(name, "y"), 3, "norm and rope");

  const Tensor normed = load(name, "normed"), shaped = normed.view({x.dim(0), length, heads, d});
  ops::rope({.x = shaped, .cos = cos, .sin = sin, .y = shaped}, stream_);  // in place
  expect_near(normed, load(name, "y"), 1, "rope");
}

TEST_P(GoldenSimd, Activations) {
  const Tensor x = load("activation", "x"), y = like(x);
  for (const auto& [kind, name] :
       {std::pair(ops::Activation::silu, "silu"), std::pair(ops::Activation::gelu_tanh, "gelu_tanh"),
        std::pair(ops::Activation::gelu_erf, "gelu_erf")}) {
    ops::activation({.x = x, .kind = kind, .y = y}, stream_);
    const Tensor expected = load("activation", name);
    for (int64_t i = 0; i < x.numel(); ++i) {  // each value counts relative to its own size, not to the
                                               // largest
      const float e = expected.as<float>()[i];
      const double ulp = std::nextafter(std::abs(e), INFINITY) - static_cast<double>(std::abs(e));
      EXPECT_NEAR(y.as<float>()[i], e, 3 * ulp + 2e-9) << name << "(" << x.as<float>()[i] << ")";
    }
  }
}

TEST_P(GoldenSimd, Glu) {
  const Tensor a = load("glu_umt5", "a"), y = like(a);
  ops::glu({.a = a, .b = load("glu_umt5", "b"), .kind = ops::Activation::gelu_tanh, .y = y}, stream_);
  expect_near(y, load("glu_umt5", "y"), 2, "gelu_new(a) b");
}

TEST_P(GoldenSimd, Attention) {
  const char* name = "attention";
  const Tensor q = load(name, "q"), k = load(name, "k"), v = load(name, "v"), out = like(q);
  ops::AttentionArgs args{.q = q, .k = k, .v = v, .scale = 1.0f / std::sqrt(12.0f), .out = out};
  ops::attention(args, stream_);
  expect_near(out, load(name, "plain"), 4, "plain");
  args.key_bias = load(name, "key_mask");
  ops::attention(args, stream_);
  expect_near(out, load(name, "masked"), 4, "masked");
  for (int64_t i = 0; i < args.key_bias.numel(); ++i)
    args.key_bias.as<float>()[i] = std::numeric_limits<float>::lowest();
  ops::attention(args, stream_);
  expect_near(out, load(name, "uniform"), 4, "every key at finfo.min: uniform weights");
  args.key_bias = load(name, "t5_mask"), args.bias = load(name, "bias"), args.scale = 1;
  ops::attention(args, stream_);
  expect_near(out, load(name, "t5"), 4, "T5");

  // Adding the same result a second time doubles the values; keys that are all at -inf add nothing.
  args.accumulate = true;
  ops::attention(args, stream_);
  const Tensor twice = load(name, "t5");
  for (int64_t i = 0; i < twice.numel(); ++i) twice.as<float>()[i] *= 2;
  expect_near(out, twice, 4, "accumulated");
  for (int64_t i = 0; i < args.key_bias.numel(); ++i) args.key_bias.as<float>()[i] = -INFINITY;
  ops::attention(args, stream_);
  expect_near(out, twice, 4, "accumulated nothing");
}

TEST_P(GoldenSimd, Patches) {
  const char* name = "patchify_wan";
  const Tensor video = load(name, "video"), kernel = load(name, "kernel"), expected = load(name, "tokens");
  const int64_t shape[] = {1, 12, 12};
  const Tensor patches = empty(DType::f32, shape), tokens = like(expected);
  ops::patchify({.x = video, .y = patches}, stream_);
  for (int64_t l = 0; l < 12; ++l)
    for (int64_t o = 0; o < 4; ++o) {
      double sum = 0;
      for (int64_t i = 0; i < 12; ++i)
        sum += static_cast<double>(patches.as<float>()[l * 12 + i]) * kernel.as<float>()[o * 12 + i];
      tokens.as<float>()[l * 4 + o] = static_cast<float>(sum);
    }
  expect_near(tokens, expected, 4, "the patch convolution is a product with patchify's rows");
  const Tensor unpatchified = load(name, "unpatchified"), y = like(unpatchified);
  ops::unpatchify({.x = load(name, "projected"), .y = y}, stream_);
  expect_near(y, unpatchified, 0, "unpatchify");
}

TEST_P(GoldenSimd, Pixels) {
  const Tensor x = load("to_rgb8_diffusers", "x"), expected = load("to_rgb8_diffusers", "y", DType::i32);
  const Tensor y = empty(DType::u8, x.shape());
  ops::to_rgb8(x, y, stream_);
  for (int64_t i = 0; i < x.numel(); ++i)
    EXPECT_EQ(y.as<uint8_t>()[i], expected.as<int32_t>()[i]) << "x = " << x.as<float>()[i];
}

TEST_P(GoldenSimd, Widening) {
  const Tensor halves = load("widen", "halves", DType::i32);
  const int64_t all[] = {256};
  const Tensor bytes = empty(DType::f8_e4m3, all), sixteen = empty(DType::f16, halves.shape());
  for (int i = 0; i < 256; ++i) static_cast<uint8_t*>(bytes.data)[i] = static_cast<uint8_t>(i);
  for (int64_t i = 0; i < halves.numel(); ++i)
    static_cast<uint16_t*>(sixteen.data)[i] = static_cast<uint16_t>(halves.as<int32_t>()[i]);
  for (const auto& [dtype, name] : {std::pair(DType::f8_e4m3, "e4m3"), std::pair(DType::f8_e5m2, "e5m2"),
                                    std::pair(DType::f16, "f16"), std::pair(DType::bf16, "bf16")}) {
    Tensor x = dtype_size(dtype) == 1 ? bytes : sixteen;
    x.dtype = dtype;
    const Tensor expected = load("widen", name), y = like(expected);
    ops::widen(x, y, stream_);
    expect_near(y, expected, 0, name);
  }
}

}  // namespace
}  // namespace tachy
