// Tests worlds that answer: the same seed and actions give the same bits; nothing remains of an earlier
// session; sessions end and continue; memory is as planned however long a session lasts; some things are
// refused.
#include "api/world.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <thread>

#include "../pipelines/tiny_model.h"
#include "../pipelines/world_model.h"
#include "media/picture/image_reader.h"

namespace tachy {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::shared_ptr<const Picture> picture(int width = 90, int height = 70, int of = 0) {
  Picture p{width, height, {}};
  for (int i = 0; i < width * height * 3; ++i)
    p.rgb.push_back(static_cast<uint8_t>(128 + 100 * std::sin(i * 0.013 * (of + 1) + of)));
  return std::make_shared<const Picture>(std::move(p));
}

struct Watched {
  std::vector<uint8_t> rgb;
  int64_t frames = 0;
  std::function<void(const RgbImage&, int64_t)> callback() {
    return [this](const RgbImage& image, int64_t index) {
      EXPECT_EQ(index, frames++);
      rgb.insert(rgb.end(), image.rgb.begin(), image.rgb.end());
    };
  }
};

const std::vector<WorldAction>& script() {
  static const std::vector<WorldAction> actions = {
      {{1, 0, 0, 0}, {0, 0.5f}}, {}, {{0, 0, 1, 0}, {-1, 0}}, {{0, 1, 0, 1}, {}}};
  return actions;
}

std::vector<uint8_t> walk(World& world, const std::vector<WorldAction>& actions) {
  Watched watched;
  for (const WorldAction& action : actions) {
    world.act(action, 17);
    const WorldBlock block = world.next_block(watched.callback());
    EXPECT_EQ(block.action, action);
    EXPECT_EQ(block.stamp, 17u);
    EXPECT_EQ(block.first_frame + block.frames, watched.frames);
    EXPECT_GT(block.first_frame_s, 0);
    EXPECT_GE(block.seconds, block.first_frame_s);
  }
  return std::move(watched.rgb);
}

const test::WorldModel& model() {
  static const test::WorldModel made({.world = test::WorldModel::world()});
  return made;
}

World open(const WorldOptions& options = {}, int threads = 2) {
  return World(model().path(), {.threads = threads}, options);
}

TEST(Worlds, SayWhatTheyAre) {
  const World world = open();
  const WorldInfo& i = world.info();
  EXPECT_EQ(i.kind, "universal");
  EXPECT_EQ(i.keys, (std::vector<std::string>{"W", "S", "A", "D"}));
  EXPECT_TRUE(i.mouse && i.takes_image && !i.takes_prompt);
  EXPECT_EQ((std::vector<double>{double(i.width), double(i.height), i.fps}),
            (std::vector<double>{48, 32, 12}));
  EXPECT_EQ((std::vector<int64_t>{i.first_block_frames, i.block_frames}), (std::vector<int64_t>{9, 12}));
  EXPECT_GT(i.peak_bytes, 0u);
  EXPECT_EQ(world.device(), "cpu");
}

TEST(Worlds, TheSameSeedAndActionsGiveTheSameBits) {
  World world = open(), again = open({}, 1);
  world.start({.image = picture(), .seed = 7});
  const std::vector<uint8_t> first = walk(world, script());
  EXPECT_EQ(first.size(), (9u + 3 * 12) * 48 * 32 * 3);
  world.reset();
  EXPECT_EQ(walk(world, script()), first) << "reset";
  again.start({.image = picture(), .seed = 7});
  EXPECT_EQ(walk(again, script()), first) << "another world, one thread";
  world.start({.image = picture(), .seed = 8});
  EXPECT_NE(walk(world, script()), first) << "seed";
  world.start({.image = picture(90, 70, 1), .seed = 7});
  EXPECT_NE(walk(world, script()), first) << "picture";
  world.start({.image = picture(), .seed = 7});
  EXPECT_EQ(walk(world, script()), first) << "start";
}

// An action changes the frames of its block's second latent frame and all later frames, but no earlier ones.
TEST(Worlds, ActionsMoveWhatComesAfterThem) {
  World world = open();
  world.start({.image = picture(), .seed = 7});
  const std::vector<uint8_t> one = walk(world, script());
  std::vector<WorldAction> actions = script();
  actions[1] = {{0, 1, 0, 0}, {1, 1}};
  world.reset();
  const std::vector<uint8_t> other = walk(world, actions);
  const size_t before = 9u * 48 * 32 * 3;
  EXPECT_TRUE(std::equal(one.begin(), one.begin() + before, other.begin()));
  EXPECT_FALSE(
      std::equal(one.begin() + before, one.begin() + before + 12 * 48 * 32 * 3, other.begin() + before));
  EXPECT_NE(std::vector(one.end() - 48 * 32 * 3, one.end()),
            std::vector(other.end() - 48 * 32 * 3, other.end()));
}

TEST(Worlds, AShorterWindowForgetsSooner) {
  World six = open({.window = 6}), three = open({.window = 3});
  six.start({.image = picture(), .seed = 7}), three.start({.image = picture(), .seed = 7});
  const std::vector<uint8_t> a = walk(six, script()), b = walk(three, script());
  const size_t first_block = 9u * 48 * 32 * 3;
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + first_block, b.begin()));
  EXPECT_NE(a, b);
}

TEST(Worlds, MemoryIsAsPlanned) {
  for (const int block : {3, 1}) {
    const test::WorldModel made({.world = test::WorldModel::world(block, 6)});
    const uint64_t before = Buffer::live_bytes();
    Buffer::reset_peak();
    World world(made.path(), {.threads = 2});
    world.start({.image = picture(), .seed = 7});
    for (int i = 0; i < 8; ++i) world.next_block({});
    EXPECT_EQ(Buffer::peak_bytes() - before, world.info().peak_bytes) << block;
  }
}

// Euler draws no noise between steps, so with one step the samplers agree.
TEST(Worlds, TheSamplerIsTheModels) {
  const auto walked = [](const char* timesteps, const char* sampler) {
    const test::WorldModel made(
        {.world = fmt::format(R"({{"width": 48, "height": 32, "timesteps": {}, "sampler": "{}", "block": 1,
                                   "first_block": 1, "window": 4}})",
                              timesteps, sampler)});
    World world(made.path(), {.threads = 2});
    world.start({.image = picture(), .seed = 7});
    return walk(world, script());
  };
  EXPECT_NE(walked("[1000, 500]", "euler"), walked("[1000, 500]", "lcm"));
  EXPECT_EQ(walked("[1000]", "euler"), walked("[1000]", "lcm"));
}

// The picture shows a post on a plain: the post stays in place while nothing is held, and moves left while
// the view turns right.
TEST(Worlds, TheOneThatShipsAnswers) {
  const std::filesystem::path folder = std::filesystem::path(TACHY_TEST_MODELS) / "world";
  const RgbFrame start = read_image(folder / "example" / "start.png");
  World world(folder, {.threads = 2});
  ASSERT_EQ(start.width, world.info().width);
  const size_t frame = start.rgb.size();
  // Returns the mean column of the red pixels, and the mean difference from the first picture.
  const auto look = [&](const std::vector<uint8_t>& film) {
    const uint8_t* p = film.data() + film.size() - frame;
    double columns = 0, red = 0, difference = 0;
    for (size_t i = 0; i < frame; i += 3) {
      difference += std::abs(p[i] - start.rgb[i]) + std::abs(p[i + 1] - start.rgb[i + 1]);
      if (p[i] > 2 * p[i + 1])
        columns += static_cast<double>(i / 3 % static_cast<size_t>(start.width)), ++red;
    }
    return std::pair(red > 0 ? columns / red : -1, difference / static_cast<double>(frame));
  };
  const auto made = [&](const WorldAction& action) {
    world.start(
        {.image = std::make_shared<Picture>(Picture{start.width, start.height, start.rgb}), .seed = 5});
    return walk(world, std::vector<WorldAction>(4, action));
  };
  const std::vector<uint8_t> turned = made({{}, {0, 0.1f}});
  const auto [column, still] = look(made({}));
  const auto [left, moved] = look(turned);
  EXPECT_NEAR(column, 88, 4);
  EXPECT_LT(still, 4);
  // The view turns by 2 degrees in each of 13 frames, which is about 40 of 160 columns.
  EXPECT_NEAR(left, column - 40, 12);
  EXPECT_GT(moved, 2 * still);
  EXPECT_EQ(made({{}, {0, 0.1f}}), turned);
}

TEST(Worlds, FiveHundredBlocksTakeWhatTenDo) {
  const test::WorldModel made({.world = test::WorldModel::world(1, 4)});
  World world(made.path(), {.threads = 2}, {.width = 16, .height = 16, .steps = 1});
  world.start({.image = picture(), .seed = 7});
  uint64_t live = 0;
  for (int i = 0; i < 500; ++i) {
    world.act({{static_cast<float>(i % 2), 0, 0, 0}, {0, static_cast<float>(i % 3 - 1)}});
    const WorldBlock block = world.next_block({});
    ASSERT_EQ(block.index, i);
    ASSERT_EQ(block.first_frame, i == 0 ? 0 : 4 * i - 3);
    if (i == 10) live = Buffer::live_bytes(), Buffer::reset_peak();
    ASSERT_TRUE(i < 10 || Buffer::live_bytes() == live) << i;
  }
  EXPECT_EQ(Buffer::peak_bytes(), live);
}

TEST(Worlds, StopEndsABlockFromAnotherThread) {
  World world = open();
  world.start({.image = picture(), .seed = 7});
  const std::vector<uint8_t> want = walk(world, script());
  world.reset();
  std::jthread other;
  bool asked = false;
  EXPECT_THROW(for (;;) world.next_block([&](const RgbImage&, int64_t) {
    if (!std::exchange(asked, true)) other = std::jthread([&] { world.stop(); });
  }),
               Error);
  EXPECT_THAT(test::refusal([&] { world.next_block({}); }, ErrorCode::invalid_argument), HasSubstr("ended"));
  other = {};
  world.reset();
  EXPECT_EQ(walk(world, script()), want);
  world.stop();  // called between blocks: the next one does not begin
  test::refusal([&] { world.next_block([](const RgbImage&, int64_t) { FAIL(); }); }, ErrorCode::cancelled);
}

TEST(Worlds, WhatIsNotFiniteIsSaidAndNotTheEnd) {
  World world = open();
  const auto embeds = [](float value) {
    return std::make_shared<const ImageEmbeds>(ImageEmbeds{std::vector<float>(3 * 12, value), {3, 12}});
  };
  EXPECT_THAT(test::refusal([&] { world.start({.image = picture(), .image_embeds = embeds(NAN)}); },
                            ErrorCode::numerical),
              HasSubstr("image encoder"));
  auto odd = *embeds(1e30f);
  for (size_t i = 0; i < odd.values.size(); i += 2) odd.values[i] = -3e38f;
  world.start({.image = picture(), .image_embeds = std::make_shared<const ImageEmbeds>(odd), .seed = 7});
  EXPECT_THAT(test::refusal([&] { world.next_block({}); }, ErrorCode::numerical),
              AllOf(HasSubstr("denoise"), HasSubstr("NaN")));
  world.start({.image = picture(), .seed = 7});
  World fresh = open();
  fresh.start({.image = picture(), .seed = 7});
  EXPECT_EQ(walk(world, script()), walk(fresh, script()));

  const test::WorldModel broken({.world = test::WorldModel::world(), .broken = true});
  World other(broken.path(), {.threads = 2});
  other.start({.image = picture()});
  test::refusal([&] { other.next_block({}); }, ErrorCode::numerical);
  other.reset();
  test::refusal([&] { other.next_block({}); }, ErrorCode::numerical);
}

TEST(Worlds, WrongActionsAreRefusedAndChangeNothing) {
  World world = open();
  test::refusal([&] { world.next_block({}); }, ErrorCode::invalid_argument);
  test::refusal([&] { world.reset(); }, ErrorCode::invalid_argument);
  world.start({.image = picture()});
  const WorldAction good = {{1, 0, 0, 0}, {0, 1}};
  world.act(good, 3);
  const auto refused = [&](const WorldAction& action) {
    return test::refusal([&] { world.act(action, 9); }, ErrorCode::invalid_argument);
  };
  EXPECT_THAT(refused({{1, 0, 0}, {}}), AllOf(HasSubstr("keyboard"), HasSubstr("4 values"), HasSubstr("3")));
  EXPECT_THAT(refused({{}, {0, 0, 0}}), AllOf(HasSubstr("mouse"), HasSubstr("2 values")));
  EXPECT_THAT(refused({{1, 0, 0, NAN}, {}}), HasSubstr("value 3"));
  EXPECT_THAT(refused({{}, {0, 1.5f}}), HasSubstr("-1 to 1"));
  const WorldBlock block = world.next_block({});
  EXPECT_EQ(block.action, good);
  EXPECT_EQ(block.stamp, 3u);
}

TEST(Worlds, WhatDoesNotFitTheModelIsRefused) {
  const auto refused = [&](const WorldOptions& options) {
    return test::refusal([&] { open(options); }, ErrorCode::invalid_argument);
  };
  EXPECT_THAT(refused({.width = 50}), AllOf(HasSubstr("`width`"), HasSubstr("16")));
  EXPECT_THAT(refused({.window = 2}), AllOf(HasSubstr("`window`"), HasSubstr("3")));
  EXPECT_THAT(refused({.steps = 4}), AllOf(HasSubstr("`steps`"), HasSubstr("1 to 3")));
  EXPECT_THAT(refused({.shift = 0.0}), HasSubstr("`shift`"));
  World world = open();
  EXPECT_THAT(test::refusal([&] { world.start({}); }, ErrorCode::invalid_argument), HasSubstr("`image`"));
  EXPECT_THAT(test::refusal([&] { world.start({.image = picture(), .prompt = "a cat"}); },
                            ErrorCode::invalid_argument),
              HasSubstr("`prompt`"));
  EXPECT_THAT(test::refusal([] { World(test::model_path(), {}).start({}); }, ErrorCode::invalid_argument),
              HasSubstr("`prompt`"));
  EXPECT_THAT(
      test::refusal([] { World(test::golden_path("image_pipeline/i2v"), {}); }, ErrorCode::unsupported),
      HasSubstr("image-to-video"));
  for (const char* world_json :
       {R"({"keys": ["W", "S"]})", R"({"timesteps": [500, 1000]})", R"({"block": 0})",
        R"({"sampler": "euler"})", R"({"timesteps": [1000, 500], "sampler": "unipc"})"}) {
    const test::WorldModel bad({.world = world_json});
    EXPECT_THAT(test::refusal([&] { World(bad.path(), {}); }, ErrorCode::corrupt), HasSubstr("world"));
  }
}

TEST(Worlds, VerifySaysWhatStartWouldFind) {
  const test::WorldModel made({.world = test::WorldModel::world()});
  {
    World world(made.path(), {.threads = 2});
    EXPECT_EQ(world.info().no_image_encoder, "");
    world.start({.image = picture(), .seed = 7});
    world.next_block({});
    world.verify({.image = picture()});
    EXPECT_THAT(test::refusal([&] { world.verify({}); }, ErrorCode::invalid_argument), HasSubstr("`image`"));
    EXPECT_EQ(world.next_block({}).index, 1) << "it begins nothing";
  }
  std::filesystem::remove(made.path() / "models_clip_tiny.safetensors");
  World world(made.path(), {.threads = 2});
  EXPECT_THAT(world.info().no_image_encoder, HasSubstr("`image_encoder`"));
  EXPECT_THAT(test::refusal([&] { world.verify({.image = picture()}); }, ErrorCode::not_found),
              AllOf(HasSubstr("`image_encoder`"), HasSubstr("`image_embeds`")));
  const auto embeds =
      std::make_shared<const ImageEmbeds>(ImageEmbeds{std::vector<float>(3 * 12, 0.5f), {3, 12}});
  world.verify({.image = picture(), .image_embeds = embeds});
  world.start({.image = picture(), .image_embeds = embeds, .seed = 7});
  EXPECT_EQ(world.next_block({}).index, 0);
}

TEST(Worlds, AFramesCallbackBeginsNothing) {
  World world = open();
  world.start({.image = picture(), .seed = 7});
  const std::vector<uint8_t> want = walk(world, script());
  world.reset();
  Watched watched;
  int refused = 0;
  world.act(script()[0]);
  world.next_block([&](const RgbImage& image, int64_t index) {
    for (const auto& what : std::vector<std::function<void()>>{
             [&] { world.start({.image = picture()}); }, [&] { world.reset(); },
             [&] { world.next_block({}); }, [&] { world.verify({.image = picture()}); },
             [&] { world.watch(nullptr); }})
      refused +=
          test::refusal(what, ErrorCode::invalid_argument).find("stop ends the block") != std::string::npos;
    watched.callback()(image, index);
  });
  EXPECT_EQ(refused, 5 * 9);
  EXPECT_TRUE(std::equal(watched.rgb.begin(), watched.rgb.end(), want.begin()));
  EXPECT_EQ(watched.frames, 9);
}

// If nothing is held, templerun's first key tells the model so.
TEST(Worlds, TemplerunRestsOnAKeyOfItsOwn) {
  const test::WorldModel made(
      {.golden = "templerun", .world = R"({"width": 48, "height": 32, "timesteps": [1000, 500]})"});
  World world(made.path(), {.threads = 2});
  EXPECT_EQ(world.info().kind, "templerun");
  EXPECT_EQ(world.info().keys.size(), 7u);
  EXPECT_FALSE(world.info().mouse);
  world.start({.image = picture(), .seed = 1});
  const std::vector<uint8_t> still = walk(world, {{}, {}});
  world.reset();
  EXPECT_EQ(walk(world, {{{1, 0, 0, 0, 0, 0, 0}, {}}, {{1, 0, 0, 0, 0, 0, 0}, {}}}), still);
  world.reset();
  EXPECT_NE(walk(world, {{{0, 1, 0, 0, 0, 0, 0}, {}}, {{0, 1, 0, 0, 0, 0, 0}, {}}}), still);
}

TEST(Worlds, OfAPromptHaveNoKeys) {
  World world(test::model_path(), {.threads = 2}, {.width = 32, .height = 16, .steps = 2, .window = 6});
  EXPECT_EQ(world.info().kind, "self-forcing");
  EXPECT_TRUE(world.info().keys.empty() && world.info().takes_prompt);
  world.start({.prompt = "a red cat", .seed = 3});
  const std::vector<uint8_t> cat = walk(world, {{}, {}, {}});
  world.start({.prompt = "a blue square", .seed = 3});
  EXPECT_NE(walk(world, {{}, {}, {}}), cat);
  world.start({.prompt = "a red cat", .seed = 3});
  EXPECT_EQ(walk(world, {{}, {}, {}}), cat);
  EXPECT_THAT(test::refusal(
                  [&] {
                    world.act({{1}, {}});
                  },
                  ErrorCode::invalid_argument),
              HasSubstr("0 values"));
}

// These tests open worlds on one engine, and make a clip of its model between their blocks.
TEST(WorldsOfAnEngine, HaveOneRank) {
  Engine engine(test::model_path(), {.threads = 2, .ranks = 2});
  try {
    const World world(engine, {.width = 32, .height = 16, .steps = 2, .window = 6});
    ADD_FAILURE() << "opened";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_THAT(e.message(), HasSubstr("a world cannot be divided among ranks"));
  }
}

TEST(WorldsOfAnEngine, ShareItsModel) {
  const WorldOptions small{.width = 32, .height = 16, .steps = 2, .window = 6};
  const auto begin = [](World& world) { world.start({.prompt = "a red cat", .seed = 3}); };
  const auto clip = [](Engine& engine) {
    std::vector<uint8_t> rgb;
    const VideoCallbacks collect{.frame = [&](const RgbImage& image, int64_t) {
      rgb.insert(rgb.end(), image.rgb.begin(), image.rgb.end());
    }};
    engine.generate({.prompt = "a cat"}, collect);
    return rgb;
  };
  World lone(test::model_path(), {.threads = 2}, small);
  begin(lone);
  const std::vector<uint8_t> want = walk(lone, {{}, {}, {}, {}});
  Engine own(test::model_path(), {.threads = 2});
  const std::vector<uint8_t> want_clip = clip(own);

  auto engine =
      std::make_unique<Engine>(test::model_path(), EngineOptions{.threads = 2, .weights = "packed"});
  const uint64_t before = Buffer::live_bytes();
  World one(*engine, small);
  const uint64_t first = Buffer::live_bytes() - before;
  World other(*engine, small);
  EXPECT_LT(Buffer::live_bytes() - before, 2 * first) << "the weights are there once";
  EXPECT_EQ(one.info().peak_bytes, other.info().peak_bytes);
  begin(one), begin(other);
  std::vector<uint8_t> a = walk(one, {{}}), b;
  EXPECT_EQ(clip(*engine), want_clip);
  engine.reset();  // the engine's worlds continue
  std::thread thread([&] {
    for (int i = 0; i < 4; ++i)
      other.next_block(
          [&](const RgbImage& image, int64_t) { b.insert(b.end(), image.rgb.begin(), image.rgb.end()); });
  });
  for (int i = 0; i < 3; ++i)
    one.next_block(
        [&](const RgbImage& image, int64_t) { a.insert(a.end(), image.rgb.begin(), image.rgb.end()); });
  thread.join();
  EXPECT_EQ(a, want);
  EXPECT_EQ(b, want);
}

// In float32, bytes differ from the CPU's by rounding; at level safe they repeat exactly.
TEST(WorldsOnGpu, AreAsOnTheCpu) {
  std::string why;
  if (!gpu_there(&why)) GTEST_SKIP() << why;
  World cpu = open(), gpu(model().path(), {.device = "cuda"}, {.level = "none"}),
        fast(model().path(), {.device = "cuda"});
  std::vector<std::vector<uint8_t>> made;
  for (World* world : {&cpu, &gpu, &fast, &fast}) {
    world->start({.image = picture(), .seed = 7});
    made.push_back(walk(*world, script()));
  }
  int most = 0;
  for (size_t i = 0; i < made[0].size(); ++i) most = std::max(most, std::abs(made[0][i] - made[1][i]));
  EXPECT_LE(most, 1);
  EXPECT_EQ(made[2], made[3]);
}

}  // namespace
}  // namespace tachy
