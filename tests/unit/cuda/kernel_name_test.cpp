// Tests the names of a graph's kernels, as the driver reports them.
#include "cuda/kernel_name.h"

#include <gtest/gtest.h>

namespace tachy::cuda {
namespace {

TEST(KernelName, IsTheFunctionAlone) {
  // This is nvcc's name for an unnamed namespace, which most kernels are in.
  EXPECT_EQ(
      short_kernel_name(
          "_ZN5tachy3ops56_GLOBAL__N__6ce2de5b_19_elementwise_sm80_cu_abcdef_1234512widen_kernelIffLi4EEEv"
          "PKT_PT0_l"),
      "widen_kernel");
  EXPECT_EQ(short_kernel_name("_ZN5tachy6device15row_norm_kernelILi1EEEvPKf"), "row_norm_kernel");
  EXPECT_EQ(short_kernel_name("_ZN5tachy3ops12_GLOBAL__N_14copyEPKfPf"), "copy");
  EXPECT_EQ(short_kernel_name("_Z4takeN12_GLOBAL__N_11PE"), "take") << "a parameter's namespace";
  EXPECT_EQ(short_kernel_name("nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTT"),
            "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTT");
}

}  // namespace
}  // namespace tachy::cuda
