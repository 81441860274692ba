// The fingerprint of measured choices in a run's settings follows the contents of the cache folder.
#include "cuda/vendor/kept_choices.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace tachy::cuda {
namespace {

namespace fs = std::filesystem;

class KeptChoices : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"XDG_CACHE_HOME", "HOME"})
      if (const char* const old = std::getenv(name)) (name[0] == 'X' ? cache_ : home_) = old;
    fs::remove_all(folder_);
  }
  void TearDown() override {
    cache_.empty() ? unsetenv("XDG_CACHE_HOME") : setenv("XDG_CACHE_HOME", cache_.c_str(), 1);
    home_.empty() ? unsetenv("HOME") : setenv("HOME", home_.c_str(), 1);
    fs::remove_all(folder_);
  }
  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  const fs::path folder_ = fs::path(testing::TempDir()) / "tachy_kept_choices";
  std::string cache_, home_;
};

TEST_F(KeptChoices, AreFoundWhereTheyAreKept) {
  setenv("XDG_CACHE_HOME", (folder_ / "x").c_str(), 1), setenv("HOME", (folder_ / "h").c_str(), 1);
  EXPECT_EQ(kept_choices_folder(), (folder_ / "x/tachyscope").string());
  EXPECT_EQ(kept_choices(), "") << "there is no such folder";
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(kept_choices_folder(), (folder_ / "h/.cache/tachyscope").string());
  unsetenv("HOME");
  EXPECT_EQ(kept_choices_folder(), "");
  EXPECT_EQ(kept_choices(), "");
}

TEST_F(KeptChoices, AnotherChoiceIsAnotherFingerprint) {
  setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  write(folder_ / "tachyscope/sound.bin", "something else");
  EXPECT_EQ(kept_choices(), "");
  write(folder_ / "tachyscope/gemm.txt", "one");
  const std::string one = kept_choices();
  EXPECT_EQ(one.size(), 16u);
  EXPECT_EQ(kept_choices(), one);
  write(folder_ / "tachyscope/gemm.txt", "two");
  const std::string two = kept_choices();
  EXPECT_NE(two, one);
  write(folder_ / "tachyscope/lora.txt", "one");
  EXPECT_NE(kept_choices(), two);
}

}  // namespace
}  // namespace tachy::cuda
