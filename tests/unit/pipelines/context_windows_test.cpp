// Context windows are compared with those of ComfyUI-WanVideoWrapper (tests/golden/windows/make.py); the
// tests also check properties of all windows.
#include "request/context_windows.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "../models/golden.h"
#include "tensor/random.h"

namespace tachy {
namespace {

using test::GoldenFile;

constexpr WindowKind kKinds[] = {WindowKind::statics, WindowKind::uniform, WindowKind::looped};
const char* name_of(WindowKind kind) {
  return kind == WindowKind::statics ? "static" : kind == WindowKind::uniform ? "uniform" : "looped";
}

TEST(ContextWindows, HoldTheFramesOfTheReference) {
  const GoldenFile golden("windows/windows.safetensors");
  const int64_t shapes[][3] = {{21, 4, 1}, {21, 4, 2}, {21, 7, 1}, {17, 8, 2}, {13, 0, 1}, {20, 5, 1}};
  int compared = 0;
  for (const WindowKind kind : kKinds)
    for (const auto& [frames, overlap, strides] : shapes) {
      const WindowPlan plan{.kind = kind, .frames = frames, .overlap = overlap, .strides = strides};
      const Tensor rows = golden[fmt::format("{}.{}.{}.{}", name_of(kind), frames, overlap, strides)];
      const auto* row = rows.as<uint8_t>();
      std::vector<Window> want;
      for (int64_t i = 0; i < rows.dim(0); ++i, row += rows.dim(1)) {
        want.emplace_back(row + 4, row + rows.dim(1));
        if (!row[2]) continue;
        ASSERT_EQ(windows_of(plan, row[0] + 22, row[1]), want)
            << name_of(kind) << " " << frames << ", " << overlap << ", " << strides << ": clip "
            << row[0] + 22 << ", step " << int{row[1]};
        want.clear(), ++compared;
      }
    }
  EXPECT_GT(compared, 800);
}

TEST(ContextWindows, HaveTheMasksOfTheReference) {
  const GoldenFile golden("windows/windows.safetensors");
  for (const WindowKind kind : kKinds)
    for (const char* mask : {"linear", "pyramid"}) {
      const Tensor rows = golden[fmt::format("mask.{}.{}", name_of(kind), mask)];
      ASSERT_GT(rows.dim(0), 20);
      const auto* row = rows.as<float>();
      for (int64_t i = 0; i < rows.dim(0); ++i, row += rows.dim(1)) {
        const WindowPlan plan{.kind = kind,
                              .mask = parse_window_mask(mask),
                              .frames = 21,
                              .overlap = static_cast<int64_t>(row[1]),
                              .strides = static_cast<int64_t>(row[2])};
        const Window window(row + 3, row + 24);
        const auto got = window_weights(plan, static_cast<int64_t>(row[0]), window);
        for (size_t k = 0; k < 21; ++k)
          ASSERT_EQ(got[k], row[24 + k]) << name_of(kind) << " " << mask << " " << k;
      }
    }
}

TEST(ContextWindows, EveryFrameHasWeightsThatSumToOne) {
  for (const WindowKind kind : kKinds)
    for (const WindowMask mask : {WindowMask::linear, WindowMask::pyramid})
      for (const int64_t frames : {1, 2, 5, 21})
        for (int64_t overlap = 0; overlap < frames; overlap += 3)
          for (int64_t clip = 1; clip < 90; clip += 4)
            for (int step = 0; step < 5; ++step) {
              const WindowPlan plan{
                  .kind = kind, .mask = mask, .frames = frames, .overlap = overlap, .strides = 1 + step % 3};
              const auto windows = windows_of(plan, clip, step);
              const auto weights = blend_weights(plan, clip, windows);
              std::vector<double> sums(static_cast<size_t>(clip));
              for (size_t w = 0; w < windows.size(); ++w) {
                ASSERT_EQ(static_cast<int64_t>(windows[w].size()), std::min(frames, clip));
                for (size_t i = 0; i < windows[w].size(); ++i)
                  sums.at(static_cast<size_t>(windows[w][i])) += double{weights[w][i]};
              }
              for (const double sum : sums)
                ASSERT_NEAR(sum, 1, 1e-6) << name_of(kind) << " " << frames << " " << overlap << " " << clip;
            }
}

TEST(ContextWindows, AClipOfOneWindowHasOne) {
  for (const WindowKind kind :
       {WindowKind::none, WindowKind::statics, WindowKind::uniform, WindowKind::looped}) {
    const WindowPlan plan{.kind = kind, .frames = 21, .overlap = 4};
    EXPECT_FALSE(plan.divides(21));
    Window all(21);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(windows_of(plan, 21, 3), std::vector<Window>{all});
    EXPECT_EQ(plan.divides(22), kind != WindowKind::none);
  }
}

TEST(ContextWindows, NamesAreChecked) {
  EXPECT_EQ(parse_window_kind("uniform"), WindowKind::uniform);
  EXPECT_EQ(parse_window_kind("none"), WindowKind::none);
  EXPECT_THROW(parse_window_kind("round"), Error);
  EXPECT_THROW(parse_window_mask("square"), Error);
}

TEST(Permutations, AreTorchs) {
  const GoldenFile golden("windows/windows.safetensors");
  for (const auto& [seed, before] :
       std::map<uint64_t, size_t>{{0, 0}, {7, 5}, {123, 48}, {(uint64_t{1} << 40) + 3, 100}}) {
    TorchCpuGenerator generator(seed);
    std::vector<float> drawn(before);
    generator.normal(drawn);
    std::vector<int64_t> got;
    for (const int64_t n : {1, 2, 17, 100})
      for (const int64_t i : generator.permutation(n)) got.push_back(i);
    const Tensor want = golden[fmt::format("permutation.{}.{}", seed, before)];
    ASSERT_EQ(static_cast<int64_t>(got.size()), want.numel());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], want.as<uint8_t>()[i]) << seed << " " << i;
  }
}

}  // namespace
}  // namespace tachy
