// Tests worlds in the C interface: what they report about themselves, that their bits are those of the C++
// interface, and codes and texts of errors.
#include <gmock/gmock.h>

#include "../pipelines/world_model.h"
#include "api/tachyscope_c.h"
#include "api/world.h"

namespace {

using testing::HasSubstr;

struct Seen {
  std::vector<uint8_t> rgb;
  int64_t stop_at = -1;
};
int on_world_frame(void* user, const uint8_t* rgb, int32_t width, int32_t height, int64_t index) {
  auto& seen = *static_cast<Seen*>(user);
  seen.rgb.insert(seen.rgb.end(), rgb, rgb + width * height * 3);
  return index == seen.stop_at;
}

TEST(CWorlds, OpenStartActStopResetClose) {
  const tachy::test::WorldModel model({.world = tachy::test::WorldModel::world()});
  const std::string path = model.path().string();
  tachyscope_world* world = nullptr;
  EXPECT_EQ(tachyscope_world_open((path + "/none").c_str(), "cpu", nullptr, &world), 3);
  const tachyscope_world_options odd = {.width = 50};
  EXPECT_EQ(tachyscope_world_open(path.c_str(), "cpu", &odd, &world), 2);
  EXPECT_THAT(tachyscope_last_error(), HasSubstr("`width`"));
  const tachyscope_world_options options = {.threads = 2};
  ASSERT_EQ(tachyscope_world_open(path.c_str(), "cpu", &options, &world), 0) << tachyscope_last_error();

  tachyscope_world_info info{};
  ASSERT_EQ(tachyscope_world_about(world, &info), 0);
  EXPECT_STREQ(info.kind, "universal");
  ASSERT_EQ(info.key_count, 4);
  EXPECT_STREQ(info.keys[2], "A");
  EXPECT_EQ(info.mouse, 1);
  EXPECT_EQ(info.block_frames, 12);
  EXPECT_GT(info.peak_bytes, 0u);

  EXPECT_EQ(tachyscope_world_next_block(world, nullptr, nullptr, nullptr), 2) << "nothing was started";
  std::vector<uint8_t> picture(60 * 40 * 3);
  for (size_t i = 0; i < picture.size(); ++i) picture[i] = static_cast<uint8_t>(i * 7);
  const tachyscope_world_start_with with = {.rgb = picture.data(), .width = 60, .height = 40, .seed = 5};
  ASSERT_EQ(tachyscope_world_start(world, &with), 0) << tachyscope_last_error();
  const float keys[] = {1, 0, 0, 1}, mouse[] = {0, 0.5f};
  EXPECT_EQ(tachyscope_world_act(world, keys, 3, mouse, 1), 2);
  EXPECT_THAT(tachyscope_last_error(), HasSubstr("4 values"));
  ASSERT_EQ(tachyscope_world_act(world, keys, 4, mouse, 99), 0);
  Seen all;
  tachyscope_world_block block{};
  for (int i = 0; i < 2; ++i) ASSERT_EQ(tachyscope_world_next_block(world, on_world_frame, &all, &block), 0);
  EXPECT_EQ(block.index, 1);
  EXPECT_EQ(block.first_frame, 9);
  EXPECT_EQ(block.frames, 12);
  EXPECT_EQ(block.stamp, 99u);
  EXPECT_EQ(all.rgb.size(), 21u * 48 * 32 * 3);

  Seen stopped;
  stopped.stop_at = 21;
  EXPECT_EQ(tachyscope_world_next_block(world, on_world_frame, &stopped, nullptr), 130);
  EXPECT_EQ(tachyscope_world_next_block(world, on_world_frame, &stopped, nullptr), 2)
      << "the session has ended";
  ASSERT_EQ(tachyscope_world_reset(world), 0);
  ASSERT_EQ(tachyscope_world_act(world, keys, 4, mouse, 0), 0);
  Seen again;
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(tachyscope_world_next_block(world, on_world_frame, &again, nullptr), 0);
  EXPECT_EQ(again.rgb, all.rgb);
  tachyscope_world_stop(world);
  EXPECT_EQ(tachyscope_world_next_block(world, on_world_frame, &again, nullptr), 130);
  tachyscope_world_close(world);

  tachy::World own(model.path(), {.threads = 1});
  own.start({.image = std::make_shared<tachy::Picture>(tachy::Picture{60, 40, picture}), .seed = 5});
  own.act({{1, 0, 0, 1}, {0, 0.5f}});
  std::vector<uint8_t> want;
  for (int i = 0; i < 2; ++i)
    own.next_block([&](const tachy::RgbImage& image, int64_t) {
      want.insert(want.end(), image.rgb.begin(), image.rgb.end());
    });
  EXPECT_EQ(all.rgb, want);
}

TEST(CWorlds, AreOpenedOnAnEngine) {
  const tachy::test::WorldModel model({.world = tachy::test::WorldModel::world()});
  tachyscope_engine* engine = nullptr;
  ASSERT_EQ(tachyscope_load(model.path().string().c_str(), 2, &engine), 0) << tachyscope_last_error();
  const std::vector<uint8_t> picture(60 * 40 * 3, 99);
  const tachyscope_world_start_with with = {.rgb = picture.data(), .width = 60, .height = 40, .seed = 5};
  tachyscope_world* worlds[2] = {};
  const tachyscope_world_options of_engine = {.threads = 2};
  EXPECT_EQ(tachyscope_world_open_on(engine, &of_engine, &worlds[0]), 2);
  EXPECT_THAT(tachyscope_last_error(), HasSubstr("threads"));
  const tachyscope_world_options options = {.steps = 1};
  for (tachyscope_world*& world : worlds)
    ASSERT_EQ(tachyscope_world_open_on(engine, &options, &world), 0) << tachyscope_last_error();
  tachyscope_free(engine);
  Seen seen[2];
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(tachyscope_world_start(worlds[i], &with), 0) << tachyscope_last_error();
    ASSERT_EQ(tachyscope_world_next_block(worlds[i], on_world_frame, &seen[i], nullptr), 0);
  }
  EXPECT_EQ(seen[0].rgb.size(), 9u * 48 * 32 * 3);
  EXPECT_EQ(seen[0].rgb, seen[1].rgb);
  for (tachyscope_world* world : worlds) tachyscope_world_close(world);
}

TEST(CWorlds, NullsAreErrorsNotCrashes) {
  tachyscope_world* world = nullptr;
  EXPECT_EQ(tachyscope_world_open_on(nullptr, nullptr, &world), 2);
  EXPECT_EQ(tachyscope_world_open(nullptr, "cpu", nullptr, &world), 2);
  EXPECT_EQ(tachyscope_world_about(nullptr, nullptr), 2);
  EXPECT_EQ(tachyscope_world_start(nullptr, nullptr), 2);
  EXPECT_EQ(tachyscope_world_act(nullptr, nullptr, 0, nullptr, 0), 2);
  EXPECT_EQ(tachyscope_world_next_block(nullptr, nullptr, nullptr, nullptr), 2);
  EXPECT_EQ(tachyscope_world_reset(nullptr), 2);
  tachyscope_world_stop(nullptr), tachyscope_world_close(nullptr);
}

}  // namespace
