// Grid::comfyui is compared with ComfyUI's own functions (tests/golden/samplers/make_comfyui.py): sigmas and timesteps
// are the same bits.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "samplers/sampler.h"

namespace tachy {
namespace {

TEST(ComfyuiGrid, SigmasAndTimestepsAreTheReferencesBits) {
  const auto json =
      nlohmann::json::parse(std::ifstream(TACHY_SOURCE_DIR "/tests/golden/samplers/comfyui.json"));
  ASSERT_EQ(json.at("cases").size(), 160u);
  for (const auto& c : json.at("cases")) {
    SamplerConfig config;
    config.kind = parse_sampler(c.at("kind").get<std::string>()), config.grid = parse_grid("comfyui");
    config.steps = c.at("steps"), config.shift = c.at("shift");
    const std::string label = fmt::format("{} {} {}", to_string(config.kind), config.steps, config.shift);
    const Schedule s = make_schedule(config);
    EXPECT_EQ(s.sigmas, c.at("sigmas").get<std::vector<float>>()) << label;
    EXPECT_EQ(s.timesteps, c.at("timesteps").get<std::vector<double>>()) << label;
  }
}

TEST(ComfyuiGrid, TheFirstExpertHasItsSteps) {
  SamplerConfig config;
  config.kind = SamplerKind::euler, config.grid = Grid::comfyui, config.steps = 8,
  config.high_noise_steps = 3;
  const Schedule s = make_schedule(config);
  EXPECT_TRUE(s.high_noise(2, 0.875));
  EXPECT_FALSE(s.high_noise(3, 0.0)) << "the boundary counts no more";
}

}  // namespace
}  // namespace tachy
