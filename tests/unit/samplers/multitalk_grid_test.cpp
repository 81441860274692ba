// Grid::multitalk is compared with MultiTalk's and InfiniteTalk's sampler, restated in torch
// (tests/golden/samplers/make_multitalk.py), and with timesteps that its users publish.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "runner.h"

namespace tachy {
namespace {

SamplerConfig multitalk(int steps, double shift, SamplerKind kind = SamplerKind::euler) {
  SamplerConfig config;
  config.kind = kind, config.grid = Grid::multitalk, config.steps = steps, config.shift = shift;
  return config;
}

TEST(MultitalkGrid, TimestepsAreTheReferencesBitsAndTrajectoriesItsValues) {
  const auto json =
      nlohmann::json::parse(std::ifstream(TACHY_SOURCE_DIR "/tests/golden/samplers/multitalk.json"));
  ASSERT_EQ(json.at("cases").size(), 35u);
  for (const auto& c : json.at("cases")) {
    const int steps = c.at("steps");
    const double shift = c.at("shift");
    test::Runner runner(multitalk(steps, shift), {1, -0.5f, 0.25f, 2, -1.5f, 0.75f, 0, -2});
    const Schedule& s = runner.sampler.schedule();
    ASSERT_EQ(s.steps(), steps);
    for (int i = 0; i < steps; ++i) {
      const auto at = static_cast<size_t>(i);
      EXPECT_EQ(static_cast<float>(s.timesteps[at]), c.at("timesteps")[at].get<float>())
          << steps << " steps, shift " << shift << ", step " << i;
      test::Latent v;
      for (const float x : runner.latent())
        v.push_back(x * 0.3f + static_cast<float>(0.0005 * s.timesteps[at] - 0.2) + x * x * 0.05f);
      runner.step(i, v);
      EXPECT_NEAR(runner.latent()[0], c.at("x0")[at].get<double>(), 1e-6);
    }
    for (size_t k = 0; k < 8; ++k) EXPECT_NEAR(runner.latent()[k], c.at("final")[k].get<double>(), 2e-6);
  }
}

TEST(MultitalkGrid, PublishedTimesteps) {
  const auto near = [](const std::vector<double>& want) {
    std::vector<testing::Matcher<double>> out;
    for (const double t : want) out.push_back(testing::DoubleNear(t, 0.006));
    return testing::ElementsAreArray(out);
  };
  EXPECT_THAT(make_schedule(multitalk(3, 11)).timesteps, near({1000, 916.82, 10.89}));
  EXPECT_THAT(make_schedule(multitalk(4, 7)).timesteps, near({1000, 933.43, 778.30, 6.96}));
  EXPECT_THAT(make_schedule(multitalk(6, 11)).timesteps, near({1000, 977.81, 942.95, 880.26, 734.31, 10.89}));
  EXPECT_THAT(make_schedule(multitalk(8, 2)).timesteps,
              near({1000, 923.16, 833.53, 727.62, 600.56, 445.31, 251.31, 2.00}));
}

TEST(MultitalkGrid, BelongsToEulerAndLcm) {
  EXPECT_EQ(make_schedule(multitalk(4, 5, SamplerKind::lcm)).timesteps,
            make_schedule(multitalk(4, 5)).timesteps);
  for (const SamplerKind kind : {SamplerKind::unipc, SamplerKind::dpmpp, SamplerKind::dpmpp_sde}) try {
      make_schedule(multitalk(4, 5, kind));
      ADD_FAILURE() << to_string(kind);
    } catch (const Error& e) {
      EXPECT_THAT(e.message(), testing::HasSubstr("multitalk is a grid of euler and lcm"));
    }
  EXPECT_EQ(parse_grid("InfiniteTalk"), Grid::multitalk);
  EXPECT_EQ(to_string(Grid::multitalk), "multitalk");
}

}  // namespace
}  // namespace tachy
