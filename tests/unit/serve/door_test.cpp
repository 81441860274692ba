// Tests the worlds of a server that does other things as well: their addresses, who gets in, and when a world is
// opened and closed and the device cleared for it.
#include <atomic>

#include "door_case.h"

namespace tachy::test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class WorldDoors : public DoorTest {};

TEST_F(WorldDoors, ThePageIsUnderItsAddress) {
  open();
  EXPECT_THAT(get("/world/one").body, AllOf(HasSubstr("<canvas"), HasSubstr("\"one/main.js\"")));
  EXPECT_THAT(get("/world/one/").body, AllOf(HasSubstr("\"main.js\""), Not(HasSubstr("{{"))));
  EXPECT_THAT(get("/world/%6fne/?x=1").body, HasSubstr("<canvas"));
  for (const char* name :
       {"main.js", "page.css", "connection.js", "playback.js", "inputs.js", "graph.js", "busy.js", "key.js"})
    EXPECT_EQ(get(std::string("/world/two/") + name).status, 200u) << name;
  EXPECT_THAT(get("/world/one/state").body, HasSubstr("\"busy\":false"));
  EXPECT_THAT(get("/world/one/main.js").head, HasSubstr("Content-Security-Policy"));
  EXPECT_THAT(seen(), IsEmpty()) << "no world is opened for who only looks at the page";
}

TEST_F(WorldDoors, NothingElseIsThere) {
  open();
  for (const char* target :
       {"/", "/world", "/world/", "/world/three", "/world/three/", "/world/one/index.html",
        "/world/one/busy.html", "/world/one/x", "/world/one/../two/", "/world/one/recording", "/main.js"})
    EXPECT_EQ(get(target).status, 404u) << target;
  EXPECT_EQ(ask("POST", "/world/one", {}, "x").status, 405u);
  EXPECT_EQ(get("/world/one/picture").status, 405u);
  EXPECT_EQ(get("/world/one/socket").status, 426u);
  EXPECT_EQ(ask("POST", "/world/one/picture?session=", {}, "x").status, 403u);
}

TEST_F(WorldDoors, AWorldIsOpenWhileItIsVisited) {
  open();
  Visitor visitor;
  start(visitor, "one");
  EXPECT_THAT(seen(), ElementsAre("room", "opening one"));
  EXPECT_THAT(get("/world/one/state").body, HasSubstr("\"busy\":true"));
  visitor.close();
  ASSERT_TRUE(wait_for("no room"));
  EXPECT_THAT(seen(), ElementsAre("room", "opening one", "closed one", "no room"))
      << "others get the device back when the world is closed, and not sooner";
  Visitor second;
  start(second, "one");
  EXPECT_THAT(seen(), ElementsAre("room", "opening one", "closed one", "no room", "room", "opening one"));
}

TEST_F(WorldDoors, WhoReloadsThePageFindsTheWorldOpen) {
  door_options_.linger = std::chrono::seconds(60);
  open();
  for (int i = 0; i < 3; ++i) {
    Visitor visitor;
    start(visitor, "two");
    visitor.close();
    for (int k = 0; k < 1000 && get("/world/two/state").body.find("\"busy\":false") == std::string::npos; ++k)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_THAT(seen(), ElementsAre("room", "opening two"));
}

TEST_F(WorldDoors, OneVisitorHasOneOfTheWorlds) {
  door_options_.linger = std::chrono::seconds(60);
  open();
  Visitor first, second;
  start(first, "one");
  for (const char* path : {"/world/one", "/world/two"}) {
    second.path = path;
    EXPECT_EQ(second.open(port_), 503u) << path;
    EXPECT_EQ(get(path).status, 503u) << path;
  }
  EXPECT_TRUE(first.frame());
  first.close();
  for (int i = 0; i < 1000 && get("/world/two").status != 200; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  start(second, "two");
  EXPECT_THAT(seen(), ElementsAre("room", "opening one", "closed one", "opening two"))
      << "the device stays cleared, and no two worlds are open at once";
}

TEST_F(WorldDoors, AWorldThatCannotBeOpenedSaysWhy) {
  std::atomic<bool> broken{true};
  on_open_ = [&](const std::string&) {
    if (broken) fail(ErrorCode::out_of_memory, "`max_vram` is too small by 3 GiB");
  };
  open();
  Visitor visitor;
  visitor.path = "/world/one";
  ASSERT_EQ(visitor.open(port_), 101u);
  const auto end = visitor.event("closing");
  ASSERT_TRUE(end);
  EXPECT_EQ((*end)["reason"], "unopened");
  EXPECT_EQ((*end)["text"], "the world cannot be opened: max_vram is too small by 3 GiB");
  EXPECT_FALSE(visitor.receive());
  EXPECT_TRUE(wait_for("no room")) << "jobs go on";
  broken = false;
  Visitor second;
  start(second, "one");
}

// Messages that a page sends in the meantime steer nothing, and end nothing.
TEST_F(WorldDoors, WhoWaitsForAWorldMayLeave) {
  std::atomic<bool> may{false};
  on_open_ = [&](const std::string&) {
    while (!may) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  door_options_.play.limits.alive = std::chrono::milliseconds(50);
  open();
  Visitor visitor, other, next;
  visitor.path = other.path = "/world/one";
  ASSERT_EQ(visitor.open(port_), 101u);
  EXPECT_TRUE(visitor.event("state", "opening"));
  visitor.send(R"({"type":"input","keys":["W"],"stamp":1})");
  EXPECT_TRUE(visitor.event("alive")) << "the page hears that the server is there";
  EXPECT_EQ(other.open(port_), 503u);
  visitor.cut();
  for (int i = 0; i < 1000 && get("/world/one").status != 200; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  may = true;
  ASSERT_TRUE(wait_for("no room")) << "nobody came";
  EXPECT_THAT(seen(), ElementsAre("room", "opening one", "closed one", "no room"));
  start(next, "one");
}

TEST_F(WorldDoors, AServerEndsWhileAWorldIsPlayedOrOpened) {
  open();
  Visitor visitor;
  start(visitor, "one");
  close();
  EXPECT_THAT(seen(), ElementsAre("room", "opening one", "closed one", "no room"));
  on_open_ = [](const std::string&) { std::this_thread::sleep_for(std::chrono::milliseconds(200)); };
  open();
  Visitor second;
  second.path = "/world/two";
  ASSERT_EQ(second.open(port_), 101u);
  ASSERT_TRUE(wait_for("opening two"));
  close();
  EXPECT_TRUE(wait_for("closed two"));
  EXPECT_TRUE(wait_for("no room", 2));
}

TEST_F(WorldDoors, APictureBeginsAWalk) {
  open();
  Visitor visitor;
  visitor.path = "/world/one";
  ASSERT_EQ(visitor.open(port_), 101u);
  const std::string session = visitor.event("hello").value()["session"];
  const std::string target = "/world/one/picture?session=" + session;
  EXPECT_EQ(ask("POST", target, {{"Content-Length", "8388609"}}).status, 413u);
  EXPECT_EQ(ask("POST", "/world/two/picture?session=" + session, {}, "x").status, 403u);
  std::ifstream file(std::string(TACHY_SOURCE_DIR) + "/tests/golden/image_pipeline/first.png",
                     std::ios::binary);
  const std::string png{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(ask("POST", target, {}, png).status, 202u);
  EXPECT_TRUE(visitor.event("state", "running"));
  EXPECT_TRUE(visitor.frame());
}

}  // namespace
}  // namespace tachy::test
