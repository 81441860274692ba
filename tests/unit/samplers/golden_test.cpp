// Grid::diffusers is compared with diffusers 0.42.1 (tests/golden/samplers/make.py): sigmas and timesteps are
// identical, and trajectories are within 1e-6 of the largest magnitude.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runner.h"

namespace tachy {
namespace {

using test::Latent;

nlohmann::json golden() {
  std::ifstream file(std::string(TACHY_SOURCE_DIR) + "/tests/golden/samplers/diffusers.json");
  return nlohmann::json::parse(file);
}

SamplerConfig config_of(const nlohmann::json& item) {
  SamplerConfig config;
  config.kind = parse_sampler(item["kind"].get<std::string>());
  config.steps = item["steps"];
  config.shift = item["shift"];
  return config;
}

std::string label(const nlohmann::json& item) {
  return fmt::format("{} steps {} shift {}", item["kind"].get<std::string>(), item["steps"].get<int>(),
                     item["shift"].get<double>());
}

TEST(SamplerGolden, SigmasAndTimestepsAreIdentical) {
  const auto file = golden();
  ASSERT_EQ(file["cases"].size(), 4u * 8 * 6);
  for (const auto& item : file["cases"]) {
    const Schedule schedule = make_schedule(config_of(item));
    EXPECT_EQ(schedule.sigmas, item["sigmas"].get<std::vector<float>>()) << label(item);
    ASSERT_EQ(schedule.timesteps.size(), item["timesteps"].size());
    for (size_t i = 0; i < schedule.timesteps.size(); ++i)  // the file holds nine digits of a float32
      EXPECT_EQ(static_cast<float>(schedule.timesteps[i]), item["timesteps"][i].get<float>()) << label(item);
  }
}

TEST(SamplerGolden, TrajectoriesWithin1e6) {
  const auto file = golden();
  double worst = 0;
  int compared = 0;
  std::string worst_case;
  for (const auto& item : file["cases"]) {
    test::Runner runner(config_of(item), {1.f, -0.5f, 0.25f, 2.f, -1.5f, 0.75f, 0.f, -2.f});
    const double peak = std::max(2.0, item["peak"].get<double>());
    auto note = [&](double got, double expected) {
      const double error = std::abs(got - expected) / peak;
      ++compared;
      if (!(error <= worst)) worst = error, worst_case = label(item);
    };
    for (int i = 0; i < runner.sampler.steps(); ++i) {
      const auto bias =
          static_cast<float>(0.0005 * runner.sampler.schedule().timesteps[static_cast<size_t>(i)] - 0.2);
      Latent v = runner.latent();
      for (float& value : v) value = value * 0.3f + bias + value * value * 0.05f;
      for (int k = 0; k < 8; ++k)
        runner.noise()[static_cast<size_t>(k)] = static_cast<float>((7 * k + 3 * i) % 11 - 5) / 4;
      runner.step(i, v);
      note(runner.latent()[0], item["x0"][static_cast<size_t>(i)]);
    }
    for (size_t k = 0; k < 8; ++k) note(runner.latent()[k], item["final"][k]);
  }
  EXPECT_EQ(compared, 4 * 6 * (8 * 8 + 1 + 2 + 3 + 4 + 5 + 8 + 20 + 50));
  RecordProperty("worst", fmt::format("{:.3g} at {}", worst, worst_case));
  EXPECT_LE(worst, 1e-6) << worst_case;
}

TEST(Sampler, NamesAndTheirError) {
  EXPECT_EQ(parse_sampler("unipc"), SamplerKind::unipc);
  EXPECT_EQ(parse_sampler("UniPCMultistepScheduler"), SamplerKind::unipc);
  EXPECT_EQ(parse_sampler("uni_pc"), SamplerKind::unipc);
  EXPECT_EQ(parse_sampler("Flow-Match-Euler"), SamplerKind::euler);
  EXPECT_EQ(parse_sampler("flowmatch_euler"), SamplerKind::euler);
  for (const char* name : {"dpm++", "DPM++ 2M", "dpmpp", "dpmpp_2m"})
    EXPECT_EQ(parse_sampler(name), SamplerKind::dpmpp);
  EXPECT_EQ(parse_grid("original"), Grid::original);
  for (auto kind : {SamplerKind::unipc, SamplerKind::euler, SamplerKind::dpmpp, SamplerKind::lcm})
    EXPECT_EQ(parse_sampler(to_string(kind)), kind);
  try {
    parse_sampler("heun");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(error.message(), testing::AllOf(testing::HasSubstr("heun"), testing::HasSubstr("unipc"),
                                                testing::HasSubstr("dpm++")));
  }
  EXPECT_THROW(parse_grid("comfy"), Error);
}

TEST(Sampler, RefusesWhatCannotRun) {
  const SamplerConfig good;
  auto refused = [](SamplerConfig config) {
    try {
      Sampler sampler(config);
    } catch (const Error& error) {
      return error.code() == ErrorCode::invalid_argument;
    }
    return false;
  };
  EXPECT_FALSE(refused(good));
  SamplerConfig bad = good;
  bad.steps = 0;
  EXPECT_TRUE(refused(bad));
  bad.steps = 1001;
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.shift = 0;
  EXPECT_TRUE(refused(bad));
  bad.shift = std::nan("");
  EXPECT_TRUE(refused(bad));
  bad = good;
  bad.sigmas = {0.5, 0.75};
  EXPECT_TRUE(refused(bad));
  bad.sigmas = {1.5, 0.75};
  EXPECT_TRUE(refused(bad));
  bad.sigmas = {1, std::nan("")};
  EXPECT_TRUE(refused(bad));
  bad.sigmas = {1, 0.75};
  bad.timesteps = {1000};
  EXPECT_TRUE(refused(bad));
  bad.timesteps = {1000, 2000};
  EXPECT_TRUE(refused(bad));
}

TEST(Sampler, UpdatesAreWellFormed) {
  for (auto kind :
       {SamplerKind::unipc, SamplerKind::euler, SamplerKind::dpmpp, SamplerKind::dpmpp_sde, SamplerKind::lcm})
    for (auto grid : {Grid::diffusers, Grid::original, Grid::wrapper})
      for (int steps : {1, 2, 3, 7}) {
        SamplerConfig config;
        config.kind = kind, config.grid = grid, config.steps = steps;
        const Sampler sampler(config);
        for (int i = 0; i < steps; ++i) {
          const Update& update = sampler.update(i);
          ASSERT_FALSE(update.empty());
          EXPECT_EQ(update.back().target, Slot::latent);
          const bool stochastic = kind == SamplerKind::lcm || kind == SamplerKind::dpmpp_sde;
          EXPECT_EQ(sampler.needs_noise(i), stochastic && i + 1 < steps);
          for (const Assignment& assignment : update) {
            EXPECT_LE(assignment.terms.size(), static_cast<size_t>(kMaxTerms));
            EXPECT_NE(assignment.target, Slot::prediction);
            EXPECT_NE(assignment.target, Slot::noise);
            for (const Term& term : assignment.terms) {
              EXPECT_TRUE(std::isfinite(term.coefficient));
              EXPECT_LT(static_cast<int>(term.slot), 3 + sampler.state_tensors());
            }
          }
        }
        EXPECT_THROW(sampler.update(steps), Error);
        EXPECT_THROW(sampler.update(-1), Error);
      }
}

}  // namespace
}  // namespace tachy
