#include "media/video/background_writer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <functional>
#include <new>
#include <thread>

#include "base/error.h"
#include "media_testing.h"

namespace tachy {
namespace {
using namespace tachy::testing;
using Clock = std::chrono::steady_clock;

constexpr int kWidth = 64, kHeight = 48, kCount = 40;

// A writer that fails and waits on command; the first byte of each frame identifies it.
class FakeWriter final : public VideoWriter {
 public:
  using Hook = std::function<void(int)>;
  FakeWriter(int width, int height, Hook on_prepare, Hook on_write)
      : VideoWriter("fake", width, height, {}), on_prepare_(on_prepare), on_write_(on_write) {}

 protected:
  struct Number final : Ready {
    int value = 0;
    size_t bytes() const override { return sizeof value; }
  };
  std::unique_ptr<Ready> prepare_frame(RgbView frame) override {
    auto ready = std::make_unique<Number>();
    ready->value = frame.rgb[0];
    if (on_prepare_) on_prepare_(ready->value);
    return ready;
  }
  void write_frame(Ready& frame) override {
    if (on_write_) on_write_(static_cast<Number&>(frame).value);
  }
  void finish_file() override {}

 private:
  Hook on_prepare_, on_write_;
};

void pause(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

class BackgroundWriterTest : public MediaTest {
 protected:
  std::unique_ptr<VideoWriter> open(const std::string& name, const VideoOptions& options = {}) {
    return VideoWriter::open(folder_ / name, kWidth, kHeight, options);
  }
};

TEST_F(BackgroundWriterTest, SameBytesAsTheWriterItself) {
  for (const std::string ending : {".mp4", ".webm", ".gif", "_%02d.png"}) {
    auto direct = open("a" + ending);
    BackgroundWriter behind(open("b" + ending));
    for (int t = 0; t < kCount; ++t) {
      const RgbFrame frame = wave(kWidth, kHeight, t);
      direct->write(frame.view());
      behind.write(frame.view());  // the frame is gone before it is encoded
    }
    direct->finish();
    behind.finish();
  }
  for (const char* ending : {".mp4", ".webm", ".gif", "_00.png", "_39.png"})
    EXPECT_TRUE(bytes_of(folder_ / ("a" + std::string(ending))) ==
                bytes_of(folder_ / ("b" + std::string(ending))))
        << ending;
}

TEST_F(BackgroundWriterTest, FramesKeepTheirOrder) {
  std::vector<int> written, want;
  BackgroundWriter writer(std::make_unique<FakeWriter>(
      8, 8, [](int n) { pause(n * 7 % 5); }, [&](int n) { written.push_back(n); }));
  for (int n = 0; n < 100; ++n) {
    writer.write(flat(8, 8, uint8_t(n), 0, 0).view());
    want.push_back(n);
  }
  writer.finish();
  EXPECT_EQ(written, want);
}

TEST_F(BackgroundWriterTest, ErrorsReachTheCaller) {
  BackgroundWriter writer(open("a.mp4"));
  writer.write(wave(kWidth, kHeight, 0).view());
  writer.write(wave(kWidth + 2, kHeight, 1).view());
  EXPECT_THROW(writer.finish(), Error);
  EXPECT_THROW(writer.write(wave(kWidth, kHeight, 2).view()), Error);
  EXPECT_FALSE(fs::exists(folder_ / "a.mp4"));
}

// Whatever ends one of the threads, the caller that makes the frames is told and does not wait for ever.
TEST_F(BackgroundWriterTest, AThreadThatDies) {
  const auto dies = [](int n) {
    if (n == 5) throw std::bad_alloc();
    if (n == 6) throw 6;
    if (n == 7) fail(ErrorCode::io, "the disk is gone");
  };
  const auto feed = [](FakeWriter::Hook prepare, FakeWriter::Hook write, int culprit) {
    BackgroundWriter writer(std::make_unique<FakeWriter>(8, 8, prepare, write));
    writer.write(flat(8, 8, 1, 0, 0).view());
    writer.write(flat(8, 8, uint8_t(culprit), 0, 0).view());
    for (int i = 0; i < 10'000; ++i) writer.write(flat(8, 8, 2, 0, 0).view());
    writer.finish();
  };
  for (const bool in_prepare : {true, false}) {
    const FakeWriter::Hook none, prepare = in_prepare ? FakeWriter::Hook(dies) : none,
                                 write = in_prepare ? none : FakeWriter::Hook(dies);
    EXPECT_THROW(feed(prepare, write, 5), std::bad_alloc);
    EXPECT_THROW(feed(prepare, write, 6), int);
    expect_error(ErrorCode::io, {"the disk is gone"}, [&] { feed(prepare, write, 7); });
  }
}

TEST_F(BackgroundWriterTest, AFullDiskWhileTheEncoderIsBehind) {
  for (const char* name : {"a.mp4", "a.webm"}) {
    VideoOptions options;
    options.speed = "medium";
    FileSizeLimit limit(20'000);
    expect_error(ErrorCode::io, {name, "File too large"}, [&] {
      BackgroundWriter writer(VideoWriter::open(folder_ / name, 160, 96, options));
      for (int t = 0; t < kCount; ++t) writer.write(noise(160, 96, unsigned(t)).view());
      writer.finish();
    });
    EXPECT_TRUE(listing().empty()) << name;
  }
}

// 81 frames at 480p are taken from a GPU at once, whatever the encoder does; many more are not.
TEST_F(BackgroundWriterTest, WaitsOnlyForItsBound) {
  std::atomic<bool> cancel{false}, go_on{false};
  const auto stuck = [&](int) {
    while (!go_on) pause(1);
  };
  {
    BackgroundWriter writer(std::make_unique<FakeWriter>(832, 480, stuck, nullptr), &cancel);
    const RgbFrame frame = flat(832, 480, 1, 2, 3);
    for (int t = 0; t < 81; ++t) writer.write(frame.view());
    const size_t most = BackgroundWriter::kQueueBytes / frame.rgb.size() + 1;
    std::atomic<size_t> taken{81};
    std::thread later([&] {
      for (int i = 0; i < 20'000 && taken < most; ++i) pause(1);
      pause(100);  // in which it could take more
      cancel = true;
    });
    expect_error(ErrorCode::cancelled, {"cancelled"}, [&] {
      for (; taken < 1000; ++taken) writer.write(frame.view());
    });
    EXPECT_EQ(taken, most);
    later.join();
    go_on = true;
  }
}

TEST_F(BackgroundWriterTest, CancelledWhileTheEncoderCatchesUp) {
  for (const char* name : {"a.mp4", "a.webm", "a.gif", "a_%03d.png", "frames/"}) {
    std::atomic<bool> cancel{false};
    VideoOptions options;
    options.speed = "veryslow";
    options.cancel = &cancel;
    {
      BackgroundWriter writer(VideoWriter::open(folder_ / name, 320, 192, options), &cancel);
      for (int t = 0; t < 60; ++t) writer.write(noise(320, 192, unsigned(t)).view());
      cancel = true;
      expect_error(ErrorCode::cancelled, {"cancelled"}, [&] { writer.finish(); });
    }
    EXPECT_TRUE(listing().empty()) << name;
  }
}

// Half a second at the size and speed that jobs have, on two processors. The encoder finishes the frames that its
// threads are in. On a busy machine that takes longer, so processor time is counted.
TEST_F(BackgroundWriterTest, ACancelledEncoderEndsSoon) {
  const auto processor_seconds = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  std::atomic<bool> cancel{false};
  VideoOptions options;
  options.cancel = &cancel;
  std::vector<RgbFrame> frames;
  for (int t = 0; t < 60; ++t) frames.push_back(wave(1280, 704, t));
  auto writer = std::make_unique<BackgroundWriter>(VideoWriter::open(folder_ / "a.mp4", 1280, 704, options),
                                                   CancelFlag(&cancel));
  for (const RgbFrame& frame : frames) writer->write(frame.view());
  double asked = 0;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    asked = processor_seconds(), cancel = true;
  });
  expect_error(ErrorCode::cancelled, {"cancelled"}, [&] { writer->finish(); });
  writer.reset();
  const double ended = processor_seconds();
  canceller.join();
  EXPECT_LT(ended - asked, 2 * 0.5);
}

TEST_F(BackgroundWriterTest, CancelledWhileTheEncoderDrains) {
  std::atomic<bool> cancel{false};
  VideoOptions options;
  options.cancel = &cancel;
  {
    auto writer = VideoWriter::open(folder_ / "a.mp4", kWidth, kHeight, options);
    for (int t = 0; t < 10; ++t) writer->write(wave(kWidth, kHeight, t).view());
    cancel = true;
    expect_error(ErrorCode::cancelled, {"cancelled"}, [&] { writer->finish(); });
  }
  EXPECT_TRUE(listing().empty());
}

TEST_F(BackgroundWriterTest, WithoutFinishNothingIsLeft) {
  {
    BackgroundWriter writer(open("a.mp4"));
    for (int t = 0; t < kCount; ++t) writer.write(wave(kWidth, kHeight, t).view());
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace tachy
