// `tachyscope world` turns a script into frames. The tests cover which action a block follows, how long the
// video is, what is reported on the way, and what is refused. tests/reference/world_compare.py checks that
// its frames are the reference's.
#include <nlohmann/json.hpp>

#include "../pipelines/world_model.h"
#include "binary.h"
#include "cli/world_actions.h"
#include "media/picture/image_reader.h"

namespace tachy::test {
namespace {

using cli::action_of_block;
using cli::WorldScript;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

class WorldCommand : public CliTest {
 protected:
  Done world(std::vector<std::string> more) {
    std::vector<std::string> args = {
        "world", "-m", model_.path().string(), "-t", "2", "-i", golden("image_pipeline/first.png")};
    args.insert(args.end(), more.begin(), more.end());
    return run(args);
  }
  // Returns only the pixels of the frames: the files also say how they were made.
  std::vector<std::vector<uint8_t>> frames(const std::string& folder) {
    std::vector<std::vector<uint8_t>> out;
    for (int i = 0; fs::exists(path(folder) / fmt::format("frame_{:04}.png", i)); ++i)
      out.push_back(read_image(path(folder) / fmt::format("frame_{:04}.png", i)).rgb);
    return out;
  }
  // Returns what a page reports about itself; then ends the page.
  json page_of(const std::vector<std::string>& args) {
    const pid_t child = start(args);
    json page;
    for (int i = 0; i < 2000 && page.is_null(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const std::string said = read_text(folder_.string() + ".out");
      if (said.ends_with("\n")) page = json::parse(said);
    }
    kill(child, SIGINT);
    const Done done = finish(child);
    EXPECT_EQ(done.code, 130) << done.err;
    return page;
  }
  WorldModel model_{{.world = WorldModel::world()}};
};

TEST_F(WorldCommand, InfoHasTheWorldsOwnDefaults) {
  const Done done = run({"info", TACHY_SOURCE_DIR "/models/world", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(json::parse(done.out).at("defaults"),
            json({{"size", "160x96"}, {"fps", "12"}, {"steps", "8"}, {"window", "12"}}));
}

TEST_F(WorldCommand, TheSameScriptAndSeedGiveTheSameFrames) {
  write("walk.json",
        R"({"fps": 10, "actions": [{"frames": 9, "keys": ["W", "D"], "mouse": [0, 0.5]}, {"frames": 12},
                         {"frames": 7, "keys": ["A"]}]})");
  for (const char* name : {"a", "b", "c", "d", "e"}) fs::create_directory(path(name));
  const Done done = world({"--actions", "walk.json", "--seed", "3", "-o", "a/", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  ASSERT_EQ(world({"--actions", "walk.json", "--seed", "3", "-o", "b/", "-q"}).code, 0);
  ASSERT_EQ(world({"--actions", "walk.json", "--seed", "4", "-o", "c/", "-q"}).code, 0);
  ASSERT_EQ(world({"--actions", "walk.json", "--seed", "3", "-o", "d/", "--seconds", "1", "-q"}).code, 0);
  ASSERT_EQ(world({"--frames", "28", "--seed", "3", "-o", "e/", "-q"}).code, 0);
  const auto a = frames("a"), d = frames("d"), e = frames("e");
  EXPECT_EQ(a.size(), 28u) << "of 9 + 12 + 12 frames";
  EXPECT_EQ(frames("b"), a);
  EXPECT_NE(frames("c"), a);
  ASSERT_EQ(d.size(), 10u) << "the script has 10 a second";
  EXPECT_TRUE(std::equal(d.begin(), d.end(), a.begin()));
  ASSERT_EQ(e.size(), 28u);
  EXPECT_NE(e, a) << "nothing is held without a script";

  std::istringstream lines(done.out);
  std::vector<json> events;
  for (std::string line; std::getline(lines, line);) events.push_back(json::parse(line));
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0]["kind"], "universal");
  EXPECT_GT(events[0]["peak_bytes"], 0);
  EXPECT_EQ(events[1]["frames"], 9);
  EXPECT_EQ(events[3]["first_frame"], 21);
  EXPECT_GE(events[3]["seconds"], events[3]["first_frame_seconds"]);
  EXPECT_EQ(events[4]["frames"], 28);
}

TEST_F(WorldCommand, ScriptsThatAreWrongAreRefusedWithTheirEntry) {
  const auto refused = [&](const std::string& script, int code, const std::vector<std::string>& more = {}) {
    write("walk.json", script);
    std::vector<std::string> args = {"--actions", "walk.json", "-o", "a.mp4"};
    args.insert(args.end(), more.begin(), more.end());
    const Done done = world(args);
    EXPECT_EQ(done.code, code) << done.err;
    EXPECT_EQ(files(), (std::set<std::string>{"walk.json"}));
    EXPECT_THAT(done.err, HasSubstr("walk.json"));
    return done.err;
  };
  EXPECT_THAT(refused("{\"actions\": [", 4), HasSubstr("line 1, column 14"));
  EXPECT_THAT(refused("[]", 2), HasSubstr("an object"));
  EXPECT_THAT(refused("{}", 2), HasSubstr("actions"));
  EXPECT_THAT(refused(R"({"actions": []})", 2), HasSubstr("at least one"));
  EXPECT_THAT(refused(R"({"actions": [{"frames": 3}], "speed": 2})", 2), HasSubstr("'speed' is unknown"));
  EXPECT_THAT(refused(R"({"fps": 0, "actions": [{"frames": 3}]})", 2), HasSubstr("0.1 to 240"));
  EXPECT_THAT(refused(R"({"actions": [{"frames": 3}, {"frames": 0}]})", 2),
              AllOf(HasSubstr("actions[1]"), HasSubstr("frames"), HasSubstr("got 0")));
  EXPECT_THAT(refused(R"({"actions": [{"frames": 2.5}]})", 2), HasSubstr("got 2.5"));
  EXPECT_THAT(refused(R"({"actions": [{"keys": ["W"]}]})", 2), HasSubstr("got nothing"));
  EXPECT_THAT(refused(R"({"actions": [{"frames": 3, "keys": ["Q"]}]})", 2),
              AllOf(HasSubstr("actions[0]"), HasSubstr("\"Q\" is unknown"), HasSubstr("W, S, A, D")));
  EXPECT_THAT(refused(R"({"actions": [{"frames": 3, "keys": "W"}]})", 2), HasSubstr("a list"));
  EXPECT_THAT(refused(R"({"actions": [{"frames": 3, "mouse": [0, 2]}]})", 2), HasSubstr("-1 to 1, got 2"));
  EXPECT_THAT(refused(R"({"actions": [{"frames": 3, "mouse": [0]}]})", 2), HasSubstr("[pitch, yaw]"));
  EXPECT_THAT(refused(R"({"actions": [{"frames": 20}]})", 2, {"--frames", "21"}),
              AllOf(HasSubstr("--frames"), HasSubstr("21"), HasSubstr("end after 20")));
}

TEST_F(WorldCommand, WhatIsMissingIsAskedFor) {
  EXPECT_THAT(world({"-o", "a.mp4"}).err, HasSubstr("--frames"));
  EXPECT_THAT(world({"--frames", "9"}).err, HasSubstr("--output"));
  const Done none = run({"world", "-m", model_.path().string(), "--frames", "9", "-o", "a.mp4"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("--image"));
  const Done other = run({"generate", "x", "-m", model_.path().string(), "-o", "a.mp4"});
  EXPECT_EQ(other.code, 5);
  EXPECT_THAT(other.err, AllOf(HasSubstr("tachyscope world"), HasSubstr(model_.path().string())));
  EXPECT_TRUE(files().empty());
  EXPECT_EQ(run({"info", model_.path().string()}).code, 0);
}

// tests/page checks how a browser shows the page.
TEST_F(WorldCommand, WithoutAnOutputItIsAPage) {
  const json page = page_of({"world", "-m", model_.path().string(), "-t", "2", "-i",
                             golden("image_pipeline/first.png"), "--port", "0", "--json"});
  ASSERT_FALSE(page.is_null());
  EXPECT_EQ(page["url"], fmt::format("http://127.0.0.1:{}/", page["port"].get<int>()));
  EXPECT_EQ(page["kind"], "universal");
  EXPECT_TRUE(files().empty());

  const Done both = world({"--port", "0", "--frames", "9", "-o", "a.mp4"});
  EXPECT_EQ(both.code, 2);
  EXPECT_THAT(both.err, HasSubstr("leave out --host"));
  EXPECT_THAT(world({"--actions", "walk.json"}).err, HasSubstr("--output"));
}

// No visitor could begin such a session, so there is no page on which each start fails.
TEST_F(WorldCommand, WhatNoVisitorCanMakeGoodIsRefusedBeforeThePage) {
  const auto refused = [&](std::vector<std::string> more, int code) {
    std::vector<std::string> args = {"world", "-m", model_.path().string(), "-t", "2"};
    if (std::find(more.begin(), more.end(), "-o") == more.end()) args.insert(args.end(), {"--port", "0"});
    args.insert(args.end(), more.begin(), more.end());
    const Done done = run(args);
    EXPECT_EQ(done.code, code) << done.err;
    return done.err;
  };
  const std::string picture = golden("image_pipeline/first.png"),
                    embeds = golden("image_pipeline/embeds_pair.safetensors");
  EXPECT_THAT(refused({"--prompt", "a cat"}, 2), AllOf(HasSubstr("--prompt"), HasSubstr("reads no text")));
  EXPECT_THAT(refused({"--image-embeds", embeds}, 2),
              AllOf(HasSubstr("--image-embeds"), HasSubstr("--image")));
  fs::remove(model_.path() / "models_clip_tiny.safetensors");
  for (const auto& more : std::vector<std::vector<std::string>>{
           {}, {"-i", picture}, {"-i", picture, "--frames", "9", "-o", "a.mp4"}})
    EXPECT_THAT(refused(more, 3), AllOf(HasSubstr("--image-encoder"), HasSubstr("--image-embeds")));
  EXPECT_TRUE(files().empty());
  const json page = page_of({"world", "-m", model_.path().string(), "-t", "2", "--port", "0", "--json", "-i",
                             picture, "--image-embeds", embeds});
  EXPECT_EQ(page["kind"], "universal") << "embeddings stand in for it";
}

TEST_F(WorldCommand, AnAddressThatNobodyCanAskIsExplained) {
  const pid_t child =
      start({"world", "-m", model_.path().string(), "-t", "2", "--host", "0.0.0.0", "--port", "0"});
  std::string said;
  for (int i = 0; i < 2000 && std::count(said.begin(), said.end(), '\n') < 2; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    said = read_text(folder_.string() + ".out");
  }
  kill(child, SIGINT);
  finish(child);
  EXPECT_THAT(said, AllOf(HasSubstr("http://0.0.0.0:"), HasSubstr("?token="),
                          HasSubstr("name or address in place of 0.0.0.0")));
}

// A folder as it is published has no config, and VAE and CLIP are one folder above the transformer's file.
TEST_F(WorldCommand, PublishedFoldersAreFoundAsTheyAre) {
  const WorldModel published({.published = true});
  std::set<std::vector<uint8_t>> pictures;
  for (const char* where : {"", "base_distilled_model", "base_distilled_model/base_distill.safetensors"}) {
    const Done done =
        run({"world", "-m", (published.path() / where).string(), "-i", golden("image_pipeline/first.png"),
             "--frames", "1", "--size", "32x16", "--steps", "1", "-o", "a.png", "--json", "-t", "2"});
    ASSERT_EQ(done.code, 0) << where << done.err;
    EXPECT_THAT(done.out, HasSubstr("universal"));
    pictures.insert(read_image(path("a.png")).rgb);
  }
  EXPECT_EQ(pictures.size(), 1u);
  fs::remove(published.path() / "Wan2.1_VAE.safetensors");
  const Done done = run({"world", "-m", published.path().string(), "-i", golden("image_pipeline/first.png"),
                         "--frames", "1", "-o", "b.png"});
  EXPECT_EQ(done.code, 3);
  EXPECT_THAT(done.err, HasSubstr("--vae"));
}

TEST(WorldScripts, ABlockFollowsWhatHoldsDuringMostOfIt) {
  WorldScript script;
  for (const float yaw : {0.1f, 0.2f, 0.3f}) script.actions.push_back({6, {{}, {0, yaw}}});
  const auto yaw = [&](int64_t first, int64_t frames) {
    const WorldAction& a = action_of_block(script, first, frames);
    return a.mouse.empty() ? 0.0f : a.mouse[1];
  };
  EXPECT_EQ(yaw(0, 9), 0.1f);
  EXPECT_EQ(yaw(3, 6), 0.1f) << "of equals the earlier one";
  EXPECT_EQ(yaw(4, 6), 0.2f);
  EXPECT_EQ(yaw(9, 12), 0.3f);
  EXPECT_EQ(yaw(18, 12), 0.0f) << "behind its end";
}

}  // namespace
}  // namespace tachy::test
