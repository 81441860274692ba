// Tests the lists of distilled models: timesteps and sigmas as published, and the two kinds of update.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner.h"

namespace tachy {
namespace {

void expect_list(std::string_view name, SamplerKind kind, const std::vector<double>& timesteps,
                 const std::vector<double>& sigmas) {
  const SamplerConfig config = few_step_config(name);
  EXPECT_EQ(config.kind, kind) << name;
  EXPECT_EQ(config.steps, static_cast<int>(timesteps.size())) << name;
  const Schedule s = make_schedule(config);
  ASSERT_EQ(s.timesteps.size(), timesteps.size()) << name;
  ASSERT_EQ(s.sigmas.size(), sigmas.size() + 1) << name;
  for (size_t i = 0; i < sigmas.size(); ++i) {
    EXPECT_NEAR(s.timesteps[i], timesteps[i], 6e-5) << name;
    EXPECT_NEAR(s.sigmas[i], sigmas[i], 6e-8) << name;
  }
  EXPECT_EQ(s.sigmas.back(), 0.f);
}

TEST(FewStep, PublishedLists) {
  const double third = 1.0 / 3;
  expect_list("lightx2v-4", SamplerKind::euler, {1000, 937.5, 2500 * third, 625},
              {1, .9375, 2.5 * third, .625});
  expect_list("lightning-4", SamplerKind::euler, {1000, 937.5, 2500 * third, 625},
              {1, .9375, 2.5 * third, .625});
  expect_list("lightx2v-flf2v-4", SamplerKind::euler, {1000, 979.591837, 941.176471, 842.105263},
              {1, 12 / 12.25, 8 / 8.5, 4 / 4.75});
  expect_list("flowmatch-distill-4", SamplerKind::euler, {999.799840, 937.5, 2500 * third, 625},
              {4.995 / 4.996, .9375, 2.5 * third, .625});
  expect_list("causvid-14b", SamplerKind::euler, {999, 934, 862, 756, 603, 410, 250, 140, 74},
              {.999, .934, .862, .756, .603, .410, .250, .140, .074});
  expect_list("causvid-1.3b-4", SamplerKind::euler, {1000, 750, 500, 250}, {1, .75, .5, .25});
  // 757 and 522 lie between entries of the table with shift 8; the nearest are those of 280 / 1000 and 120 /
  // 1000.
  expect_list("fastwan-3", SamplerKind::lcm, {1000, 757, 522}, {1, 2.24 / 2.96, 0.96 / 1.84});
  expect_list("causvid-causal-3", SamplerKind::lcm, {1000, 757, 522}, {1, 2.24 / 2.96, 0.96 / 1.84});
  expect_list("causvid-causal-4", SamplerKind::lcm, {1000, 960, 888.888889, 727.272727},
              {1, .96, 8.0 / 9, 8.0 / 11});
  expect_list("self-forcing-4", SamplerKind::lcm, {1000, 937.5, 2500 * third, 625},
              {1, .9375, 2.5 * third, .625});
  // The timesteps 1000, 666 and 333 of a thousand are at shift 5, in float32: the model's timesteps differ by
  // 8e-5 from the exact values.
  const auto sigma = [](float s) { return 5.0f * s / (1.0f + 4.0f * s); };
  expect_list("matrix-game-2-3", SamplerKind::lcm, {1000, sigma(0.666f) * 1000.0f, sigma(0.333f) * 1000.0f},
              {1, sigma(0.666f), sigma(0.333f)});
  expect_list("matrix-game-2-4", SamplerKind::lcm, {1000, 937.5, 2500 * third, 625},
              {1, .9375, 2.5 * third, .625});
  // These are the values of rcm/inference's scripts: float64 sigmas, and timesteps rounded to bfloat16.
  expect_list("rcm-4", SamplerKind::lcm, {988, 932, 852, 608},
              {.9876543209876543, .933781061416858, .852895394823775, .608979049230431});
  expect_list("rcm-a14b-4", SamplerKind::lcm, {996, 932, 852, 608},
              {.9950248756218906, .933781061416858, .852895394823775, .608979049230431});
  EXPECT_EQ(few_step_lists().size(), 14u);
  for (const FewStepList& list : few_step_lists()) EXPECT_FALSE(list.about.empty());
}

TEST(FewStep, ExpertsOfTheDistilledA14B) {
  const Schedule s = make_schedule(few_step_config("lightx2v-4"));
  for (double boundary : {0.875, 0.9})
    for (int i = 0; i < 4; ++i) EXPECT_EQ(s.high_noise(i, boundary), i < 2);
}

// LightX2V counts two steps for each expert; I2V-A14B's boundary would give three and one.
TEST(FewStep, ExpertsOfAListThatCountsTheirSteps) {
  const Schedule s = make_schedule(few_step_config("lightx2v-flf2v-4"));
  EXPECT_GE(s.timesteps[2], 900);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(s.high_noise(i, 0.9), i < 2);
}

TEST(FewStep, NoiseIsScaledWhereARecipeWantsIt) {
  for (const FewStepList& list : few_step_lists()) {
    const float scale = Sampler(list.config).noise_scale();
    if (list.name.starts_with("rcm"))
      EXPECT_EQ(scale, static_cast<float>(list.config.sigmas[0])) << list.name;
    else
      EXPECT_EQ(scale, 1.f) << list.name;
  }
}

TEST(FewStep, BeginningOfAList) {
  const Schedule s = make_schedule(few_step_config("causvid-14b", 4));
  EXPECT_THAT(s.timesteps, testing::ElementsAre(999, 934, 862, 756));
  EXPECT_THAT(s.sigmas, testing::ElementsAre(.999f, .934f, .862f, .756f, 0.f));
  const FewStepList& causvid = *find_few_step_list("causvid-14b");
  for (int steps = 0; steps <= 10; ++steps)
    EXPECT_EQ(few_step_takes(causvid, steps), steps >= 1 && steps <= 9) << steps;
  EXPECT_EQ(find_few_step_list("unipc"), nullptr);
  EXPECT_THROW(few_step_config("causvid-14b", 10), Error);
  EXPECT_THROW(few_step_config("fastwan-3", 2), Error);
  try {
    few_step_config("turbo-2");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(),
                testing::AllOf(testing::HasSubstr("turbo-2"), testing::HasSubstr("fastwan-3")));
  }
}

TEST(FewStep, DeterministicScalarTrajectory) {
  test::Runner runner(few_step_config("lightx2v-4"), {1.f});
  const double expected[] = {0.962500, 0.904427, 0.802762, 0.581931};  // v = 0.3 x + 0.0005 t - 0.2
  for (int i = 0; i < 4; ++i) {
    const double t = runner.sampler.schedule().timesteps[static_cast<size_t>(i)];
    runner.step(i, {static_cast<float>(0.3 * runner.latent()[0] + 0.0005 * t - 0.2)});
    EXPECT_NEAR(runner.latent()[0], expected[i], 6e-7);
  }
  EXPECT_EQ(runner.sampler.state_tensors(), 0);
}

TEST(FewStep, StochasticStepRenoisesTheCleanLatent) {
  test::Runner runner(few_step_config("fastwan-3"), {0.5f});
  const auto& s = runner.sampler.schedule().sigmas;
  double x = 0.5;
  for (int i = 0; i < 3; ++i) {
    const double v = 0.4 - 0.3 * i, noise = 1.25 - i;
    runner.noise()[0] = static_cast<float>(noise);
    runner.step(i, {static_cast<float>(v)});
    const double clean = x - s[static_cast<size_t>(i)] * v, next = s[static_cast<size_t>(i) + 1];
    x = (1 - next) * clean + next * noise;
    EXPECT_NEAR(runner.latent()[0], x, 2e-7);
    EXPECT_EQ(runner.sampler.needs_noise(i), i < 2);
  }
}

}  // namespace
}  // namespace tachy
