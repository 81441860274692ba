#include "ops/match_colors/match_colors.h"

#include "ops/match_colors/match_colors_impl.h"
#include "ops/op_helpers.h"

namespace tachy::ops {

std::span<const Impl<LabStatisticsArgs>> lab_statistics_table() {
  static constexpr Impl<LabStatisticsArgs> table[] = {{"cpu", nullptr, lab_statistics_cpu},
                                                      {"ref", nullptr, lab_statistics_ref}};
  return table;
}

std::span<const Impl<MatchColorsArgs>> match_colors_table() {
  static constexpr Impl<MatchColorsArgs> table[] = {{"cpu", nullptr, match_colors_cpu},
                                                    {"ref", nullptr, match_colors_ref}};
  return table;
}

LabStatistics lab_statistics(const Tensor& x, Stream& stream) {
  const char* op = "lab_statistics";
  expect_f32(op, "x", x, {-1, -1, 3});
  expect_contiguous(op, "x", x);
  require(x.numel() > 0, "{}: expected x with pixels, got {}", op, shape_string(x));
  LabStatistics result;
  const LabStatisticsArgs args{x, &result};
  const auto& impl = pick<LabStatisticsArgs>(op, lab_statistics_table(), args, stream);
  if (!stream.measuring()) impl.run(args, stream);
  return result;
}

void match_colors(const MatchColorsArgs& a, Stream& stream) {
  const char* op = "match_colors";
  expect_f32(op, "x", a.x, {-1, -1, -1, 3});
  expect_contiguous(op, "x", a.x);
  expect_f32(op, "y", a.y, {a.x.dim(0), a.x.dim(1), a.x.dim(2), 3});
  expect_contiguous(op, "y", a.y);
  require(a.x.numel() > 0, "{}: expected x with pixels, got {}", op, shape_string(a.x));
  require(a.strength >= 0 && a.strength <= 1, "{}: expected strength 0 to 1, got {}", op, a.strength);
  const auto& impl = pick<MatchColorsArgs>(op, match_colors_table(), a, stream);
  if (!stream.measuring()) impl.run(a, stream);
}

}  // namespace tachy::ops
