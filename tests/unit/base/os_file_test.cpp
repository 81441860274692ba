// Open files, names in folders and mappings behave as base/os promises for every system.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>

#include "base/os/file.h"
#include "base/os/folder.h"
#include "base/os/map.h"

namespace tachy::os {
namespace {

namespace fs = std::filesystem;

class OsFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tachyscope-os-XXXXXX").string();
    ASSERT_FALSE(make_unique_folder(name));
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path put(const char* name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }
  static std::string text_of(const fs::path& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  File open(const fs::path& path, OpenAs how) {
    error_.clear();
    return {path, how, error_};
  }

  fs::path folder_;
  std::error_code error_;
};

TEST_F(OsFiles, ANewFileTakesNobodysName) {
  {
    File file = open(folder_ / "new", OpenAs::new_file);
    ASSERT_TRUE(file) << error_.message();
    EXPECT_FALSE(file.write("abc", 3));
    EXPECT_FALSE(file.write("def", 3));
    EXPECT_FALSE(file.sync());
    EXPECT_FALSE(file.close());
    EXPECT_FALSE(file);
    EXPECT_FALSE(file.close());
  }
  EXPECT_EQ(text_of(folder_ / "new"), "abcdef");
  EXPECT_FALSE(open(folder_ / "new", OpenAs::new_file));
  EXPECT_EQ(error_, std::errc::file_exists);
  fs::create_symlink(folder_ / "nowhere", folder_ / "link");
  EXPECT_FALSE(open(folder_ / "link", OpenAs::new_file));
  EXPECT_EQ(error_, std::errc::file_exists);
  EXPECT_FALSE(fs::exists(folder_ / "nowhere"));
}

TEST_F(OsFiles, WhatCannotBeOpenedSaysWhy) {
  EXPECT_FALSE(open(folder_ / "none", OpenAs::input));
  EXPECT_EQ(error_, std::errc::no_such_file_or_directory);
  EXPECT_FALSE(open(put("file", "x") / "in a file", OpenAs::input));
  EXPECT_EQ(error_, std::errc::not_a_directory);
  EXPECT_FALSE(open(folder_ / "file", OpenAs::folder));
  EXPECT_EQ(error_, std::errc::not_a_directory);
  EXPECT_TRUE(open(folder_, OpenAs::folder));
  fs::create_directory_symlink(folder_, folder_ / "link");
  EXPECT_FALSE(open(folder_ / "link", OpenAs::folder));
  File folder = open(folder_, OpenAs::input);
  EXPECT_FALSE(folder.sync());
  char byte;
  EXPECT_EQ(folder.read(&byte, 1, error_), 0u);
  EXPECT_EQ(error_, std::errc::is_a_directory);
}

TEST_F(OsFiles, APipeIsNotWaitedForAndIsNoRegularFile) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0666), 0);
  const File pipe = open(folder_ / "pipe", OpenAs::regular_input);
  ASSERT_TRUE(pipe);
  EXPECT_FALSE(pipe.facts(error_).regular);
  EXPECT_FALSE(error_);
}

TEST_F(OsFiles, BytesAtTheirPlaces) {
  File file = open(folder_ / "a", OpenAs::new_file);
  EXPECT_FALSE(file.write_at(4, "efgh", 4));
  EXPECT_FALSE(file.write_at(0, "abcd", 4));
  EXPECT_FALSE(file.resize(10));
  const FileFacts facts = file.facts(error_);
  EXPECT_EQ(facts.bytes, 10u);
  EXPECT_TRUE(facts.regular);
  const auto since = fs::last_write_time(folder_ / "a").time_since_epoch();
  const auto unix_epoch = fs::file_time_type::clock::from_sys(std::chrono::sys_seconds{}).time_since_epoch();
  EXPECT_EQ(facts.modified_ns, std::chrono::nanoseconds(since - unix_epoch).count());
  char bytes[16] = "xxxxxxxxxxxxxxx";
  EXPECT_EQ(file.read_at(2, bytes, 16, error_), 8u);
  EXPECT_EQ(std::memcmp(bytes, "cdefgh\0\0x", 9), 0);
  EXPECT_EQ(file.read_at(10, bytes, 1, error_), 0u);
  EXPECT_FALSE(error_);
  EXPECT_EQ(file.read(bytes, 3, error_), 3u);  // the file's own position has not moved
  EXPECT_EQ(file.read(bytes + 3, 3, error_), 3u);
  EXPECT_EQ(std::memcmp(bytes, "abcdef", 6), 0);
  file.forget_cached();
  File other = std::move(file);
  EXPECT_FALSE(file);
  EXPECT_EQ(other.read_at(0, bytes, 1, error_), 1u);
  EXPECT_EQ(open(folder_ / "a", OpenAs::input).write("x", 1), std::errc::bad_file_descriptor);
}

TEST_F(OsFiles, AFileKnowsItsName) {
  put("a", "1"), put("b", "2");
  const File a = open(folder_ / "a", OpenAs::input);
  fs::create_symlink("a", folder_ / "link");
  fs::create_hard_link(folder_ / "a", folder_ / "second");
  EXPECT_TRUE(a.is_at(folder_ / "a"));
  EXPECT_TRUE(a.is_at(folder_ / "second"));
  EXPECT_FALSE(a.is_at(folder_ / "b"));
  EXPECT_FALSE(a.is_at(folder_ / "link"));
  fs::rename(folder_ / "b", folder_ / "a");
  EXPECT_FALSE(a.is_at(folder_ / "a"));
  EXPECT_FALSE(a.is_at(folder_ / "none"));
}

TEST_F(OsFiles, ARenamedFileReplacesNobodys) {
  put("a", "1"), put("taken", "2");
  EXPECT_EQ(rename_new(folder_ / "a", folder_ / "taken"), std::errc::file_exists);
  EXPECT_EQ(text_of(folder_ / "taken"), "2");
  fs::create_symlink("nowhere", folder_ / "link");
  EXPECT_EQ(rename_new(folder_ / "a", folder_ / "link"), std::errc::file_exists);
  EXPECT_FALSE(rename_new(folder_ / "a", folder_ / "free"));
  EXPECT_EQ(text_of(folder_ / "free"), "1");
  EXPECT_FALSE(fs::exists(folder_ / "a"));
  EXPECT_EQ(rename_new(folder_ / "a", folder_ / "b"), std::errc::no_such_file_or_directory);
}

TEST_F(OsFiles, NamesAreExchangedAndFilesRemoved) {
  put("a", "1");
  fs::create_directory(folder_ / "b");
  put("b/inside", "2");
  EXPECT_FALSE(exchange_names(folder_ / "a", folder_ / "b"));
  EXPECT_EQ(text_of(folder_ / "a/inside"), "2");
  EXPECT_EQ(text_of(folder_ / "b"), "1");
  EXPECT_TRUE(exchange_names(folder_ / "a", folder_ / "none"));
  remove_empty_folder((folder_ / "a").c_str());  // the folder is not empty
  remove_file((folder_ / "a").c_str());
  EXPECT_TRUE(fs::exists(folder_ / "a/inside"));
  remove_file((folder_ / "a/inside").c_str());
  remove_empty_folder((folder_ / "b").c_str());  // it is a file, not a folder
  EXPECT_TRUE(fs::exists(folder_ / "b"));
  remove_empty_folder((folder_ / "a").c_str());
  EXPECT_FALSE(fs::exists(folder_ / "a"));
}

TEST_F(OsFiles, AFolderOfOnesOwn) {
  std::string one = (folder_ / "x-XXXXXX").string(), other = one, lost = (folder_ / "none/x-XXXXXX").string();
  EXPECT_FALSE(make_unique_folder(one));
  EXPECT_FALSE(make_unique_folder(other));
  EXPECT_NE(one, other);
  EXPECT_EQ(fs::status(one).permissions(), fs::perms::owner_all);
  EXPECT_EQ(make_unique_folder(lost), std::errc::no_such_file_or_directory);
}

TEST_F(OsFiles, AMappingOutlivesItsFile) {
  put("a", "abc");
  Mapping kept;
  EXPECT_EQ(kept.data(), nullptr);
  {
    const File file = open(folder_ / "a", OpenAs::regular_input);
    Mapping mapping = Mapping::of_file(file, 3, error_);
    ASSERT_FALSE(error_);
    kept = std::move(mapping);
  }
  fs::remove(folder_ / "a");
  EXPECT_EQ(kept.size(), 3u);
  EXPECT_EQ(std::memcmp(kept.data(), "abc", 3), 0);
  EXPECT_EQ(Mapping::of_file(open(folder_, OpenAs::folder), 1, error_).data(), nullptr);
  EXPECT_TRUE(error_);
}

TEST_F(OsFiles, ZerosCostAddressesAlone) {
  constexpr uint64_t kTerabyte = uint64_t{1} << 40;
  const Mapping zeros = Mapping::of_zeros(kTerabyte, error_);
  ASSERT_FALSE(error_) << error_.message();
  const auto* bytes = static_cast<const char*>(zeros.data());
  EXPECT_EQ(bytes[0] | bytes[kTerabyte / 2] | bytes[kTerabyte - 1], 0);
  EXPECT_EQ(Mapping::of_zeros(UINT64_MAX / 2, error_).data(), nullptr);
  EXPECT_EQ(error_, std::errc::not_enough_memory);
}

}  // namespace
}  // namespace tachy::os
