// Colours matched in CIE Lab are compared with scikit-image (tests/golden/ops/make_colors.py); other
// properties that callers rely on are tested, too.
#include "ops/match_colors/match_colors.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "op_fixture.h"

namespace tachy {
namespace {

using testing::HasSubstr;

class MatchColors : public OpFixture {
 protected:
  Tensor picture(const nlohmann::json& stored) {
    const auto dims = stored.at("shape").get<std::vector<int64_t>>();
    Tensor t(nullptr, DType::f32, std::span<const int64_t>(dims));
    t.data = buffers_.emplace_back(static_cast<size_t>(t.bytes())).data();
    const auto values = stored.at("data").get<std::vector<float>>();
    EXPECT_EQ(values.size(), static_cast<size_t>(t.numel()));
    std::ranges::copy(values, t.as<float>());
    return t;
  }
  static std::span<const float> values(const Tensor& t) {
    return {t.as<float>(), static_cast<size_t>(t.numel())};
  }
  Tensor frames(Dims dims, float scale, float around) {
    const Tensor t = random(dims);
    for (float& v : std::span(t.as<float>(), static_cast<size_t>(t.numel()))) v = scale * v + around;
    return t;
  }
  Arena arena_{1 << 10};
  Stream stream_{.arena = &arena_, .pool = &pool_};
};

TEST_F(MatchColors, IsScikitImages) {
  const auto cases = nlohmann::json::parse(std::ifstream(TACHY_SOURCE_DIR "/tests/golden/ops/colors.json"));
  ASSERT_EQ(cases.size(), 12u);
  for (const auto& c : cases)
    for (const bool definitions : {false, true}) {
      SCOPED_TRACE(c.at("name").get<std::string>() + (definitions ? ", definition" : ""));
      stream_.precision.definitions = definitions;
      const Tensor x = picture(c.at("frames"));
      const ops::LabStatistics wanted = ops::lab_statistics(picture(c.at("picture")), stream_);
      for (size_t k = 0; k < 3; ++k) {
        EXPECT_NEAR(wanted.mean[k], c.at("lab")[0][k].get<double>(), 1e-8);
        EXPECT_NEAR(wanted.deviation[k], c.at("lab")[1][k].get<double>(), 1e-8);
      }
      ops::match_colors({.x = x, .picture = wanted, .strength = c.at("strength"), .y = x}, stream_);
      const auto expected = c.at("expected").get<std::vector<double>>();
      double worst = 0;
      for (size_t i = 0; i < expected.size(); ++i)
        worst = std::max(worst, std::abs(values(x)[i] - expected[i]));
      EXPECT_LE(worst, 2e-7);  // the rounding of float32
    }
}

// The frame's deviation is 0, not the remainder of rounding; the division must respect that.
TEST_F(MatchColors, AFrameOfOneColourGetsThePicturesMean) {
  for (const Dims dims : {Dims{1, 1, 1, 3}, Dims{1, 37, 61, 3}, Dims{1, 64, 96, 3}}) {
    const Tensor x = blank(dims), y = blank(dims);
    for (int64_t i = 0; i < x.numel(); ++i) x.as<float>()[i] = std::array{0.31f, -0.72f, 0.113f}[i % 3];
    const ops::LabStatistics wanted = ops::lab_statistics(frames({20, 30, 3}, 0.3f, 0.1f), stream_);
    ops::match_colors({.x = x, .picture = wanted, .y = y}, stream_);
    for (int64_t i = 3; i < y.numel(); ++i) ASSERT_EQ(y.as<float>()[i], y.as<float>()[i % 3]);
    const ops::LabStatistics got = ops::lab_statistics(y.select(0, 0), stream_);
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_NEAR(got.mean[k], wanted.mean[k], 1e-4);
      EXPECT_EQ(got.deviation[k], 0);
    }
  }
}

TEST_F(MatchColors, EveryFrameHasThePicturesStatistics) {
  const Tensor x = frames({3, 45, 70, 3}, 0.1f, -0.2f), y = blank({3, 45, 70, 3});
  const ops::LabStatistics wanted = ops::lab_statistics(frames({20, 30, 3}, 0.05f, 0.1f), stream_);
  ops::match_colors({.x = x, .picture = wanted, .y = y}, stream_);
  for (int64_t i = 0; i < 3; ++i) {  // nothing is clipped here
    const ops::LabStatistics got = ops::lab_statistics(y.select(0, i), stream_);
    for (size_t k = 0; k < 3; ++k) {
      EXPECT_NEAR(got.mean[k], wanted.mean[k], 1e-4);
      EXPECT_NEAR(got.deviation[k], wanted.deviation[k], 1e-4);
    }
  }
  ops::match_colors({.x = x, .picture = wanted, .strength = 0, .y = y}, stream_);
  for (size_t i = 0; i < values(x).size(); ++i) EXPECT_NEAR(values(y)[i], values(x)[i], 1e-7);
}

TEST_F(MatchColors, BitsDoNotDependOnThreadsOrOtherFrames) {
  const Tensor x = frames({4, 45, 70, 3}, 0.4f, 0.1f), y = blank({4, 45, 70, 3}), z = blank({1, 45, 70, 3});
  const ops::LabStatistics wanted = {{60, 3, -8}, {20, 10, 12}};
  ops::match_colors({.x = x, .picture = wanted, .y = y}, stream_);
  ThreadPool one(1);
  stream_.pool = &one;
  for (int64_t i = 0; i < 4; ++i) {
    ops::match_colors({.x = x.slice(0, i, i + 1), .picture = wanted, .y = z}, stream_);
    EXPECT_TRUE(std::ranges::equal(values(z), values(y.slice(0, i, i + 1)))) << i;
  }
}

TEST_F(MatchColors, ErrorsSayWhatWasExpected) {
  const Tensor x = frames({1, 4, 6, 3}, 0.4f, 0);
  const auto error_of = [&](const ops::MatchColorsArgs& args) -> std::string {
    try {
      ops::match_colors(args, stream_);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      return e.message();
    }
    return "no error";
  };
  EXPECT_THAT(error_of({.x = x, .strength = 1.5, .y = x}), HasSubstr("strength 0 to 1, got 1.5"));
  EXPECT_THAT(error_of({.x = x, .strength = std::nan(""), .y = x}), HasSubstr("strength"));
  EXPECT_THAT(error_of({.x = frames({1, 4, 6, 4}, 1, 0), .y = x}), HasSubstr("expected x"));
  EXPECT_THAT(error_of({.x = x, .y = frames({1, 4, 5, 3}, 1, 0)}), HasSubstr("expected y"));
  EXPECT_THAT(error_of({.x = x.slice(2, 0, 3), .y = blank({1, 4, 3, 3})}), HasSubstr("contiguous"));
  EXPECT_THAT(error_of({.x = blank({1, 0, 4, 3}), .y = blank({1, 0, 4, 3})}), HasSubstr("pixels"));
}

}  // namespace
}  // namespace tachy
