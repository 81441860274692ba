// A folder that a test has for itself and that is removed with it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/os/folder.h"

namespace tachy::web_api {

class InTemporaryFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "tachyscope-web-XXXXXX").string();
    ASSERT_FALSE(os::make_unique_folder(name));
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& text, unsigned mode = 0600) {
    std::ofstream(folder_ / name) << text;
    std::filesystem::permissions(folder_ / name, static_cast<std::filesystem::perms>(mode));
    return folder_ / name;
  }

  std::filesystem::path folder_;
};

}  // namespace tachy::web_api
