// Tests reading videos: limits, hostile and damaged files, and files that would open others.
#include <thread>

#include "media/metadata.h"
#include "media/video/video_reader.h"
#include "media/video/video_writer.h"
#include "media_testing.h"

namespace tachy {
namespace {
using namespace tachy::testing;

class ReaderTest : public MediaTest {
 protected:
  fs::path make(const std::string& name, int frames = 12) {
    VideoOptions options;
    options.comment = "{\"seed\": 5}";
    auto writer = VideoWriter::open(folder_ / name, 96, 64, options);
    for (int t = 0; t < frames; ++t) writer->write(wave(96, 64, t).view());
    writer->finish();
    return folder_ / name;
  }
};

// Files that were sent to a server have no ending.
TEST_F(ReaderTest, AFileWithoutAnEndingIsKnownByItsContent) {
  write_png(folder_ / "picture.png", wave(96, 64, 3).view());
  fs::rename(folder_ / "picture.png", folder_ / "picture");
  fs::rename(make("film.mp4", 3), folder_ / "film");
  EXPECT_EQ(read_video(folder_ / "picture").size(), 1u);
  EXPECT_EQ(VideoReader::open(folder_ / "picture")->info().frames, 1);
  EXPECT_EQ(read_video(folder_ / "film").size(), 3u);
  ReadVideoOptions few;
  few.max_pixels = 1000;
  expect_error(ErrorCode::corrupt, {"picture: 96x64", "1000 pixels"},
               [&] { read_video(folder_ / "picture", few); });
  fs::rename(folder_ / "picture", folder_ / "picture.mp4");
  expect_error(ErrorCode::corrupt, {"picture.mp4", "a PNG picture"},
               [&] { read_video(folder_ / "picture.mp4"); });
}

TEST_F(ReaderTest, Limits) {
  fs::path path = make("a.mp4");
  ReadVideoOptions options;
  options.max_frames = 5;
  EXPECT_EQ(read_video(path, options).size(), 5u);
  options = {};
  options.max_bytes = 96 * 64 * 3 * 4;
  expect_error(ErrorCode::out_of_memory, {"a.mp4", "max_frames"}, [&] { read_video(path, options); });
  for (const char* name : {"a.mp4", "a.webm", "a.gif"}) {
    make(name, 2);
    options = {};
    options.max_pixels = 1000;
    try {
      read_video(folder_ / name, options);
      ADD_FAILURE() << name;
    } catch (const Error& e) {
      EXPECT_NE(e.message().find(name), std::string::npos) << e.what();
    }
  }
}

TEST_F(ReaderTest, ThreadsGiveTheSameFrames) {
  fs::path path = make("a.mp4", 30);
  ReadVideoOptions options;
  options.threads = 4;
  auto one = read_video(path), four = read_video(path, options);
  ASSERT_EQ(one.size(), 30u);
  ASSERT_EQ(four.size(), 30u);
  for (size_t t = 0; t < one.size(); ++t) EXPECT_EQ(one[t].rgb, four[t].rgb) << t;
}

TEST_F(ReaderTest, ReadersInThreads) {
  fs::path mp4 = make("a.mp4"), gif = make("a.gif"), webm = make("a.webm");
  std::vector<std::jthread> threads;
  std::atomic<int> good{0};
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&, i] {
      good += read_video(i % 3 == 0 ? mp4 : i % 3 == 1 ? gif : webm).size() == 12;
    });
  threads.clear();
  EXPECT_EQ(good, 6);
}

TEST_F(ReaderTest, OtherFiles) {
  expect_error(ErrorCode::not_found, {"none.mp4"}, [&] { read_video(folder_ / "none.mp4"); });
  expect_error(ErrorCode::not_found, {"none.mp4"}, [&] { read_comment(folder_ / "none.mp4"); });
  fs::create_directory(folder_ / "empty");
  expect_error(ErrorCode::not_found, {"no pictures"}, [&] { read_video(folder_ / "empty"); });
  write_bytes(folder_ / "text.mp4", std::vector<uint8_t>(5000, 'a'));
  expect_error(ErrorCode::corrupt, {"text.mp4"}, [&] { read_video(folder_ / "text.mp4"); });
  write_bytes(folder_ / "zero.webm", {});
  expect_error(ErrorCode::corrupt, {"zero.webm"}, [&] { read_video(folder_ / "zero.webm"); });
}

TEST_F(ReaderTest, PlaylistsOpenNothing) {
  make("secret.mp4");
  auto lists = {std::string("ffconcat version 1.0\nfile 'secret.mp4'\n"),
                std::string("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nsecret.mp4\n#EXT-X-ENDLIST\n")};
  for (const std::string& text : lists)
    for (const char* name : {"list.mp4", "list.m3u8", "list.ffconcat"}) {
      write_bytes(folder_ / name, {text.begin(), text.end()});
      expect_error(ErrorCode::corrupt, {name}, [&] { read_video(folder_ / name); });
      expect_error(ErrorCode::corrupt, {name}, [&] { read_comment(folder_ / name); });
    }
}

TEST_F(ReaderTest, TruncatedGivesAnErrorOrFewerFrames) {
  for (const char* name : {"a.mp4", "a.webm", "a.gif"}) {
    auto whole = bytes_of(make(name));
    int refused = 0, total = 0;
    for (size_t keep = 0; keep < whole.size(); keep += 1 + whole.size() / 40) {
      write_bytes(folder_ / "cut", {whole.begin(), whole.begin() + ptrdiff_t(keep)});
      ++total;
      try {
        auto frames = read_video(folder_ / "cut");
        EXPECT_LE(frames.size(), 12u);
        // Frames that are returned must be right: no frame is made up from missing data.
        for (size_t t = 0; t < frames.size(); ++t)
          EXPECT_GT(psnr(frames[t].rgb, wave(96, 64, int(t)).rgb), 26)
              << name << " cut at " << keep << " frame " << t;
      } catch (const Error& e) {
        ++refused;
        EXPECT_NE(e.message().find("cut"), std::string::npos) << e.what();
      }
    }
    EXPECT_GT(refused, total / 10) << name;
    RecordProperty(name, std::to_string(refused) + " of " + std::to_string(total));
  }
}

TEST_F(ReaderTest, DamagedNeverCrashes) {
  for (const char* name : {"a.mp4", "a.webm", "a.gif"}) {
    auto whole = bytes_of(make(name, 4));
    // Change every byte of the headers, then some samples.
    for (size_t at = 0; at < whole.size(); at += at < 1500 ? 11 : 1 + whole.size() / 50) {
      auto bad = whole;
      bad[at] ^= uint8_t(1 + at % 255);
      write_bytes(folder_ / "bad", bad);
      try {
        ReadVideoOptions options;
        options.max_frames = 50;
        options.max_pixels = 1'000'000;
        read_video(folder_ / "bad", options);
        read_comment(folder_ / "bad");
      } catch (const Error&) {
      }
    }
  }
}

TEST_F(ReaderTest, DamagedGifComments) {
  auto whole = bytes_of(make("a.gif", 2));
  auto cut = whole;
  cut.pop_back();
  write_bytes(folder_ / "b.gif", cut);
  expect_error(ErrorCode::corrupt, {"b.gif"}, [&] { read_comment(folder_ / "b.gif"); });
  write_bytes(folder_ / "c.gif", {'G', 'I', 'F', '8', '9', 'a', 1, 0, 1, 0, 0, 0, 0, 0x99});
  expect_error(ErrorCode::corrupt, {"c.gif", "0x99"}, [&] { read_comment(folder_ / "c.gif"); });
}

}  // namespace
}  // namespace tachy
