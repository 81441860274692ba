// The stochastic DPM-Solver++ and Grid::wrapper are compared with diffusers' solvers
// (tests/golden/samplers/make_sde.py): sigmas and timesteps are identical, and trajectories are within 1e-6
// of the largest magnitude. They are also compared with the timesteps that the wrapper's users see.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "runner.h"

namespace tachy {
namespace {

using testing::ElementsAre;

TEST(Sde, ScheduleIsIdenticalAndTrajectoryWithin1e6) {
  const auto file = nlohmann::json::parse(std::ifstream(TACHY_SOURCE_DIR "/tests/golden/samplers/sde.json"));
  ASSERT_EQ(file.at("cases").size(), 18u + 84u);
  double worst = 0;
  std::string worst_case;
  for (const auto& c : file.at("cases")) {
    SamplerConfig config;
    config.kind = parse_sampler(c.at("kind").get<std::string>());
    config.grid = parse_grid(c.at("grid").get<std::string>());
    config.steps = c.at("steps"), config.shift = c.at("shift");
    const std::string label = fmt::format("{} {} {} {}", to_string(config.kind), to_string(config.grid),
                                          config.steps, config.shift);
    test::Runner runner(config, {1.f, -0.5f, 0.25f, 2.f, -1.5f, 0.75f, 0.f, -2.f});
    const Schedule& s = runner.sampler.schedule();
    EXPECT_EQ(s.sigmas, c.at("sigmas").get<std::vector<float>>()) << label;
    EXPECT_EQ(s.timesteps, c.at("timesteps").get<std::vector<double>>()) << label;
    const double peak = std::max(2.0, c.at("peak").get<double>());
    const auto note = [&](double got, double expected) {
      const double error = std::abs(got - expected) / peak;
      if (!(error <= worst)) worst = error, worst_case = label;
    };
    for (int i = 0; i < s.steps(); ++i) {
      const auto at = static_cast<size_t>(i);
      const auto bias = static_cast<float>(0.0005 * s.timesteps[at] - 0.2);
      test::Latent v = runner.latent();
      for (float& value : v) value = value * 0.3f + bias + value * value * 0.05f;
      for (int k = 0; k < 8; ++k)
        runner.noise()[static_cast<size_t>(k)] = static_cast<float>((7 * k + 3 * i) % 11 - 5) / 4;
      runner.step(i, v);
      note(runner.latent()[0], c.at("x0")[at]);
    }
    for (size_t k = 0; k < 8; ++k) note(runner.latent()[k], c.at("final")[k]);
  }
  RecordProperty("worst", fmt::format("{:.3g} at {}", worst, worst_case));
  EXPECT_LE(worst, 1e-6) << worst_case;
}

SamplerConfig wrapper(int steps, double shift, SamplerKind kind = SamplerKind::dpmpp_sde) {
  SamplerConfig config;
  config.kind = kind, config.grid = Grid::wrapper, config.steps = steps, config.shift = shift;
  return config;
}

TEST(WrapperGrid, PublishedTimesteps) {
  for (const SamplerKind kind : {SamplerKind::dpmpp_sde, SamplerKind::dpmpp, SamplerKind::unipc}) {
    const auto times = [&](int steps, double shift) {
      return make_schedule(wrapper(steps, shift, kind)).timesteps;
    };
    EXPECT_THAT(times(3, 11), ElementsAre(999, 956, 846));
    EXPECT_THAT(times(4, 5), ElementsAre(999, 937, 833, 624));
    EXPECT_THAT(times(4, 11), ElementsAre(999, 970, 916, 785));
    EXPECT_THAT(times(6, 11), ElementsAre(999, 982, 956, 916, 846, 687));
    EXPECT_THAT(times(8, 2), ElementsAre(999, 933, 856, 768, 666, 545, 399, 222));
    EXPECT_THAT(times(8, 11), ElementsAre(999, 987, 970, 948, 916, 868, 785, 611));
    const std::vector<float> sigmas = make_schedule(wrapper(6, 11, kind)).sigmas;
    const double want[] = {0.999992, 0.982133, 0.956510, 0.916653, 0.846136, 0.687477, 0};
    ASSERT_EQ(sigmas.size(), 7u);
    for (size_t i = 0; i < 7; ++i) EXPECT_NEAR(sigmas[i], want[i], 6e-7);
  }
}

TEST(WrapperGrid, IsDiffusersForEulerAndLcm) {
  for (const SamplerKind kind : {SamplerKind::euler, SamplerKind::lcm}) {
    SamplerConfig other = wrapper(6, 11, kind);
    other.grid = Grid::diffusers;
    EXPECT_EQ(make_schedule(wrapper(6, 11, kind)).sigmas, make_schedule(other).sigmas);
    const std::vector<double> want = {1000, 978.07, 943.83, 882.84, 743.68, 108.04};
    EXPECT_THAT(make_schedule(wrapper(6, 11, kind)).timesteps,
                testing::Pointwise(testing::DoubleNear(0.006), want));
  }
  EXPECT_EQ(parse_grid("WanVideoWrapper"), Grid::wrapper);
  EXPECT_EQ(parse_grid(to_string(Grid::wrapper)), Grid::wrapper);
}

TEST(Sde, NoiseIsDrawnInEachStepAndCountsInAllButTheLast) {
  for (const int steps : {1, 2, 6}) {
    const Sampler sampler(wrapper(steps, 11));
    EXPECT_TRUE(sampler.always_draws());
    for (int i = 0; i < steps; ++i) EXPECT_EQ(sampler.needs_noise(i), i + 1 < steps);
  }
  EXPECT_FALSE(Sampler(wrapper(4, 11, SamplerKind::dpmpp)).always_draws());
}

// The model knows the clean latent x0. Whatever the noise, the last step returns x0, and before that the
// latent is distributed as (1 - s) x0 + s noise.
TEST(Sde, KeepsTheDistributionOfAKnownImage) {
  const size_t count = 20000;
  test::Latent noise(count), x(count);
  uint64_t seed = 1;
  const auto normal = [&] {  // uses the Box-Muller method
    const auto uniform = [&] {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      return (double(seed >> 11) + 0.5) / 9007199254740992.0;
    };
    return static_cast<float>(std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform()));
  };
  for (float& v : x) v = normal();
  const double clean = 0.7;
  test::Runner runner(wrapper(6, 5), x);
  const auto& sigmas = runner.sampler.schedule().sigmas;
  for (int i = 0; i < 6; ++i) {
    test::Latent v(count);
    for (size_t k = 0; k < count; ++k)
      v[k] = static_cast<float>((runner.latent()[k] - clean) / sigmas[static_cast<size_t>(i)]);
    for (float& n : runner.noise()) n = normal();
    runner.step(i, v);
    double mean = 0, square = 0;
    for (const float value : runner.latent()) mean += value / count;
    for (const float value : runner.latent()) square += (value - mean) * (value - mean) / count;
    const double s = sigmas[static_cast<size_t>(i) + 1];
    EXPECT_NEAR(mean, (1 - s) * clean, 0.03) << i;
    EXPECT_NEAR(std::sqrt(square), s, 0.03) << i;
  }
}

TEST(Sde, NamesOfTheSampler) {
  for (const char* name : {"dpm++_sde", "dpmpp_sde", "dpm++2m_sde", "DPM++ 2M SDE", "dpmpp_2m_sde"})
    EXPECT_EQ(parse_sampler(name), SamplerKind::dpmpp_sde) << name;
  EXPECT_EQ(parse_sampler(to_string(SamplerKind::dpmpp_sde)), SamplerKind::dpmpp_sde);
}

}  // namespace
}  // namespace tachy
