// Tests the folder of a conversion: it is on the disk before it has its name, and gone if it could not be
// completed.
#include "convert/output_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <mutex>

#include "tiny_model.h"

namespace tachy::test {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;

// The files that were synced since the list was last cleared, by their names at that time.
std::mutex synced_mutex;
std::vector<std::string> synced;

}  // namespace

void note_sync(int fd) {
  const std::lock_guard lock(synced_mutex);
  std::error_code ignored;
  synced.push_back(fs::read_symlink("/proc/self/fd/" + std::to_string(fd), ignored).string());
}

}  // namespace tachy::test

// This replaces the C library's function for everything in this binary.
extern "C" int fsync(int fd) {
  tachy::test::note_sync(fd);
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace tachy::test {
namespace {

size_t place_of(const fs::path& path) {
  return static_cast<size_t>(std::find(synced.begin(), synced.end(), path.string()) - synced.begin());
}

TEST(OutputFolder, IsOnTheDiskBeforeItHasItsName) {
  const ScratchFolder scratch;
  const fs::path real = fs::canonical(scratch.path), part = real / ".d.convert.part";
  for (const bool replace : {false, true}) {
    OutputFolder out(real / "d", {"vae", "tokenizer"});
    std::ofstream(out.place("vae/copied")) << "x";
    std::ofstream(out.place("index.json")) << "y";
    synced.clear();
    out.commit(replace);
    for (const char* name : {"", "vae", "tokenizer", "vae/copied", "index.json"})
      EXPECT_THAT(synced, Contains(name[0] ? (part / name).string() : part.string()));
    ASSERT_THAT(synced, Contains(real.string())) << "the name itself";
    EXPECT_EQ(place_of(real), synced.size() - 1);
  }
}

TEST(OutputFolder, WhatCannotBeMadeLeavesNothing) {
  const ScratchFolder scratch;
  const std::string long_name(300, 'x');
  EXPECT_THAT(refusal(
                  [&] {
                    OutputFolder(scratch.path / "d", {"vae", long_name});
                  },
                  ErrorCode::io),
              HasSubstr("cannot create"));
  EXPECT_TRUE(fs::is_empty(scratch.path));
  OutputFolder(scratch.path / "d", {"vae"});
  EXPECT_TRUE(fs::is_empty(scratch.path)) << "not committed";
}

}  // namespace
}  // namespace tachy::test
