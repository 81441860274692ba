// Tests the convolution in 8 bits: the values that its codes stand for, a stream in pieces, results that
// saturate, clear errors.
#include "ops/scaled_conv3d/scaled_conv3d.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "ops/channel_norm/channel_norm.h"
#include "ops/codes.h"
#include "ops/conv3d/conv3d.h"
#include "ops/impl_table.h"

namespace tachy::ops {
namespace {

constexpr int64_t kT = 4, kH = 6, kW = 7, kCi = 16, kCo = 24;
constexpr float kScale = 0.02f;  // the scale of x

struct Stage {
  ThreadPool pool{2};
  Arena arena{16 << 20};
  Stream stream{.arena = &arena, .pool = &pool};
};

std::vector<float> normals(int64_t count, unsigned seed, float scale = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> draw;
  std::vector<float> out(static_cast<size_t>(count));
  for (float& v : out) v = scale * draw(engine);
  return out;
}

template <class T>
Tensor view(std::vector<T>& v, DType dtype, std::initializer_list<int64_t> dims) {
  return Tensor(v.data(), dtype, dims);
}

struct ConvProblem {
  std::vector<uint8_t> x, packed;
  std::vector<float> weight = normals(kCo * kCi * 27, 1, 0.1f), bias = normals(kCo, 2),
                     gamma = normals(kCo, 3), residual = normals(kT * kH * kW * kCo, 4);

  DType codes;
  explicit ConvProblem(Stage& on, DType dtype = DType::f8_e4m3) : codes(dtype) {
    for (const float v : normals(kT * kH * kW * kCi, 5)) x.push_back(code_of(v / kScale, dtype));
    packed.resize(static_cast<size_t>(packed_scaled_conv3d_bytes(kCo, kCi, on.stream)));
    pack_scaled_conv3d_weight(view(weight, DType::f32, {kCo, kCi, 3, 3, 3}), kScale,
                              view(packed, DType::u8, {static_cast<int64_t>(packed.size())}), on.stream,
                              dtype);
  }
  ScaledConv3dArgs args() {
    return {.x = view(x, codes, {kT, kH, kW, kCi}),
            .packed = view(packed, DType::u8, {static_cast<int64_t>(packed.size())}),
            .bias = view(bias, DType::f32, {kCo}),
            .residual = view(residual, DType::f32, {kT, kH, kW, kCo})};
  }
};

// The result is compared with the float32 convolution, which knows no codes, of the values that the codes
// stand for.
class ScaledConv3dOf : public testing::TestWithParam<DType> {};

float value_of(uint8_t code, DType dtype) {
  return dtype == DType::i8 ? static_cast<int8_t>(code) : to_float(f8_e4m3_t{code});
}

TEST_P(ScaledConv3dOf, IsTheConvolutionOfWhatItsCodesStandFor) {
  Stage on;
  const DType codes = GetParam();
  ConvProblem problem(on, codes);
  std::vector<float> x, weight = problem.weight;
  for (const uint8_t code : problem.x) x.push_back(kScale * value_of(code, codes));
  for (int64_t o = 0; o < kCo; ++o) {
    float* row = weight.data() + o * kCi * 27;
    float largest = 0;
    for (int64_t i = 0; i < kCi * 27; ++i) largest = std::max(largest, std::abs(row[i]));
    for (int64_t i = 0; i < kCi * 27; ++i) {
      const float step = largest / top_code(codes),
                  value = step * value_of(code_of(row[i] / step, codes), codes);
      EXPECT_LE(std::abs(value - row[i]),
                codes == DType::i8 ? step * 0.501f : std::max(std::abs(row[i]) / 15, largest * 1e-5f));
      row[i] = value;
    }
  }
  std::vector<char> packed(static_cast<size_t>(packed_conv3d_bytes(kCo, kCi, 3, 3, 3, on.stream)));
  const Tensor plain(packed.data(), DType::u8, {static_cast<int64_t>(packed.size())});
  pack_conv3d_weight(view(weight, DType::f32, {kCo, kCi, 3, 3, 3}), plain, on.stream);
  std::vector<float> expected(problem.residual.size()), got(expected.size());
  ScaledConv3dArgs args = problem.args();
  const Tensor y = view(expected, DType::f32, {kT, kH, kW, kCo});
  causal_conv3d({.x = view(x, DType::f32, {kT, kH, kW, kCi}),
                 .packed = plain,
                 .bias = args.bias,
                 .residual = args.residual,
                 .y = y},
                on.stream);
  // null stands for the implementation that the rule chooses.
  for (const char* impl : {static_cast<const char*>(nullptr), "ref"}) {
    args.y = view(got, DType::f32, {kT, kH, kW, kCo});
    set_forced_impl("scaled_conv3d", impl);
    scaled_conv3d(args, on.stream);
    set_forced_impl("scaled_conv3d", nullptr);
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], expected[i], 2e-5) << (impl ? impl : "the fast one") << " at " << i;
  }
}

// Frames that come one by one, with earlier frames in a cache of codes, give the bits of all frames at once.
TEST_P(ScaledConv3dOf, PiecesEqualTheWhole) {
  Stage on;
  const DType codes = GetParam();
  ConvProblem problem(on, codes);
  std::vector<uint8_t> whole(problem.residual.size()), pieces(whole.size()), kept(2 * kH * kW * kCi);
  ScaledConv3dArgs args = problem.args();
  args.gamma = view(problem.gamma, DType::f32, {kCo}), args.normed_scale = 0.01f;
  args.normed = view(whole, codes, {kT, kH, kW, kCo});
  scaled_conv3d(args, on.stream);
  args.cache = view(kept, codes, {2, kH, kW, kCi});
  const ScaledConv3dArgs all = args;
  const Tensor out = view(pieces, codes, {kT, kH, kW, kCo});
  for (int64_t t = 0; t < kT; ++t) {
    args.x = all.x.slice(0, t, t + 1), args.residual = all.residual.slice(0, t, t + 1);
    args.normed = out.slice(0, t, t + 1);
    scaled_conv3d(args, on.stream);
    args.history = push_frames(args.cache, args.history, args.x, on.stream);
  }
  EXPECT_EQ(whole, pieces);
}

INSTANTIATE_TEST_SUITE_P(All, ScaledConv3dOf, testing::Values(DType::f8_e4m3, DType::i8),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

// A norm's values are bounded, and with a scale of 1/448 (int8: 1/127) of that bound none saturates; with a
// smaller scale some do.
TEST(ScaledConv3d, TheNormsBoundHoldsItsCodes) {
  Stage on;
  std::vector<float> x(kCi, 0.0f), gamma(kCi, 0.5f);
  x[3] = -7, gamma[3] = -2;  // all of a position's value is in one channel, the one with the largest gamma
  std::vector<uint8_t> codes(kCi);
  const float bound = 4 * 2;  // √16 · 2
  for (const auto& [scale, code] :
       {std::pair{bound / 448, 448.0f}, {bound / 224, 224.0f}, {bound / 900, 448.0f}}) {
    channel_norm({.x = view(x, DType::f32, {1, kCi}),
                  .gamma = view(gamma, DType::f32, {kCi}),
                  .silu = false,
                  .y = view(codes, DType::f8_e4m3, {1, kCi}),
                  .y_scale = scale},
                 on.stream);
    EXPECT_EQ(to_float(f8_e4m3_t{codes[3]}), code) << scale;
    EXPECT_EQ(codes[0] & 0x7f, 0);
  }
  for (const auto& [scale, code] : {std::pair{bound / 127, 127}, {bound / 64, 64}, {bound / 900, 127}}) {
    channel_norm({.x = view(x, DType::f32, {1, kCi}),
                  .gamma = view(gamma, DType::f32, {kCi}),
                  .silu = false,
                  .y = view(codes, DType::i8, {1, kCi}),
                  .y_scale = scale},
                 on.stream);
    EXPECT_EQ(static_cast<int8_t>(codes[3]), code) << scale;
    EXPECT_EQ(codes[0], 0);
  }
}

TEST(ScaledConv3d, SaysWhatIsWrong) {
  Stage on;
  ConvProblem problem(on);
  std::vector<float> y(problem.residual.size());
  const auto error_of = [&](auto&& change) -> std::string {
    ScaledConv3dArgs args = problem.args();
    args.y = view(y, DType::f32, {kT, kH, kW, kCo});
    change(args);
    try {
      scaled_conv3d(args, on.stream);
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  using testing::HasSubstr;
  EXPECT_EQ(error_of([](ScaledConv3dArgs&) {}), "");
  EXPECT_THAT(error_of([](ScaledConv3dArgs& a) { a.y = {}; }), HasSubstr("expected y, or gamma and normed"));
  EXPECT_THAT(error_of([](ScaledConv3dArgs& a) { a.x = a.y; }), HasSubstr("x f8_e4m3 or i8"));
  EXPECT_THAT(error_of([&](ScaledConv3dArgs& a) {
                a.gamma = a.bias, a.normed = view(problem.x, DType::i8, {kT, kH, kW, kCo});
              }),
              HasSubstr("normed"))
      << "codes of two kinds";
  EXPECT_THAT(error_of([](ScaledConv3dArgs& a) { a.history = 1; }), HasSubstr("history"));
  EXPECT_THAT(error_of([](ScaledConv3dArgs& a) { a.gamma = a.bias; }),
              HasSubstr("gamma and normed together"));
  EXPECT_THAT(error_of([](ScaledConv3dArgs& a) { a.packed = a.packed.slice(0, 0, 8); }), HasSubstr("packed"));
  EXPECT_THROW(pack_scaled_conv3d_weight(view(problem.weight, DType::f32, {kCo, kCi, 3, 3, 3}), 0,
                                         problem.args().packed, on.stream),
               Error);
}

}  // namespace
}  // namespace tachy::ops
