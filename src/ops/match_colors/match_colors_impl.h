// The implementations of match_colors, for its tables and the op runner, and the
// constants of the two conversions.
#pragma once

#include "ops/impl_table.h"
#include "ops/match_colors/match_colors.h"

namespace tachy::ops {

struct LabStatisticsArgs {
  Tensor x;
  LabStatistics* result = nullptr;
};

void lab_statistics_ref(const LabStatisticsArgs& args, Stream& stream);  // plain loops, float64 inside
void lab_statistics_cpu(const LabStatisticsArgs& args, Stream& stream);  // Highway, float64 too
std::span<const Impl<LabStatisticsArgs>> lab_statistics_table();

void match_colors_ref(const MatchColorsArgs& args, Stream& stream);
void match_colors_working(const MatchColorsArgs& args, Stream& stream);  // the definition in float32
void match_colors_cpu(const MatchColorsArgs& args, Stream& stream);
std::span<const Impl<MatchColorsArgs>> match_colors_table();

namespace lab {

// From linear RGB to XYZ, and the inverse as LAPACK gives it; the white point of D65 at 2 degrees.
inline constexpr double kXyzOfRgb[3][3] = {
    {0.412453, 0.357580, 0.180423}, {0.212671, 0.715160, 0.072169}, {0.019334, 0.119193, 0.950227}};
inline constexpr double kRgbOfXyz[3][3] = {{3.2404813432005266, -1.5371515162713183, -0.4985363261688878},
                                           {-0.9692549499965682, 1.8759900014898907, 0.04155592655829284},
                                           {0.05564663913517717, -0.20404133836651123, 1.0573110696453443}};
inline constexpr double kWhite[3] = {0.95047, 1.0, 1.08883};
// Up to these values the curves of sRGB and of Lab, and both of their inverses, are straight lines.
inline constexpr double kStraightRgb = 0.04045, kStraightLab = 0.008856;
inline constexpr double kStraightLinear = 0.0031308, kStraightRoot = 0.2068966;
inline constexpr double kSlope = 7.787, kOffset = 16.0 / 116.0;

// Pixels in one of the CPU's tiles: a multiple of any vector's lanes.
inline constexpr int64_t kTilePixels = 1024;

// c' = (c − mean)·factor + target; `strength` says how much of it is used.
struct Map {
  double mean[3], factor[3], target[3], strength;
};

}  // namespace lab

}  // namespace tachy::ops
