// Tests who gets into the worlds of a server that has keys: a socket begins with a ticket, and nobody without one
// has a world opened or keeps others out.
#include "door_case.h"

namespace tachy::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class WorldTickets : public DoorTest {
 protected:
  void SetUp() override {
    DoorTest::SetUp();
    door_options_.ticket = [this](const std::string& ticket) { return std::exchange(good_, "") == ticket; };
  }
  // Opens a socket and sends that as its first message.
  bool begin(Visitor& visitor, const std::string& first) {
    visitor.path = "/world/one";
    return visitor.open(port_) == 101u && visitor.send(first);
  }
  std::string good_ = "tt-1";  // the sockets' thread takes it
};

TEST_F(WorldTickets, OnlyThePagesFilesAreOpen) {
  open();
  EXPECT_THAT(get("/world/one/").body, HasSubstr("data-tickets=\"needed\""));
  EXPECT_EQ(get("/world/one/main.js").status, 200u);
  const Headers key{{"Authorization", "Bearer good"}};
  for (const char* path : {"/world/one/state", "/world/one/recording?id=x"}) {
    EXPECT_EQ(get(path).status, 401u) << path;
    EXPECT_NE(get(path, key).status, 401u) << path;
  }
  EXPECT_EQ(ask("POST", "/world/one/picture", {}, "x").status, 401u);
  EXPECT_EQ(ask("POST", "/world/one/picture", key, "x").status, 403u) << "it has no visit";
}

TEST_F(WorldTickets, ATicketCountsOnce) {
  open();
  Visitor visitor, second;
  ASSERT_TRUE(begin(visitor, R"({"type":"ticket","ticket":"tt-1"})"));
  ASSERT_TRUE(visitor.event("hello"));
  visitor.send(R"({"type":"start"})");
  EXPECT_TRUE(visitor.frame());
  ASSERT_TRUE(begin(second, R"({"type":"ticket","ticket":"tt-1"})"));
  const auto end = second.event("closing");
  ASSERT_TRUE(end);
  EXPECT_EQ((*end)["reason"], "ticket");
  EXPECT_TRUE(visitor.frame());
}

TEST_F(WorldTickets, WithoutOneNoWorldIsOpened) {
  door_options_.play.limits.request = std::chrono::milliseconds(200);
  open();
  for (const char* first :
       {R"({"type":"ticket","ticket":"tt-2"})", R"({"type":"ticket"})", R"({"type":"start"})",
        R"({"type":"ticket","ticket":7})", "tt-1", R"({"type":"ticket","ticket":"x","y":1})"}) {
    Visitor visitor;
    ASSERT_TRUE(begin(visitor, first));
    EXPECT_TRUE(visitor.event("closing")) << first;
    EXPECT_FALSE(visitor.receive()) << first;
    EXPECT_EQ(visitor.reason(), 1008u) << first;
    good_ = "tt-1";
  }
  Visitor silent;
  silent.path = "/world/one";
  ASSERT_EQ(silent.open(port_), 101u);
  EXPECT_EQ(silent.event("closing").value()["reason"], "ticket");
  EXPECT_THAT(seen(), IsEmpty());
}

TEST_F(WorldTickets, WhoHasNoneKeepsNobodyOut) {
  open();
  std::vector<std::unique_ptr<Visitor>> silent;
  for (int i = 0; i < 8; ++i) {
    silent.push_back(std::make_unique<Visitor>());
    silent.back()->path = "/world/one";
    ASSERT_EQ(silent.back()->open(port_), 101u);
  }
  Visitor visitor;
  ASSERT_TRUE(begin(visitor, R"({"type":"ticket","ticket":"tt-1"})"));
  EXPECT_TRUE(visitor.event("hello"));
  EXPECT_EQ(get("/world/one").status, 200u) << "strangers are not told that somebody is here";
}

TEST_F(WorldTickets, SocketsWithoutATicketAreBounded) {
  door_options_.play.limits.connections = 4;
  open();
  std::vector<std::unique_ptr<Visitor>> silent;
  int in = 0;
  for (int i = 0; i < 8; ++i) {
    silent.push_back(std::make_unique<Visitor>());
    silent.back()->path = "/world/one";
    in += silent.back()->open(port_) == 101u;
  }
  EXPECT_LE(in, 4);
  EXPECT_GE(in, 3);
}

TEST_F(WorldTickets, AVisitorMayHaveTheKeyOrWait) {
  open();
  Visitor visitor, second;
  visitor.path = "/world/two";
  ASSERT_EQ(visitor.open(port_, "", "", "", {{"Authorization", "Bearer good"}}), 101u);
  EXPECT_TRUE(visitor.event("hello"));
  ASSERT_TRUE(begin(second, R"({"type":"ticket","ticket":"tt-1"})"));
  EXPECT_EQ(second.event("closing").value()["reason"], "busy");
  EXPECT_THAT(seen(), ElementsAre("room", "opening two"));
}

}  // namespace
}  // namespace tachy::test
