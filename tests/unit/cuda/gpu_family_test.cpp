// Each compute capability that kernels are compiled for has its family's row, and only measured rows claim to
// be measured.
#include "cuda/gpu_family.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "cuda/gpu_sheet.h"

namespace tachy::cuda {
namespace {

TEST(GpuFamilyTest, EveryCapabilityHasItsRow) {
  const std::map<int, std::string> expected = {
      {75, "Turing"},
      {80, "Ampere"},
      {86, "Ampere and Ada, smaller"},
      {89, "Ampere and Ada, smaller"},
      {90, "Hopper"},
      {100, "Blackwell"},
      {120, "Blackwell, GeForce"},
      {61, "Turing"},  // older than any capability that kernels are compiled for
      {210, "Blackwell, GeForce"}};
  for (const auto& [capability, family] : expected)
    EXPECT_EQ(family_of({.major = capability / 10, .minor = capability % 10}).name, family) << capability;
}

TEST(GpuFamilyTest, RowsAreInOrderAndWhatIsMeasuredIsMarked) {
  int before = 0;
  for (const GpuFamily& family : gpu_families()) {
    EXPECT_GT(family.capability, before) << family.name;
    before = family.capability;
    EXPECT_EQ(family.measured, std::string(family.name) == "Hopper") << family.name;
    // The kernel few_keys has room for no more keys (attention_few_keys_sm80.cu).
    EXPECT_LE(family.few_keys, 80) << family.name;
  }
}

// The norm in a convolution takes instructions and saves a pass over memory. On an H200 as 8.0 it took 37 ms
// and saved 32 (bench/notes/vae.md), so it pays where memory is slower for its instructions by a sixth.
TEST(GpuFamilyTest, NormsInConvolutionsFollowTheDataSheets) {
  const GpuSheet* h200 = find_gpu_sheet("h200");
  ASSERT_TRUE(h200);
  const double even = h200->memory / h200->single * 32 / 37;
  for (const GpuSheet& sheet : gpu_sheets()) {
    if (sheet.capability < 80 || sheet.capability == 90) continue;  // no such kernel, or kernels of its own
    const GpuFamily& family = family_of({.major = sheet.capability / 10, .minor = sheet.capability % 10});
    EXPECT_EQ(family.conv_norms, sheet.memory / sheet.single < 0.9 * even) << sheet.name;
  }
}

}  // namespace
}  // namespace tachy::cuda
