// Each compute capability that kernels are compiled for has its family's row, and only measured rows claim to
// be measured.
#include "cuda/gpu_family.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

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
      {120, "Blackwell"},
      {61, "Turing"},  // older than any capability that kernels are compiled for
      {210, "Blackwell"}};
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

}  // namespace
}  // namespace tachy::cuda
