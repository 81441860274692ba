// If something cannot be written, the error gives the path and the reason, and nothing is left behind.
#include <sys/stat.h>

#include <cstdlib>

#include "media/video/video_reader.h"
#include "media/video/video_writer.h"
#include "media_testing.h"

namespace tachy {
namespace {
using namespace tachy::testing;

class FailureTest : public MediaTest {};

TEST_F(FailureTest, MissingFolder) {
  for (const char* name :
       {"no/clip.mp4", "no/clip.webm", "no/clip.gif", "no/still.png", "no/a_%04d.png", "no/no/"})
    expect_error(ErrorCode::io, {"no", "folder"}, [&] { VideoWriter::open(folder_ / name, 64, 64); });
  EXPECT_TRUE(listing().empty());
}

TEST_F(FailureTest, PathThroughAFile) {
  write_bytes(folder_ / "plain", {1, 2, 3});
  for (const char* name : {"plain/clip.mp4", "plain/still.png", "plain/frames/", "plain/a_%d.png"})
    expect_error(ErrorCode::io, {"plain", "Not a directory"},
                 [&] { VideoWriter::open(folder_ / name, 64, 64); });
}

TEST_F(FailureTest, ReadOnlyFolder) {
  if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  fs::create_directory(folder_ / "locked");
  chmod((folder_ / "locked").c_str(), 0555);
  expect_error(ErrorCode::io, {"locked/clip.mp4", "Permission denied"},
               [&] { VideoWriter::open(folder_ / "locked/clip.mp4", 64, 64); });
}

TEST_F(FailureTest, FileSystemThatTakesNoFiles) {
  // Even root cannot create files in /proc/self.
  if (!fs::exists("/proc/self")) GTEST_SKIP() << "no /proc";
  for (const char* name : {"/proc/clip.mp4", "/proc/still.png", "/proc/clip.gif"})
    expect_error(ErrorCode::io, {name}, [&] { VideoWriter::open(name, 64, 64); });
}

TEST_F(FailureTest, DevicesAndFoldersAreNotReplaced) {
  fs::create_directory(folder_ / "taken.mp4x");
  fs::create_symlink("/dev/null", folder_ / "null.mp4");
  expect_error(ErrorCode::io, {"null.mp4", "not a plain file"},
               [&] { VideoWriter::open(folder_ / "null.mp4", 64, 64); });
  EXPECT_TRUE(fs::is_symlink(folder_ / "null.mp4"));
  expect_error(ErrorCode::io, {"folder"}, [&] { write_png(folder_ / "taken.mp4x", wave(8, 8, 0).view()); });
}

TEST_F(FailureTest, UnfinishedLeavesNothing) {
  for (const char* name : {"a.mp4", "a.webm", "a.gif", "a.png", "a_%04d.png", "frames/"}) {
    {
      auto writer = VideoWriter::open(folder_ / name, 64, 64);
      writer->write(wave(64, 64, 0).view());
      EXPECT_FALSE(fs::exists(folder_ / name) && fs::is_regular_file(folder_ / name)) << name;
    }
    EXPECT_TRUE(listing().empty()) << name;
  }
}

TEST_F(FailureTest, OldFileStaysUntilFinish) {
  write_bytes(folder_ / "a.mp4", {'o', 'l', 'd'});
  {
    auto writer = VideoWriter::open(folder_ / "a.mp4", 64, 64);
    writer->write(wave(64, 64, 0).view());
  }
  EXPECT_EQ(bytes_of(folder_ / "a.mp4").size(), 3u);
  auto writer = VideoWriter::open(folder_ / "a.mp4", 64, 64);
  writer->write(wave(64, 64, 0).view());
  EXPECT_EQ(bytes_of(folder_ / "a.mp4").size(), 3u);
  writer->finish();
  EXPECT_GT(bytes_of(folder_ / "a.mp4").size(), 500u);
  EXPECT_EQ(listing(), std::set<std::string>{"a.mp4"});
}

TEST_F(FailureTest, DiskFull) {
  // The disk has room for nothing, for a part, or for all but the last bytes (the index, the comment): there
  // is never a file, and the error is always io.
  VideoOptions options;
  options.comment = "{\"seed\": 1}";
  for (const char* name : {"a.mp4", "a.webm", "a.gif", "a.png", "a_%02d.png", "frames/"}) {
    int frames = std::string(name) == "a.png" ? 1 : 6;
    auto attempt = [&] {
      auto writer = VideoWriter::open(folder_ / name, 64, 64, options);
      for (int t = 0; t < frames; ++t) writer->write(noise(64, 64, unsigned(t)).view());
      writer->finish();
    };
    attempt();
    uintmax_t largest = 0;
    for (const auto& e : fs::recursive_directory_iterator(folder_))
      if (e.is_regular_file()) largest = std::max(largest, e.file_size());
    for (const auto& e : fs::directory_iterator(folder_)) fs::remove_all(e.path());
    for (uintmax_t room :
         {uintmax_t(0), uintmax_t(100), largest / 4, largest / 2, largest - 400, largest - 1}) {
      FileSizeLimit limit(room);
      expect_error(ErrorCode::io, {fs::path(name).stem().string().substr(0, 1), "File too large"}, attempt);
      EXPECT_TRUE(listing().empty()) << name << " with room for " << room << " of " << largest << " bytes";
    }
    attempt();
    for (const auto& e : fs::directory_iterator(folder_)) fs::remove_all(e.path());
  }
}

TEST_F(FailureTest, RealFullFileSystem) {
  // In a privileged run TACHY_TEST_FULL_DIR names a folder on a small, nearly full file system.
  const char* full = std::getenv("TACHY_TEST_FULL_DIR");
  if (full == nullptr) GTEST_SKIP() << "TACHY_TEST_FULL_DIR is not set";
  for (const char* name : {"a.mp4", "a.webm", "a.gif", "a_%04d.png"}) {
    expect_error(ErrorCode::io, {name[1] == '_' ? "a_" : name, "No space left on device"}, [&] {
      auto writer = VideoWriter::open(fs::path(full) / name, 256, 256);
      for (int t = 0; t < 12; ++t) writer->write(noise(256, 256, unsigned(t)).view());
      writer->finish();
    });
    EXPECT_FALSE(fs::exists(fs::path(full) / name));
  }
}

TEST_F(FailureTest, WrongUse) {
  auto open = [&](const char* name, int w, int h, VideoOptions options = {}) {
    return VideoWriter::open(folder_ / name, w, h, options);
  };
  using enum ErrorCode;
  expect_error(invalid_argument, {"0x64"}, [&] { open("a.mp4", 0, 64); });
  expect_error(invalid_argument, {"40000x64"}, [&] { open("a.webm", 40000, 64); });
  expect_error(invalid_argument, {"frames a second"}, [&] { open("a.mp4", 64, 64, {.fps = 0}); });
  expect_error(invalid_argument, {"frames a second"}, [&] { open("a.mp4", 64, 64, {.fps = NAN}); });
  expect_error(invalid_argument, {"GIF", "60"}, [&] { open("a.gif", 64, 64, {.fps = 60}); });
  expect_error(invalid_argument, {"crf"}, [&] { open("a.mp4", 64, 64, {.crf = 52}); });
  expect_error(invalid_argument, {"crf", "0 to 51"}, [&] { open("a.mp4", 64, 64, {.crf = -2}); });
  expect_error(invalid_argument, {"crf", "0 to 63"}, [&] { open("a.webm", 64, 64, {.crf = 64}); });
  expect_error(invalid_argument, {"threads"}, [&] { open("a.mp4", 64, 64, {.threads = -1}); });
  expect_error(invalid_argument, {"turbo", "veryfast", "medium"},
               [&] { open("a.mp4", 64, 64, {.speed = "turbo"}); });
  expect_error(invalid_argument, {"81 frames"}, [&] { open("a.png", 64, 64, {.expected_frames = 81}); });

  auto writer = open("b.mp4", 64, 64);
  expect_error(invalid_argument, {"64x64", "32x64"}, [&] { writer->write(wave(32, 64, 0).view()); });
  expect_error(invalid_argument, {"no frames"}, [&] { writer->finish(); });
  writer->write(wave(64, 64, 0).view());
  writer->finish();
  expect_error(invalid_argument, {"finished"}, [&] { writer->write(wave(64, 64, 0).view()); });
  expect_error(invalid_argument, {"finished"}, [&] { writer->finish(); });

  auto still = open("c.png", 64, 64);
  still->write(wave(64, 64, 0).view());
  expect_error(invalid_argument, {"one picture"}, [&] { still->write(wave(64, 64, 1).view()); });
  expect_error(invalid_argument, {"given up"}, [&] { still->finish(); });
  still.reset();
  EXPECT_EQ(listing(), std::set<std::string>{"b.mp4"});
}

TEST_F(FailureTest, OddNames) {
  // A URL parser, a printf or a shell would trip over these names.
  for (const char* name :
       {"a:b.mp4", "http:x.webm", "per%cent.gif", "sp ace 'q\".mp4", "ümläut.webm", "-dash.png"}) {
    auto writer = VideoWriter::open(folder_ / name, 64, 64);
    writer->write(wave(64, 64, 0).view());
    writer->finish();
    EXPECT_EQ(read_video(folder_ / name).size(), 1u) << name;
  }
  std::string longest = std::string(251, 'n') + ".mp4";  // 255 bytes, the longest possible name
  auto writer = VideoWriter::open(folder_ / longest, 64, 64);
  writer->write(wave(64, 64, 0).view());
  writer->finish();
  EXPECT_TRUE(fs::exists(folder_ / longest));
}

}  // namespace
}  // namespace tachy
