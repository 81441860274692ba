// Tests the world's thread: blocks at the video's pace, the latest keys at the beginning of a block, orders
// that replace one another, errors that are reported and do not end the thread, recordings. orders_test.cpp
// tests orders that meet.
#include <filesystem>
#include <fstream>

#include "media/picture/jpeg.h"
#include "player_case.h"

namespace tachy::serve {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using test::drawn_start;

TEST_F(PlayerTest, NothingRunsUntilItIsStarted) {
  open(0.5);  // with two seconds to take the first frame before another one replaces it
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(world_->blocks_made, 0);
  player_->start({});
  EXPECT_EQ(event("state")["state"], "starting");
  EXPECT_EQ(event("state")["state"], "running");
  const auto first = frame();
  EXPECT_EQ(number_at(first, 4, 4), 1u);
  EXPECT_EQ(number_at(first, 8, 8), 0u);
  EXPECT_EQ(number_at(first, 16, 8), 0u);
  EXPECT_EQ(picture(first).width, 160);
}

TEST_F(PlayerTest, KeepsTheVideosPace) {
  open(80);  // with a block of four frames every 50 ms
  const auto begin = std::chrono::steady_clock::now();
  player_->start({});
  while (world_->blocks_made < 21) std::this_thread::sleep_for(1ms);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_GT(seconds, 0.9) << "a frame of 12.5 ms and 19 blocks of 50 ms";
  EXPECT_LT(seconds, 6);
}

TEST_F(PlayerTest, ABlockFollowsWhatIsHeldWhenItBegins) {
  open(40, 0.05);
  player_->start({});
  event("state", "running");
  // Keys change faster than blocks: the latest ones count. A block may yet begin between two changes, if seldom.
  uint64_t stamp = 0;
  bool latest = false;
  for (int i = 0; i < 10 && !latest; ++i) {
    const uint64_t last = stamp + 2;
    player_->act({{0, 0, 0, 1}, {0, 0}}, stamp + 1);
    player_->act({{1, 0, 0, 0}, {0, 0.1f}}, last);
    latest = true;
    for (uint64_t shown = stamp; shown != last;) {
      const auto bytes = frame();
      shown = number_at(bytes, 24, 8);
      ASSERT_TRUE(shown >= stamp && shown <= last) << shown;
      latest = latest && shown != stamp + 1;
      if (shown != last) continue;
      const RgbFrame seen = picture(bytes);
      EXPECT_GT(seen.row(4)[3 * 4], 180) << "W is lit";
      EXPECT_LT(seen.row(4)[3 * 34], 90) << "D is not";
    }
    stamp = last;
  }
  EXPECT_TRUE(latest);
}

TEST_F(PlayerTest, OrdersReplaceOneAnotherAndInterruptABlock) {
  open(12, 30);  // with a block of half a minute
  player_->start({});
  event("state", "running");
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t seed = 0; seed < 1000; ++seed) player_->start({.seed = seed, .prompt = {}, .picture = {}});
  for (;;)
    if (event("state", "running")["seed"] == 999) break;
  EXPECT_LT(world_->starts, 1000);
  player_->stop();
  event("state", "stopped");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  player_->start({.seed = {}, .prompt = {}, .picture = {}, .reset = true});
  EXPECT_EQ(event("state", "running")["seed"], 999);
}

TEST_F(PlayerTest, StoppedWhileItStartsItStops) {
  open();
  for (int i = 0; i < 50; ++i) {
    player_->start({});
    player_->stop();
    event("state", "stopped");
  }
  const int64_t blocks = world_->blocks_made;
  std::this_thread::sleep_for(30ms);
  EXPECT_EQ(world_->blocks_made, blocks);
}

TEST_F(PlayerTest, ABlockThatIsNotFiniteIsSaidAndAnotherStartGoesOn) {
  open();
  player_->start({.seed = test::kSeedOfNan, .prompt = {}, .picture = {}});
  const json error = event("state", "error");
  EXPECT_EQ(error["code"], "numerical");
  EXPECT_THAT(error["text"].get<std::string>(), testing::HasSubstr("not finite"));
  player_->start({.seed = 1, .prompt = {}, .picture = {}});
  EXPECT_EQ(event("state", "running")["run"], 2);
  while (number_at(frame(), 4, 4) != 2) {
  }
}

TEST_F(PlayerTest, WithoutAPictureItSaysSoAndTakesOne) {
  open(240, 0, {});
  player_->start({});
  const json error = event("state", "error");
  EXPECT_EQ(error["code"], "invalid argument");
  EXPECT_EQ(error["text"], "image: this world begins with a picture; give one");
  player_->start({.seed = {}, .prompt = {}, .picture = {'G', 'I', 'F', '8'}});
  event("state", "error");
  const auto golden = std::string(TACHY_SOURCE_DIR) + "/tests/golden/image_pipeline/first.png";
  std::ifstream file(golden, std::ios::binary);
  player_->start({.seed = {}, .prompt = {}, .picture = {std::istreambuf_iterator<char>(file), {}}});
  EXPECT_EQ(event("state", "running")["has_picture"], true);
}

TEST_F(PlayerTest, PicturesThatAreTooLargeAreRefusedByTheirHeader) {
  limits_.picture_pixels = 100;
  open();
  std::vector<uint8_t> png;
  JpegEncoder().encode(RgbFrame(20, 10).view(), png);
  player_->start({.seed = {}, .prompt = {}, .picture = png});
  EXPECT_THAT(event("state", "error")["text"].get<std::string>(), testing::HasSubstr("20x10 is too large"));
}

TEST_F(PlayerTest, TheNextVisitorFindsNothingOfTheLast) {
  open();
  std::vector<uint8_t> red;
  RgbFrame picture_of_mine(16, 16);
  for (size_t i = 0; i < picture_of_mine.rgb.size(); i += 3) picture_of_mine.rgb[i] = 200;
  JpegEncoder().encode(picture_of_mine.view(), red);
  player_->start({.seed = 5, .prompt = {}, .picture = red});
  event("state", "running");
  player_->act({{1, 0, 0, 0}, {0, 0}}, 9);
  while (number_at(frame(), 24, 8) != 9) {
  }
  const auto mine = picture(frame());
  EXPECT_GT(mine.row(90)[0], 150);
  // The next visit's first frames may be replaced before they are taken here, so it is much shorter than this one.
  uint64_t before = 0;
  while (before < 240) before = number_at(frame(), 8, 8);
  outbox_ = visit();
  player_->start({});
  EXPECT_EQ(event("state", "running")["seed"], 0);
  const auto bytes = frame();
  EXPECT_LT(number_at(bytes, 8, 8), before) << "frames are counted anew";
  EXPECT_EQ(number_at(bytes, 24, 8), 0u) << "what was held is held no more";
  EXPECT_LT(picture(bytes).row(90)[0], 60);
}

TEST_F(PlayerTest, WithoutAVisitorTheWorldStandsStill) {
  open();
  player_->start({});
  event("state", "running");
  std::weak_ptr<Outbox> gone = outbox_;
  player_->detach();
  outbox_.reset();
  for (int i = 0; i < 20'000 && !gone.expired(); ++i) std::this_thread::sleep_for(1ms);
  ASSERT_TRUE(gone.expired());
  const int64_t blocks = world_->blocks_made;
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(world_->blocks_made, blocks);
}

TEST_F(PlayerTest, ARecordingIsAVideoOfTheFrames) {
  open();
  player_->start({});
  player_->record(true);
  event("recording", "on");
  const int64_t from = world_->blocks_made;
  while (world_->blocks_made < from + 10) std::this_thread::sleep_for(1ms);
  player_->record(false);
  const json done = event("recording", "done");
  const auto file = shelf_.find(done["id"].get<std::string>());
  ASSERT_TRUE(file);
  EXPECT_EQ(shelf_.find(""), nullptr);
  EXPECT_EQ(shelf_.find("other"), nullptr);
  EXPECT_GE(file->frames, 36);
  EXPECT_EQ(done["frames"], file->frames);
  EXPECT_EQ(std::filesystem::file_size(file->path), file->bytes);
  const auto path = file->path;
  player_->record(true);
  event("recording", "on");
  player_->stop();
  event("recording");
  player_.reset();
  EXPECT_TRUE(std::filesystem::exists(path)) << "it stays while somebody holds it";
}

TEST_F(PlayerTest, RecordingsEndAndAreRemoved) {
  limits_.recording_seconds = 0.1;  // this is 24 frames
  open();
  player_->start({});
  player_->record(true);
  const json done = event("recording", "done");
  EXPECT_EQ(done["frames"], 24);
  const auto path = shelf_.find(done["id"].get<std::string>())->path;
  EXPECT_TRUE(std::filesystem::exists(path));
  shelf_.put(nullptr);
  // The world's thread may hold the recording for a moment after it has reported the end.
  for (int i = 0; i < 5000 && std::filesystem::exists(path.parent_path()); ++i)
    std::this_thread::sleep_for(1ms);
  EXPECT_FALSE(std::filesystem::exists(path.parent_path()));
}

TEST_F(PlayerTest, AVisitorWhoNeverReadsHoldsOneBlock) {
  open();
  player_->start({});
  while (world_->blocks_made < 200) std::this_thread::sleep_for(1ms);
  EXPECT_LE(outbox_->frames.size(), 4u);
  EXPECT_GT(outbox_->frames.dropped(), 700u);
}

}  // namespace
}  // namespace tachy::serve
