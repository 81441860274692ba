// Kept choices come back in another process; a damaged or missing file costs a choice, but never causes an
// error.
#include "cuda/vendor/algorithm_cache.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tachy::cuda {
namespace {

class AlgorithmCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / "tachy_algorithm_cache";
    std::filesystem::remove_all(folder_);
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(folder_);
  }
  static AlgorithmWords words(uint64_t seed) {
    AlgorithmWords w;
    for (uint64_t i = 0; i < w.size(); ++i) w[i] = seed * 0x9e3779b97f4a7c15u + i;
    return w;
  }
  std::filesystem::path folder_;
};

TEST_F(AlgorithmCacheTest, KeepsAcrossInstances) {
  AlgorithmCache one("gemm-NVIDIA H100/80");
  EXPECT_EQ(one.find("a"), nullptr);
  one.keep("a", words(1));
  AlgorithmCache two("gemm-NVIDIA H100/80");
  ASSERT_NE(two.find("a"), nullptr);
  EXPECT_EQ(*two.find("a"), words(1));
  two.keep("b 1 2", words(2));
  one.keep("c", words(3));  // keeps what another process stored in the meantime
  const AlgorithmCache three("gemm-NVIDIA H100/80");
  for (const auto& [key, seed] : {std::pair<const char*, uint64_t>{"a", 1}, {"b 1 2", 2}, {"c", 3}}) {
    ASSERT_NE(three.find(key), nullptr) << key;
    EXPECT_EQ(*three.find(key), words(seed)) << key;
  }
  EXPECT_EQ(AlgorithmCache("another GPU").find("a"), nullptr);
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "tachyscope"))
    EXPECT_EQ(entry.path().extension(), ".txt") << "a temporary file stayed";
}

TEST_F(AlgorithmCacheTest, DropsDamagedLinesOnly) {
  AlgorithmCache cache("gpu");
  cache.keep("a", words(1)), cache.keep("b", words(2));
  std::stringstream text;
  text << std::ifstream(cache.path()).rdbuf();
  const std::string whole = text.str();
  for (size_t cut = 0; cut < whole.size(); cut += 7) {
    std::ofstream(cache.path(), std::ios::trunc) << whole.substr(0, cut);
    const AlgorithmCache short_one("gpu");
    const std::string said = short_one.complaint();
    for (const char* key : {"a", "b"})
      if (const auto* got = short_one.find(key)) {
        EXPECT_EQ(*got, words(key[0] == 'a' ? 1 : 2));
      }
    const bool line_end = whole[cut] == '\n' || (cut > 0 && whole[cut - 1] == '\n');
    const bool complete = cut > 0 && line_end && cut >= whole.find('\n');
    EXPECT_EQ(said.empty(), complete) << "cut at " << cut << ": " << said;
  }
  std::string flipped = whole;
  flipped[whole.find('\n') + 5] ^= 1;  // changes a digit of the first entry, which may no longer be a digit
                                       // then
  std::ofstream(cache.path(), std::ios::trunc) << flipped;
  const AlgorithmCache damaged("gpu");
  EXPECT_NE(damaged.complaint().find("1 of its lines"), std::string::npos) << damaged.complaint();
  EXPECT_EQ(damaged.find("a"), nullptr);
  EXPECT_NE(damaged.find("b"), nullptr);
}

TEST_F(AlgorithmCacheTest, ForeignFilesAreSaidAndReplaced) {
  // Both names become the same file name, as those of two GPUs or of two drivers might.
  AlgorithmCache other("NVIDIA H200 driver 1");
  other.keep("a", words(1));
  testing::internal::CaptureStderr();
  AlgorithmCache mine("NVIDIA_H200_driver_1");
  EXPECT_EQ(mine.path(), other.path());
  EXPECT_EQ(mine.find("a"), nullptr) << "the algorithm of another GPU is never used";
  mine.keep("b", words(2));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("those of 'NVIDIA H200 driver 1'"), std::string::npos) << said;
  EXPECT_EQ(said.find("those of", said.find("those of") + 1), std::string::npos) << "said once: " << said;
  const AlgorithmCache again("NVIDIA_H200_driver_1");
  EXPECT_EQ(again.find("a"), nullptr);
  ASSERT_NE(again.find("b"), nullptr);
  for (const char* text : {"", "{}", "tachyscope algorithms 1\n", "\x7f\x45\x4c\x46"}) {
    std::ofstream(again.path(), std::ios::trunc) << text;
    AlgorithmCache strange("NVIDIA_H200_driver_1");
    EXPECT_NE(strange.complaint().find("not used"), std::string::npos) << text;
    EXPECT_EQ(strange.find("b"), nullptr);
    strange.keep("c", words(3));
    EXPECT_NE(AlgorithmCache("NVIDIA_H200_driver_1").find("c"), nullptr) << "replaced by a whole file";
  }
}

TEST_F(AlgorithmCacheTest, AnUnusableFolderIsNoError) {
  std::ofstream(folder_) << "a file where the folder should be";
  AlgorithmCache cache("gpu");
  cache.keep("a", words(1));
  ASSERT_NE(cache.find("a"), nullptr);
  EXPECT_EQ(*cache.find("a"), words(1));
}

}  // namespace
}  // namespace tachy::cuda
