// Which library of kernels serves which GPU, and where libraries are looked for.
#include "cuda/apart/kernel_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/os/process.h"

namespace tachy::cuda {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class KernelFiles : public testing::Test {
 protected:
  KernelFiles() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~KernelFiles() override { fs::remove_all(folder_); }

  std::vector<KernelFile> with(const std::vector<std::string>& names) {
    for (const auto& name : names) std::ofstream(folder_ / name) << "x";
    return kernel_files(std::vector<fs::path>{folder_ / "none", folder_});
  }
  std::vector<KernelFile> all() {
    std::vector<std::string> names;
    for (const char* a : {"75", "80_ptx", "86", "89", "90a", "120_ptx"})
      names.push_back(std::string("libtachyscope_cuda13_sm") + a + ".so");
    return with(names);
  }
  static std::string chosen(const std::vector<KernelFile>& files, std::vector<int> capabilities) {
    const KernelFile* file = choose_kernels(files, capabilities);
    return file ? std::to_string(file->capability) : "none";
  }

  const fs::path folder_ = fs::temp_directory_path() / ("kernel_files_" + std::to_string(os::process_id()));
};

TEST_F(KernelFiles, OnlyNamesOfTheFormCount) {
  const auto files =
      with({"libtachyscope_cuda13_sm90a.so", "libtachyscope_cuda13_sm.so", "libtachyscope_cuda13_sm8x.so",
            "libtachyscope_cuda12_sm80.so", "libtachyscope_cuda13_sm80_ptx.so",
            "libtachyscope_cuda13_sm80.so.1", "libtachyscope_cuda13_sm12345.so", "README"});
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].capability, 80);
  EXPECT_TRUE(files[0].ptx);
  EXPECT_FALSE(files[0].alone);
  EXPECT_EQ(files[1].capability, 90);
  EXPECT_TRUE(files[1].alone);
  EXPECT_FALSE(files[1].ptx);
  EXPECT_EQ(architectures_of(files), "80 90a");
}

TEST_F(KernelFiles, AGpuGetsItsOwnCodeOrThatOfItsFamilyOrTheNewestThatTheDriverCompiles) {
  const auto files = all();
  ASSERT_EQ(files.size(), 6u);
  EXPECT_EQ(architectures_of(files), "75 80 86 89 90a 120");
  for (const auto& [capability, wanted] : std::vector<std::pair<int, std::string>>{{70, "none"},
                                                                                   {75, "75"},
                                                                                   {80, "80"},
                                                                                   {86, "86"},
                                                                                   {87, "86"},
                                                                                   {89, "89"},
                                                                                   {90, "90"},
                                                                                   {100, "80"},
                                                                                   {103, "80"},
                                                                                   {110, "80"},
                                                                                   {120, "120"},
                                                                                   {121, "120"},
                                                                                   {130, "120"}})
    EXPECT_EQ(chosen(files, {capability}), wanted) << capability;
}

// The tables of ops offer Hopper's own kernels there, which other libraries do not have.
TEST_F(KernelFiles, AHopperGpuTakesItsOwnLibraryOnly) {
  EXPECT_EQ(chosen(with({"libtachyscope_cuda13_sm80_ptx.so", "libtachyscope_cuda13_sm75.so"}), {90}), "none");
}

TEST_F(KernelFiles, SeveralGpusGetCodeThatAllOfThemRun) {
  const auto files = all();
  EXPECT_EQ(chosen(files, {89, 86}), "86");
  EXPECT_EQ(chosen(files, {86, 80, 89}), "80");
  // No code of their own serves both, and what the driver compiles lacks Hopper's instructions: the first gets its own.
  EXPECT_EQ(chosen(files, {90, 80}), "90");
  EXPECT_EQ(chosen(files, {80, 90}), "80");
  EXPECT_EQ(chosen(files, {60, 90}), "none");
  EXPECT_EQ(chosen(files, {}), "none");
}

TEST_F(KernelFiles, ASettingReplacesAllFolders) {
  EXPECT_THAT(kernel_folders("/opt/kernels", "/usr/bin/tachyscope"), ElementsAre("/opt/kernels"));
  const auto normal = [](const fs::path& module) {
    std::vector<std::string> out;
    for (const auto& f : kernel_folders("", module)) out.push_back(f.lexically_normal().string());
    return out;
  };
  EXPECT_THAT(normal("/usr/bin/tachyscope"), testing::Contains("/usr/lib/tachyscope/cuda13"));
  EXPECT_THAT(normal("/usr/libexec/tachyscope/tachyscope-serve"),
              testing::Contains("/usr/lib/tachyscope/cuda13"));
  EXPECT_THAT(normal("/s/tachyscope/libtachyscope_ops.so"), testing::Contains("/s/tachyscope_cuda13/lib"));
  EXPECT_THAT(normal("/s/tachyscope/bin/tachyscope"), testing::Contains("/s/tachyscope_cuda13/lib"));
}

}  // namespace
}  // namespace tachy::cuda
