// Keys: what a file of them may hold, who is found by a key, and keys that are made.
#include "web_api/keys.h"

#include <gmock/gmock.h>

#include <fstream>

#include "base/error.h"
#include "temporary_folder.h"

namespace tachy::web_api {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

using KeysOfAFile = InTemporaryFolder;

// The hashes of "alpha" and "beta", by Python's hashlib.
constexpr const char* kAlpha = "8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8";
constexpr const char* kBeta = "f44e64e75f3948e9f73f8dfa94721c4ce8cbb4f265c4790c702b2d41cfbf2753";

std::string error_of(const fs::path& file) {
  try {
    Keys::read(file);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    return e.message();
  }
  return "no error";
}

TEST_F(KeysOfAFile, NamesAndRights) {
  const fs::path file =
      write("keys", std::string("# a comment\n\nalice ") + kAlpha + " priority\n\tbob.b-b_2\t" + kBeta +
                        "   admin priority # another\n");
  const Keys keys = Keys::read(file);
  EXPECT_EQ(keys.size(), 2u);
  const auto alice = keys.find("alpha"), bob = keys.find("beta");
  ASSERT_TRUE(alice && bob);
  EXPECT_EQ(alice->key, "alice");
  EXPECT_TRUE(alice->priority);
  EXPECT_FALSE(alice->admin);
  EXPECT_EQ(bob->key, "bob.b-b_2");
  EXPECT_TRUE(bob->priority && bob->admin);
  for (const char* key : {"", "alph", "alpha ", "Alpha", "alphaa", kAlpha})
    EXPECT_FALSE(keys.find(key)) << key;
}

TEST_F(KeysOfAFile, WhatIsWrongIsSaidWithItsLine) {
  const std::string a = kAlpha, b = kBeta;
  const std::pair<std::string, const char*> wrong[] = {
      {"# nothing\n", "it has no key"},
      {"a " + a + "\nb", "line 2: expected NAME SHA256-OF-KEY"},
      {"a " + a + "\n\nb tk-secret", "line 3: it has a key itself"},
      {"a " + a.substr(1), "line 1: the second word is not a SHA-256"},
      {"a g" + a.substr(1), "line 1: the second word is not a SHA-256"},
      {"a/b " + a, "line 1: expected a name"},
      {std::string(65, 'a') + " " + a, "line 1: expected a name"},
      {"a " + a + " root", "line 1: 'root' is not a right"},
      {"a " + a + "\na " + b, "line 2: the name 'a' is there twice"},
      {"a " + a + "\nb " + a, "line 2: 'b' has the key of 'a'"}};
  for (const auto& [text, message] : wrong) {
    const fs::path file = write("keys", text);
    EXPECT_THAT(error_of(file), testing::AllOf(HasSubstr(file.string()), HasSubstr(message))) << text;
    EXPECT_THAT(error_of(file), testing::Not(HasSubstr("tk-secret")));
  }
  EXPECT_THROW(Keys::read(folder_ / "none"), Error);
}

TEST_F(KeysOfAFile, OthersMayNotWriteIt) {
  for (const unsigned mode : {0620u, 0602u, 0666u})
    EXPECT_THAT(error_of(write("keys", std::string("a ") + kAlpha, mode)), HasSubstr("others may write"));
  EXPECT_EQ(Keys::read(write("keys", std::string("a ") + kAlpha, 0644)).size(), 1u);
}

TEST_F(KeysOfAFile, ANewKeyIsFoundAndNowhereWritten) {
  const fs::path file = folder_ / "keys";
  const std::string first = new_key(file, "alice");
  EXPECT_EQ(first.size(), 46u);
  EXPECT_TRUE(first.starts_with("tk-"));
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  std::ofstream(file, std::ios::app) << "# a comment without an end of line";
  const std::string second = new_key(file, "bob");
  EXPECT_NE(first, second);
  const Keys keys = Keys::read(file);
  ASSERT_TRUE(keys.find(first) && keys.find(second));
  EXPECT_EQ(keys.find(first)->key, "alice");
  EXPECT_EQ(keys.find(second)->key, "bob");
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_THAT(text, testing::AllOf(HasSubstr("# a comment without an end of line\n"),
                                   testing::Not(HasSubstr(first)), testing::Not(HasSubstr("tk-"))));
  for (const char* name : {"alice", "", "a b", "a/b", "a\nb", "#"})
    EXPECT_THROW(new_key(file, name), Error) << name;
  EXPECT_EQ(Keys::read(file).size(), 2u);
  EXPECT_THROW(new_key(folder_ / "none/keys", "a"), Error);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);  // no other file is left
}

TEST_F(KeysOfAFile, ALinkToTheFileStays) {
  new_key(folder_ / "keys", "alice");
  fs::create_symlink("keys", folder_ / "link");
  new_key(folder_ / "link", "bob");
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(Keys::read(folder_ / "keys").size(), 2u);
}

TEST(Bearer, IsReadFromItsHeader) {
  EXPECT_EQ(bearer_of("Bearer tk-1"), "tk-1");
  EXPECT_EQ(bearer_of("bearer  tk-1 "), "tk-1");
  for (const char* text : {"", "Bearer", "Bearer ", "Basic dGs=", "tk-1", "Bearertk-1"})
    EXPECT_EQ(bearer_of(text), "") << text;
}

}  // namespace
}  // namespace tachy::web_api
