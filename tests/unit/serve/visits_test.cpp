// Tests visits: one at a time, from keys to pictures, what ends a visit and what does not, and that the next
// visit finds a free world.
#include "client.h"
#include "media/picture/image_reader.h"
#include "serve/messages.h"

namespace tachy::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class PageVisits : public ServerTest {};

TEST_F(PageVisits, KeysBecomePictures) {
  open(60);
  Visitor visitor;
  const auto hello = start(visitor);
  EXPECT_EQ(hello["keys"], (std::vector<std::string>{"W", "S", "A", "D"}));
  EXPECT_EQ(hello["width"], 160);
  EXPECT_EQ(hello["fps"], 60.0);
  visitor.send(R"({"type":"input","keys":["D"],"mouse":[0,0.5],"stamp":3})");
  uint64_t sequence = 0;
  for (int i = 0; i < 200; ++i) {
    const auto frame = visitor.frame();
    ASSERT_TRUE(frame);
    EXPECT_EQ(frame->bytes.substr(0, 4), "TYF1");
    if (i > 0) {
      EXPECT_EQ(Visitor::number(*frame, 8), sequence + 1) << "none is dropped for who reads";
    }
    sequence = Visitor::number(*frame, 8);
    if (Visitor::number(*frame, 24) != 3) continue;
    const std::vector<uint8_t> jpeg(frame->bytes.begin() + serve::kFrameHeaderBytes, frame->bytes.end());
    const RgbFrame picture = decode_image(jpeg, "frame");
    EXPECT_GT(picture.row(4)[3 * 34], 180) << "D is lit";
    EXPECT_LT(picture.row(4)[3 * 4], 90) << "W is not";
    EXPECT_GT(picture.row(4)[3 * 100 + 2], 180) << "the mouse's bar";
    return;
  }
  FAIL() << "the key never counted";
}

TEST_F(PageVisits, OneAtATime) {
  open();
  Visitor first, second;
  start(first);
  EXPECT_EQ(second.open(port_), 503u);
  const Reply page = get("/");
  EXPECT_EQ(page.status, 503u);
  EXPECT_THAT(page.body, testing::AllOf(HasSubstr("One visitor at a time"), HasSubstr("\"busy.js\"")));
  EXPECT_THAT(page.head, HasSubstr("Retry-After"));
  EXPECT_THAT(get("/state").body, HasSubstr("\"busy\":true"));
  EXPECT_TRUE(first.frame());
  first.close();
  wait_until_free();
  EXPECT_EQ(get("/").status, 200u);
  start(second);
  EXPECT_TRUE(second.frame());
}

TEST_F(PageVisits, AReloadFindsThePageFree) {
  open();
  unsigned status = 0;
  // The server looks again after a moment, in which a busy machine may not come to cut the socket.
  for (int i = 0; i < 10 && status != 200; ++i) {
    wait_until_free();
    Visitor visitor;
    start(visitor);
    std::thread leaves([&] {
      std::this_thread::sleep_for(100ms);
      visitor.cut();
    });
    status = get("/").status;
    leaves.join();
  }
  EXPECT_EQ(status, 200u) << "asked for just before the visitor is gone";
}

TEST_F(PageVisits, ACutSocketFreesTheWorld) {
  open();
  for (int i = 0; i < 5; ++i) {
    Visitor visitor;
    start(visitor);
    visitor.send(R"({"type":"input","keys":["W"],"stamp":1})");
    visitor.cut();
    wait_until_free();
  }
  const int64_t blocks = world_->blocks_made;
  std::this_thread::sleep_for(100ms);
  EXPECT_LE(world_->blocks_made, blocks + 1) << "nobody is there";
}

TEST_F(PageVisits, MessagesThatAreWrongEndTheVisit) {
  open();
  const auto ended = [&](const std::string& text, bool bytes = false) {
    Visitor visitor;
    start(visitor);
    bytes ? visitor.send_bytes(text) : visitor.send(text);
    const auto closing = visitor.event("closing");
    while (visitor.receive()) {
    }
    const unsigned code = visitor.reason();
    wait_until_free();
    return std::pair(code, closing ? (*closing)["text"].get<std::string>() : "");
  };
  EXPECT_EQ(ended("{}"), std::pair(1008u, std::string("a message has no 'type'")));
  EXPECT_THAT(ended(R"({"type":"input","keys":["Q"],"stamp":1})").second, HasSubstr("this model has no key"));
  EXPECT_THAT(ended(R"({"type":"seen","sequence":1000000})").second, HasSubstr("was not sent yet"));
  EXPECT_EQ(ended("{}", true).first, 1003u);
  EXPECT_EQ(ended(std::string(1025, 'x')).first, 1009u) << "more than 1 KiB";
  Visitor visitor;
  start(visitor);
  EXPECT_TRUE(visitor.frame());
}

TEST_F(PageVisits, AMessageOf1024BytesIsRead) {
  open();
  Visitor visitor;
  start(visitor);
  std::string text = R"({"type":"stop"})";
  text.insert(1, 1024 - text.size(), ' ');
  visitor.send(text);
  EXPECT_TRUE(visitor.event("state", "stopped"));
}

TEST_F(PageVisits, FasterThanTheRateIsReadAtTheRate) {
  options_.play.limits.messages_per_second = 200;
  options_.play.limits.messages_at_once = 20;
  open();
  Visitor visitor;
  start(visitor);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 1; i <= 120; ++i)
    ASSERT_TRUE(
        visitor.send(fmt::format(R"({{"type":"input","keys":[{}],"stamp":{}}})", i % 2 ? "\"W\"" : "", i)));
  EXPECT_TRUE(visitor.event("notice"));
  for (;;) {
    const auto frame = visitor.frame();
    ASSERT_TRUE(frame) << "the visit goes on";
    if (Visitor::number(*frame, 24) == 120) break;  // in the end the latest stamp counts
  }
  EXPECT_GT(std::chrono::steady_clock::now() - begin, 450ms) << "100 beyond the burst at 200 a second";
}

TEST_F(PageVisits, WhoNeverReadsIsSentAway) {
  options_.play.limits.stalled = 3s;
  open(240);
  Visitor visitor;
  ASSERT_EQ(visitor.open(port_), 101u);
  visitor.send(R"({"type":"start"})");
  visitor.send(R"({"type":"input","keys":["W"],"stamp":1})");  // a key is held, so it is not idle
  const auto begin = std::chrono::steady_clock::now();
  wait_until_free();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
  uint64_t frames = 0;
  std::string reason;
  while (const auto message = visitor.receive()) {
    if (!message->text)
      ++frames;
    else if (message->json()["type"] == "closing")
      reason = message->json()["reason"];
  }
  EXPECT_EQ(reason, "stalled");
  EXPECT_LE(frames, 8u) << "two blocks were on their way";
  EXPECT_GT(world_->blocks_made, 5) << "the world does not wait for it";
}

TEST_F(PageVisits, WhoReadsAgainIsSentTheNewest) {
  open(240);
  Visitor visitor;
  start(visitor);
  uint64_t last = 0;
  for (int frames = 0; frames < 8;)
    if (const auto message = visitor.receive(); message && !message->text)
      last = Visitor::number(*message, 8), ++frames;
  const int64_t blocks = world_->blocks_made;
  while (world_->blocks_made < blocks + 30) std::this_thread::sleep_for(1ms);
  visitor.send(fmt::format(R"({{"type":"seen","sequence":{}}})", last));
  const auto frame = visitor.frame();
  ASSERT_TRUE(frame);
  EXPECT_GT(Visitor::number(*frame, 8), last + 100) << "those between are gone";
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(visitor.frame());
}

TEST_F(PageVisits, WhoPressesNothingIsSentAway) {
  options_.play.limits.idle = 1s;
  open();
  Visitor visitor;
  start(visitor);
  visitor.send(R"({"type":"input","keys":["W"],"stamp":1})");
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < 1500ms)
    ASSERT_TRUE(visitor.frame()) << "a held key is no idleness";
  visitor.send(R"({"type":"input","keys":[],"stamp":2})");
  const auto closing = visitor.event("closing");
  ASSERT_TRUE(closing);
  EXPECT_EQ((*closing)["reason"], "idle");
  EXPECT_FALSE(visitor.event("closing"));
  EXPECT_EQ(visitor.reason(), 1000u);
}

// A visitor cannot press anything before the world has begun.
TEST_F(PageVisits, AWorldThatIsAboutToBeginIsWaitedFor) {
  options_.play.limits.idle = 200ms;
  open(120, 1);  // with blocks of a second each
  Visitor visitor;
  start(visitor);
  EXPECT_TRUE(visitor.frame());
  const auto closing = visitor.event("closing");
  ASSERT_TRUE(closing);
  EXPECT_EQ((*closing)["reason"], "idle");
}

TEST_F(PageVisits, WhoCanOnlyWatchIsNotIdle) {
  describe_ = [](WorldInfo& info) { info.keys.clear(), info.mouse = false; };
  options_.play.limits.idle = 200ms;
  open(120, 0.5);
  Visitor visitor;
  start(visitor);
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(visitor.frame()) << "of three blocks";
  visitor.send(R"({"type":"stop"})");
  const auto closing = visitor.event("closing");
  ASSERT_TRUE(closing);
  EXPECT_EQ((*closing)["reason"], "idle") << "there is nothing to watch";
}

TEST_F(PageVisits, AWordComesEveryFewSeconds) {
  options_.play.limits.alive = 50ms;
  open();
  Visitor visitor;
  ASSERT_EQ(visitor.open(port_), 101u);
  const auto hello = visitor.event("hello");
  ASSERT_TRUE(hello);
  EXPECT_EQ((*hello)["alive"], 50);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(visitor.event("alive")) << "though nothing runs";
}

// The video has 12 frames per second; here blocks are made as fast as possible.
TEST_F(PageVisits, TenMinutesTakeTheMemoryOfOne) {
  options_.play.limits.messages_per_second = 1e6;
  open(1e5);
  Visitor visitor;
  start(visitor);
  const auto resident_kb = [] {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmRSS")) return std::stol(line.substr(line.find(':') + 1));
    return 0L;
  };
  long warm = 0;
  for (int i = 0; i < 7200; ++i) {
    ASSERT_TRUE(visitor.frame());
    if (i % 4 == 0)
      visitor.send(fmt::format(R"({{"type":"input","keys":[{}],"stamp":{}}})", i % 8 ? "\"W\"" : "", i));
    if (i == 720) warm = resident_kb();
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // these make memory grow
  EXPECT_LT(resident_kb() - warm, 3072);
#endif
  EXPECT_GT(warm, 0);
}

TEST_F(PageVisits, ARecordingIsADownload) {
  open();
  Visitor visitor;
  start(visitor);
  visitor.send(R"({"type":"record","on":true})");
  EXPECT_TRUE(visitor.event("recording", "on"));
  for (int i = 0; i < 24; ++i) visitor.frame();
  visitor.send(R"({"type":"record","on":false})");
  const auto done = visitor.event("recording", "done");
  ASSERT_TRUE(done);
  EXPECT_GE((*done)["frames"], 20);
  const Reply file = get("/recording?id=" + (*done)["id"].get<std::string>());
  EXPECT_EQ(file.status, 200u);
  EXPECT_EQ(file.body.size(), (*done)["bytes"].get<size_t>());
  EXPECT_EQ(file.body.substr(4, 4), "ftyp");
  EXPECT_THAT(file.head, testing::AllOf(HasSubstr("video/mp4"), HasSubstr("attachment")));
}

TEST_F(PageVisits, ServersStopWhileSomebodyIsThere) {
  for (int i = 0; i < 3; ++i) {
    open();
    Visitor visitor;
    start(visitor);
    close();
    while (visitor.receive()) {
    }
  }
}

}  // namespace
}  // namespace tachy::test
