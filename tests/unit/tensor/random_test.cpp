// The generators are compared with torch: the CPU one bit for bit (tests/golden/random/make_cpu.py), the CUDA
// one to 4e-6 if there is a recording (tools/golden/make_cuda_noise.py), and its integers with Random123's
// published vectors.
#include "tensor/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "base/error.h"

namespace tachy {
namespace {

const std::string kGolden = std::string(TACHY_SOURCE_DIR) + "/tests/golden/random/";

nlohmann::json load(const std::string& path) {
  std::ifstream file(path);
  return file ? nlohmann::json::parse(file) : nlohmann::json();
}

std::vector<uint32_t> parse_bits(const nlohmann::json& hexes) {
  std::vector<uint32_t> out;
  for (const auto& hex : hexes)
    out.push_back(static_cast<uint32_t>(std::stoul(hex.get<std::string>(), nullptr, 16)));
  return out;
}

std::vector<uint32_t> bits_of(std::span<const float> values) {
  std::vector<uint32_t> out;
  for (float value : values) out.push_back(std::bit_cast<uint32_t>(value));
  return out;
}

uint64_t seed_of(const nlohmann::json& item) { return std::stoull(item["seed"].get<std::string>()); }

TEST(TorchCpuNormal, BitEqualForEachSizeAndSeed) {
  const auto golden = load(kGolden + "cpu_normal.json");
  ASSERT_GT(golden["cases"].size(), 100u);
  for (const auto& item : golden["cases"]) {
    std::vector<float> values(item["n"].get<size_t>());
    torch_cpu_normal(seed_of(item), values);
    const std::vector<uint32_t> bits = bits_of(values);
    const std::string what = fmt::format("seed {} n {}", seed_of(item), values.size());
    EXPECT_EQ(std::accumulate(bits.begin(), bits.end(), uint64_t{0}),
              std::stoull(item["sum"].get<std::string>()))
        << what;
    if (item.contains("all")) {
      EXPECT_EQ(bits, parse_bits(item["all"])) << what;
      continue;
    }
    EXPECT_EQ(std::vector<uint32_t>(bits.begin(), bits.begin() + 16), parse_bits(item["first"])) << what;
    EXPECT_EQ(std::vector<uint32_t>(bits.end() - 18, bits.end()), parse_bits(item["last"])) << what;
  }
}

TEST(TorchCpuNormal, DrawsContinueOneGenerator) {
  const auto sequence = load(kGolden + "cpu_normal.json")["sequence"];
  ASSERT_FALSE(sequence.is_null());
  TorchCpuGenerator generator(seed_of(sequence));
  for (const auto& draw : sequence["draws"]) {
    std::vector<float> values(draw.size());
    generator.normal(values);
    EXPECT_EQ(bits_of(values), parse_bits(draw));
  }
}

TEST(TorchCpuNormal, SkippingIsDrawing) {
  TorchCpuGenerator drawn(7), skipped(7);
  for (const size_t n : {16u, 608u, 624u, 640u, 32u, 16u * 1000u}) {
    std::vector<float> values(n);
    drawn.normal(values);
    skipped.skip(n);
    EXPECT_EQ(skipped.save(), drawn.save()) << n;
  }
  skipped.skip(0);
  EXPECT_EQ(skipped.save(), drawn.save());
}

TEST(Philox, KnownAnswers) {
  const uint32_t f = 0xffffffffu;
  EXPECT_THAT(philox4x32_10({0, 0, 0, 0}, {0, 0}),
              testing::ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  EXPECT_THAT(philox4x32_10({f, f, f, f}, {f, f}),
              testing::ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(philox4x32_10({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
              testing::ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

void expect_cuda(const nlohmann::json& sample, const std::vector<float>& values, double& worst) {
  const auto bits = parse_bits(sample["bits"]);
  for (size_t k = 0; k < bits.size(); ++k)
    worst =
        std::max(worst, std::abs(double{values.at(sample["at"][k])} - double{std::bit_cast<float>(bits[k])}));
}

TEST(TorchCudaNormal, MatchesTheRecording) {
  const auto golden = load(kGolden + "cuda_normal.json");
  if (golden.is_null()) GTEST_SKIP() << "no recording; tools/golden/make_cuda_noise.py makes it on a GPU";
  const int multiprocessors = golden["multiprocessors"];
  double worst = 0;
  for (const auto& item : golden["cases"]) {
    std::vector<float> values(item["n"].get<size_t>());
    torch_cuda_normal(seed_of(item), values, multiprocessors);
    expect_cuda(item, values, worst);
  }
  TorchCudaGenerator generator(seed_of(golden["sequence"]), multiprocessors);
  for (const auto& draw : golden["sequence"]["draws"]) {
    std::vector<float> values(draw["n"].get<size_t>());
    generator.normal(values);
    expect_cuda(draw, values, worst);
  }
  RecordProperty("worst", fmt::format("{:.3g}", worst));
  EXPECT_LE(worst, 4e-6);
}

TEST(TorchCudaNormal, LayoutOfTheGrid) {
  // There is one value per thread up to 2048 threads per multiprocessor; up to there neither the size nor the
  // GPU matters.
  std::vector<float> small(1000), large(3 * 2048);
  torch_cuda_normal(42, small, 132);
  torch_cuda_normal(42, large, 3);
  EXPECT_EQ(small, std::vector<float>(large.begin(), large.begin() + 1000));

  // Beyond that number, value k + threads is the second of thread k's four.
  std::vector<float> over(2 * 2048 + 10), again(over.size());
  torch_cuda_normal(42, over, 1);
  torch_cuda_normal(42, again, 132);
  EXPECT_TRUE(std::equal(over.begin(), over.begin() + 2048, again.begin()));
  EXPECT_NE(over, again);
  const auto bits = philox4x32_10({0, 0, 5, 0}, {42, 0});  // thread 5, first draw
  const double radius = std::sqrt(-2 * std::log((bits[0] + 0.5) / 0x1p32)),
               angle = (bits[1] + 0.5) / 0x1p32 * 2 * M_PI;
  EXPECT_NEAR(over[5], radius * std::sin(angle), 2e-6);
  EXPECT_NEAR(over[5 + 2048], radius * std::cos(angle), 2e-6);
  EXPECT_THROW(torch_cuda_normal(0, over, 0), Error);
}

TEST(TorchCudaNormal, SecondDrawUsesTheNextCounter) {
  TorchCudaGenerator generator(uint64_t{7} << 33);
  std::vector<float> first(100), second(100);
  generator.normal(first);
  generator.normal(second);
  const auto bits = philox4x32_10({1, 0, 99, 0}, {0, 14});
  const double radius = std::sqrt(-2 * std::log((bits[0] + 0.5) / 0x1p32));
  EXPECT_NEAR(second[99], radius * std::sin((bits[1] + 0.5) / 0x1p32 * 2 * M_PI), 2e-6);
}

TEST(TorchCudaNormal, MomentsOfANormal) {
  std::vector<float> values(400000);
  torch_cuda_normal(3, values);
  double sum = 0, squares = 0, fourth = 0;
  for (double v : values) sum += v, squares += v * v, fourth += v * v * v * v;
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 0.006);
  EXPECT_NEAR(squares / n, 1, 0.009);
  EXPECT_NEAR(fourth / n, 3, 0.06);
}

}  // namespace
}  // namespace tachy
