// Grid::original is compared with published and measured values: the integer timesteps of Wan's own UniPC and
// DPM++ grids (listed from the original code), and a scalar trajectory for each, with x = 1 at the start and
// v = 0.3 x + 0.0005 t - 0.2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "runner.h"

namespace tachy {
namespace {

SamplerConfig original(SamplerKind kind, int steps, double shift) {
  SamplerConfig config;
  config.kind = kind, config.grid = Grid::original, config.steps = steps, config.shift = shift;
  return config;
}

std::vector<double> scalar_run(const SamplerConfig& config) {
  test::Runner runner(config, {1.f});
  std::vector<double> out;
  for (int i = 0; i < runner.sampler.steps(); ++i) {
    const double t = runner.sampler.schedule().timesteps[static_cast<size_t>(i)];
    runner.step(i, {static_cast<float>(0.3 * runner.latent()[0] + 0.0005 * t - 0.2)});
    out.push_back(runner.latent()[0]);
  }
  return out;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], tolerance) << "value " << i;
}

std::vector<double> sigmas(const Schedule& s) { return {s.sigmas.begin(), s.sigmas.end()}; }

struct GridCase {
  int steps;
  double shift, boundary;
  int high_noise;
  double first_sigma, last_sigma;
  std::vector<double> timesteps;
};

const GridCase kUnipcGrids[] = {
    {50, 5, 0, 50, 0.999800, 0.092507, {999, 995, 991, 987, 982, 978, 973, 968, 963, 957, 952, 946, 940,
                                        934, 927, 920, 913, 906, 898, 890, 882, 873, 863, 854, 843, 833,
                                        821, 809, 796, 783, 768, 753, 737, 720, 701, 681, 660, 636, 611,
                                        584, 555, 522, 487, 448, 405, 356, 302, 241, 172, 92}},
    {50, 3, 0, 50, 0.999666, 0.057637, {999, 992, 985, 978, 971, 963, 956, 948, 939, 931, 922, 913, 904,
                                        894, 884, 874, 864, 853, 841, 829, 817, 805, 792, 778, 764, 749,
                                        734, 718, 701, 684, 666, 647, 627, 606, 585, 562, 538, 512, 486,
                                        458, 428, 396, 363, 327, 290, 249, 206, 160, 111, 57}},
    {50, 8, 0, 50, 0.999875, 0.140228, {999, 997, 994, 991, 989, 986, 983, 979, 976, 973, 969, 965, 961,
                                        957, 953, 948, 944, 939, 934, 928, 922, 916, 910, 903, 896, 888,
                                        880, 871, 862, 852, 841, 830, 817, 804, 789, 773, 756, 737, 716,
                                        692, 666, 636, 603, 565, 521, 470, 409, 337, 249, 140}},
    {50, 16, 0, 50, 0.999937, 0.245964, {999, 998, 997, 995, 994, 993, 991, 989, 988, 986, 984, 982, 980,
                                         978, 976, 973, 971, 968, 965, 963, 959, 956, 953, 949, 945, 941,
                                         936, 931, 926, 920, 914, 907, 899, 891, 882, 872, 861, 848, 834,
                                         818, 799, 778, 752, 722, 685, 639, 581, 504, 399, 245}},
    {40, 3, 0, 40, 0, 0, {999, 991, 982, 973, 963, 954, 944, 933, 922, 911, 899, 887, 874, 861,
                          847, 832, 817, 801, 785, 767, 749, 730, 710, 688, 666, 642, 617, 590,
                          562, 531, 499, 465, 428, 388, 345, 299, 249, 195, 136, 71}},
    {40, 5, 0.900, 15, 0.999800, 0.113533, {999, 994, 989, 983, 978, 972, 965, 959, 952, 944,
                                            937, 929, 920, 911, 902, 892, 882, 870, 859, 846,
                                            833, 818, 803, 786, 768, 749, 728, 706, 681, 654,
                                            624, 591, 555, 514, 468, 416, 356, 288, 208, 113}},
    {40, 12, 0.875, 26, 0.999917, 0.235110, {999, 997, 995, 993, 990, 988, 985, 982, 979, 976,
                                             972, 969, 965, 961, 956, 952, 947, 941, 936, 929,
                                             922, 915, 907, 898, 888, 877, 865, 852, 837, 819,
                                             799, 776, 749, 717, 678, 631, 571, 492, 386, 235}},
};

TEST(OriginalGrid, UnipcTimestepsSigmasAndExperts) {
  for (const GridCase& c : kUnipcGrids) {
    const Schedule s = make_schedule(original(SamplerKind::unipc, c.steps, c.shift));
    EXPECT_EQ(s.timesteps, c.timesteps) << c.steps << " steps, shift " << c.shift;
    ASSERT_EQ(s.sigmas.size(), static_cast<size_t>(c.steps) + 1);
    EXPECT_EQ(s.sigmas.back(), 0.f);
    if (c.first_sigma > 0) {
      EXPECT_NEAR(s.sigmas.front(), c.first_sigma, 1e-6);
      EXPECT_NEAR(s.sigmas[static_cast<size_t>(c.steps) - 1], c.last_sigma, 6e-7);
    }
    int high = 0;
    for (int i = 0; i < s.steps(); ++i) high += s.high_noise(i, c.boundary);
    EXPECT_EQ(high, c.high_noise);
  }
}

TEST(OriginalGrid, UnipcScalarTrajectory) {
  const auto config = original(SamplerKind::unipc, 5, 5);
  EXPECT_THAT(make_schedule(config).timesteps, testing::ElementsAre(999, 952, 882, 768, 555));
  expect_near(sigmas(make_schedule(config)), {.9997998, .9521540, .8820933, .7689347, .5552468, 0}, 6e-8);
  expect_near(scalar_run(config), {0.971436, 0.932555, 0.877191, 0.793128, 0.617982}, 6e-7);
}

TEST(OriginalGrid, DpmppStartsAtSigmaOne) {
  const auto config = original(SamplerKind::dpmpp, 5, 5);
  EXPECT_THAT(make_schedule(config).timesteps, testing::ElementsAre(1000, 952, 882, 769, 555));
  expect_near(sigmas(make_schedule(config)), {1, .9523810, .8823529, .7692308, .5555556, 0}, 6e-8);
  expect_near(scalar_run(config), {0.971429, 0.931693, 0.875006, 0.789360, 0.614744}, 6e-7);

  // lambda is -inf at the start: steps 0 and 1 are both of
  // first order, x' = (s'/s) x + (1 - s') (1 - e^-h) m.
  const Sampler sampler(config);
  const auto& first = sampler.update(0).back().terms;
  ASSERT_EQ(first.size(), 2u);
  EXPECT_NEAR(first[1].coefficient, 1 / 21.0, 6e-8);
  EXPECT_EQ(sampler.update(1).back().terms.size(), 2u);
  EXPECT_EQ(sampler.update(2).back().terms.size(), 3u);
  EXPECT_EQ(sampler.update(4).back().terms.size(), 2u);
}

TEST(OriginalGrid, DpmppHighNoiseSteps) {
  auto high_noise_steps = [](double shift, double boundary) {
    const Schedule s = make_schedule(original(SamplerKind::dpmpp, 40, shift));
    int count = 0;
    for (int i = 0; i < s.steps(); ++i) count += s.high_noise(i, boundary);
    return count;
  };
  EXPECT_EQ(high_noise_steps(12, 0.875), 26);
  EXPECT_EQ(high_noise_steps(5, 0.900), 15);
}

TEST(OriginalGrid, EulerShiftsOnce) {
  const Schedule once = make_schedule(original(SamplerKind::euler, 4, 5));
  expect_near(sigmas(once), {1, .9375, .833333333, .625, 0}, 6e-8);
  expect_near(once.timesteps, {1000, 937.5, 833.333333, 625}, 6e-5);
  expect_near(scalar_run(original(SamplerKind::euler, 4, 5)), {0.962500, 0.904427, 0.802762, 0.581931}, 6e-7);

  // diffusers' mistake is imitated only on its own grid.
  SamplerConfig twice = original(SamplerKind::euler, 4, 5);
  twice.grid = Grid::diffusers;
  expect_near(sigmas(make_schedule(twice)), {1, .9097, .7173, .0244, 0}, 6e-5);
}

// A solver of order p must converge with that order. The probability flow of a Gaussian, x0 ~ N(0, 0.25), has
// v = x (s - (1 - s) / 4) / (s^2 + (1 - s)^2 / 4) and the solution x(0) = x(1) / 2.
TEST(OriginalGrid, SolversConvergeToTheExactFlow) {
  auto error = [](SamplerKind kind, int steps) {
    test::Runner runner(original(kind, steps, 3), {1.f});
    for (int i = 0; i < steps; ++i) {
      const double s = runner.sampler.schedule().sigmas[static_cast<size_t>(i)], a = 1 - s;
      const double v = runner.latent()[0] * (s - a / 4) / (s * s + a * a / 4);
      runner.step(i, {static_cast<float>(v)});
    }
    return std::abs(runner.latent()[0] - 0.5);
  };
  EXPECT_LT(error(SamplerKind::euler, 100), 0.02);
  EXPECT_GT(error(SamplerKind::euler, 20), 2 * error(SamplerKind::unipc, 20));
  EXPECT_GT(error(SamplerKind::euler, 20), 2 * error(SamplerKind::dpmpp, 20));
  EXPECT_LT(error(SamplerKind::dpmpp, 100), 0.3 * error(SamplerKind::dpmpp, 20));
}

// If the given sigmas begin at exactly 1, lambda is singular in UniPC as well.
TEST(OriginalGrid, UnipcFromSigmaOneHasNoNan) {
  SamplerConfig config;
  config.sigmas = {1, 0.9, 0.7, 0.4, 0.2};
  for (double x : scalar_run(config)) EXPECT_TRUE(std::isfinite(x));
  SamplerConfig nearly = config;  // the limit is continuous
  nearly.sigmas[0] = 1 - 1e-7;
  expect_near(scalar_run(config), scalar_run(nearly), 0.05);
}

}  // namespace
}  // namespace tachy
